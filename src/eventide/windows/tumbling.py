"""Tumbling windows: equal, adjacent, each row in exactly one."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

import polars as pl

from eventide.time import duration, format_duration
from eventide.windows.kind import Axis, by_offset, floor, forgets


@dataclass(frozen=True)
class Tumbling:
    """Windows of ``size`` aligned to the epoch plus ``offset``; a slice is the window itself."""

    size: int
    offset: int = 0
    axis: Axis = "time"
    # Windows of an origin's own offsets: the column that holds them, and the first offset there is. Named by
    # ``describe``; left out of how a kind without them has always been shown.
    by: str | None = field(default=None, repr=False)
    first: int = field(default=1, repr=False)
    forget_after: int | None = field(default=None, repr=False)
    shared = False

    @property
    def grid(self) -> tuple[int, int]:
        """Width and offset of the grid on which slices lie."""
        return self.size, self.offset

    def slice_of(self, at: pl.Expr) -> pl.Expr:
        """The start of the window."""
        return floor(at, self.size, self.offset)

    def windows_of(self, slices: pl.Series) -> pl.DataFrame:
        """One window a slice."""
        return pl.DataFrame({"slice": slices, "start": slices, "end": slices + self.size})

    def describe(self) -> str:
        """One line for ``explain()``."""
        if self.axis == "rows":
            return f"every {self.size} rows{by_offset(self.by, self.first)}{forgets(self.forget_after)}"
        shift = f", offset {format_duration(self.offset)}" if self.offset else ""
        return f"tumbling {format_duration(self.size)}{shift}"


def tumbling(size: str | timedelta, *, offset: str | timedelta = "0s") -> Tumbling:
    """Windows of one length that follow each other without gap or overlap.

    >>> tumbling("10 minutes").describe()
    'tumbling 10m'
    >>> tumbling("1 day", offset="6 hours").describe()
    'tumbling 1d, offset 6h'
    """
    length = duration(size, what="size of tumbling()")
    return Tumbling(length, duration(offset, what="offset of tumbling()", zero=True, negative=True) % length)
