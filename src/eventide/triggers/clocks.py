"""Triggers on processing time: the batch's own clock, never a worker's."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import polars as pl

from eventide.errors import triggers as errors
from eventide.time import duration, format_duration
from eventide.triggers.combinators import Repeatedly, repeatedly
from eventide.triggers.trigger import ADDED, NOW, Changes, Column, Compiled, Finish


@dataclass(frozen=True)
class AfterProcessingTime:
    """Fires once, ``delay`` after the first row that joined since it began.

    Aligned, it fires at the next multiple of ``delay``, plus ``offset``.
    """

    delay: int
    aligned: bool = False
    offset: int = 0

    def finish(self) -> Finish:
        """As soon as the time has passed."""
        return Finish.ANY_TIME

    def compile(self, path: str) -> Compiled:
        """One due time a pane."""
        return _Timer(self.delay, self.aligned, self.offset, f"{path}.due")

    def describe(self) -> str:
        """One line for ``explain()``."""
        if self.aligned:
            behind = f" plus {format_duration(self.offset)}" if self.offset else ""
            return f"at the next full {format_duration(self.delay)}{behind} of processing time"
        return f"{format_duration(self.delay)} of processing time after the first new row"


@dataclass(frozen=True)
class _Timer:
    delay: int
    aligned: bool
    offset: int
    name: str

    def columns(self) -> list[Column]:
        return [Column(self.name, pl.Int64(), pl.lit(None, pl.Int64), "min", due=True)]

    def add(self, when: pl.Expr, changes: Changes) -> None:
        multiple = ((NOW - self.offset) // self.delay + 1) * self.delay + self.offset
        due = multiple if self.aligned else NOW + self.delay
        changes.set(self.name, when & (ADDED > 0) & pl.col(self.name).is_null(), due)

    def fires(self) -> pl.Expr:
        return (pl.col(self.name) <= NOW).fill_null(False)

    def fired(self, when: pl.Expr, changes: Changes) -> pl.Expr:
        return when

    def moved(self, when: pl.Expr, changes: Changes) -> None:
        """The earliest due time of merged sessions stands."""

    def reset(self, when: pl.Expr, changes: Changes) -> None:
        changes.set(self.name, when, pl.lit(None, pl.Int64))


def after_processing_time(delay: str | timedelta) -> AfterProcessingTime:
    """Once, so long after the first row on the batch's clock.

    >>> after_processing_time("10 seconds").describe()
    '10s of processing time after the first new row'
    """
    return AfterProcessingTime(duration(delay, what="delay of after_processing_time()"))


def every(period: str | timedelta, *, aligned: bool = False, offset: str | timedelta | None = None) -> Repeatedly:
    """Again and again while rows come: at most once a ``period``; aligned: on the full period of the clock.

    ``offset`` moves the full periods: every two minutes with an offset of one is 12:01, 12:03, and so on.

    >>> every("10 seconds").describe()
    'repeatedly (10s of processing time after the first new row)'
    >>> every("1 minute", aligned=True).describe()
    'repeatedly (at the next full 1m of processing time)'
    >>> every("2 minutes", aligned=True, offset="1 minute").describe()
    'repeatedly (at the next full 2m plus 1m of processing time)'
    """
    length = duration(period, what="period of every()")
    if offset is None:
        return repeatedly(AfterProcessingTime(length, aligned))
    if not aligned:
        raise errors.offset_unaligned()
    behind = duration(offset, what="offset of every()", zero=True, negative=True)
    return repeatedly(AfterProcessingTime(length, aligned, behind % length))
