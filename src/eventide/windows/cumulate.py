"""Cumulating windows: one start, ends that grow by a step up to the full size."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import polars as pl

from eventide.errors import windows as errors
from eventide.time import duration, format_duration
from eventide.windows.kind import MOST_WINDOWS, Axis, floor


@dataclass(frozen=True)
class Cumulate:
    """``[s, s + step)``, ``[s, s + 2 step)``, … up to ``[s, s + size)``; a slice is a step."""

    step: int
    size: int
    offset: int = 0
    axis: Axis = "time"
    shared = True

    @property
    def grid(self) -> tuple[int, int]:
        """Width and offset of the grid on which slices lie."""
        return self.step, self.offset

    def slice_of(self, at: pl.Expr) -> pl.Expr:
        """The step that holds ``at``."""
        return floor(at, self.step, self.offset)

    def windows_of(self, slices: pl.Series) -> pl.DataFrame:
        """All windows of the period that end after the slice begins."""
        steps = pl.int_range(1, self.size // self.step + 1, eager=True) * self.step
        return (
            pl.DataFrame({"slice": slices})
            .with_columns(start=floor(pl.col("slice"), self.size, self.offset))
            .join(pl.DataFrame({"length": steps}), how="cross")
            .filter(pl.col("start") + pl.col("length") > pl.col("slice"))
            .select("slice", "start", end=pl.col("start") + pl.col("length"))
        )

    def describe(self) -> str:
        """One line for ``explain()``."""
        shift = f", offset {format_duration(self.offset)}" if self.offset else ""
        return f"cumulating by {format_duration(self.step)} up to {format_duration(self.size)}{shift}"


def cumulate(step: str | timedelta, size: str | timedelta, *, offset: str | timedelta = "0s") -> Cumulate:
    """Running totals of a period: windows with one start whose end grows by ``step`` up to ``size``.

    >>> cumulate("1 hour", "1 day").describe()
    'cumulating by 1h up to 1d'
    """
    by = duration(step, what="step of cumulate()")
    length = duration(size, what="size of cumulate()")
    if length % by:
        raise errors.steps_do_not_fill(by, length)
    if length // by > MOST_WINDOWS:
        raise errors.too_many_windows("cumulate()", length // by, MOST_WINDOWS)
    return Cumulate(by, length, duration(offset, what="offset of cumulate()", zero=True, negative=True) % length)
