"""What sets one watermark strategy apart from another: what it reads off rows, or off the clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import polars as pl

from eventide.time import FIRST, LAST, format_duration, time_column
from eventide.watermarks.summaries import RowMarks, behind


class Rule(Protocol):
    """What sets one strategy apart from another. A rule holds no state."""

    @property
    def name(self) -> str:
        """The public function that makes it."""

    @property
    def declared(self) -> bool:
        """Whether the producer promises the values, so that one that goes back is an error."""

    def columns(self) -> tuple[str, ...]:
        """The columns that the rule itself reads, besides event time."""

    def describe(self) -> str:
        """A few words for ``explain()``."""

    def unusable(self, rows: pl.DataFrame) -> pl.Series | None:
        """The rows that declare something that is no instant; None when there are none."""

    def marks(self, rows: pl.DataFrame, times: pl.Series, future: pl.Series | None) -> RowMarks | None:
        """What each row says of its origin's time, or None if rows say nothing."""

    def at(self, now: int) -> int | None:
        """The watermark that the batch's time alone gives, or None."""


@dataclass(frozen=True, slots=True)
class BoundedDelay:
    """The highest event time of an origin, less ``delay``."""

    delay: int
    name: str = "bounded_delay"
    declared = False

    def columns(self) -> tuple[str, ...]:
        """None: event time is enough."""
        return ()

    def describe(self) -> str:
        """The delay, if there is one."""
        return f"bounded delay {format_duration(self.delay)}" if self.name == "bounded_delay" else self.name

    def unusable(self, rows: pl.DataFrame) -> pl.Series | None:
        """Rows declare nothing."""
        return None

    def marks(self, rows: pl.DataFrame, times: pl.Series, future: pl.Series | None) -> RowMarks | None:
        """Event times, without those too far ahead."""
        return RowMarks(_without(times, future), delay=self.delay)

    def at(self, now: int) -> int | None:
        """The clock says nothing."""
        return None


@dataclass(frozen=True, slots=True)
class Punctuated:
    """Rows carry watermarks in a column of their own; null says nothing."""

    column: str
    name = "punctuated"
    declared = True

    def columns(self) -> tuple[str, ...]:
        """The column with the watermarks."""
        return (self.column,)

    def describe(self) -> str:
        """The column with the watermarks."""
        return f"punctuated by {self.column!r}"

    def unusable(self, rows: pl.DataFrame) -> pl.Series | None:
        """Rows that declare something that is no instant; None when there are none."""
        said, bad = time_column(rows, self.column)
        low, high = said.min(), said.max()
        if low is not None and (low < FIRST or high > LAST):  # type: ignore[operator]
            beyond = ~said.is_between(FIRST, LAST).fill_null(True)
            bad = beyond if bad is None else bad | beyond
        return bad

    def marks(self, rows: pl.DataFrame, times: pl.Series, future: pl.Series | None) -> RowMarks | None:
        """The declared watermarks. A row with one is alive even if it has no time of its own."""
        said = _without(time_column(rows, self.column)[0], future)
        alive = _without(times, future).is_not_null() | said.is_not_null()
        return RowMarks(said, alive=alive, declared=True)

    def at(self, now: int) -> int | None:
        """The clock says nothing."""
        return None


@dataclass(frozen=True, slots=True)
class ProcessingTime:
    """The batch's time less ``delay``, whatever the rows say."""

    delay: int
    name = "processing_time"
    declared = False

    def columns(self) -> tuple[str, ...]:
        """None."""
        return ()

    def describe(self) -> str:
        """The delay behind the clock."""
        return f"processing time, {format_duration(self.delay)} behind"

    def unusable(self, rows: pl.DataFrame) -> pl.Series | None:
        """Rows declare nothing."""
        return None

    def marks(self, rows: pl.DataFrame, times: pl.Series, future: pl.Series | None) -> RowMarks | None:
        """Rows say nothing."""
        return None

    def at(self, now: int) -> int | None:
        """The batch's time less the delay."""
        return behind(now, self.delay)


@dataclass(frozen=True, slots=True)
class Noted:
    """Cuts of the stream bring the watermark; rows say how far its segments have been read."""

    stream: str
    address: str = field(repr=False, compare=False)  # where hosts find the cuts; may hold a password
    token: str | None = field(default=None, repr=False, compare=False)
    identity: str = field(default="", repr=False, compare=False)
    """What cuts call it: streams of the same name in several stores must not be mixed up."""
    segment: str = "_segment"
    offset: str = "_offset"
    passed: str = "_mark"
    name = "noted"
    declared = False

    def columns(self) -> tuple[str, ...]:
        """The columns that say where in the stream a row was."""
        return (self.segment, self.offset, self.passed)

    def describe(self) -> str:
        """The stream."""
        return f"as noted by the writers of {self.stream!r}"

    def unusable(self, rows: pl.DataFrame) -> pl.Series | None:
        """Rows declare nothing."""
        return None

    def marks(self, rows: pl.DataFrame, times: pl.Series, future: pl.Series | None) -> RowMarks | None:
        """Rows say nothing of time, only that the stream is not silent."""
        return RowMarks(pl.Series([None], dtype=pl.Int64).new_from_index(0, rows.height), alive=times.is_not_null())

    def at(self, now: int) -> int | None:
        """The clock says nothing."""
        return None


@dataclass(frozen=True, slots=True)
class NoWatermark:
    """Event time never advances by itself; only notes from outside move it.

    ``stated`` is False where a stream names no watermark at all, rather than ``ev.no_watermark()``.
    """

    stated: bool = field(default=True, repr=False, compare=False)
    name = "no_watermark"
    declared = False

    def columns(self) -> tuple[str, ...]:
        """None."""
        return ()

    def describe(self) -> str:
        """That there is none."""
        return "no watermark"

    def unusable(self, rows: pl.DataFrame) -> pl.Series | None:
        """Rows declare nothing."""
        return None

    def marks(self, rows: pl.DataFrame, times: pl.Series, future: pl.Series | None) -> RowMarks | None:
        """Rows say nothing."""
        return None

    def at(self, now: int) -> int | None:
        """The clock says nothing."""
        return None


def _without(values: pl.Series, mask: pl.Series | None) -> pl.Series:
    return values if mask is None else values.set(mask, None)
