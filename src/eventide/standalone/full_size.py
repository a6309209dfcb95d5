"""When a window counts as full."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from eventide.errors import standalone as errors
from eventide.operators import columns as c
from eventide.standalone.bounds import time_and_rows
from eventide.time import MIN, format_duration
from eventide.windows import Axis
from eventide.windows.lifetime import is_complete


@dataclass(frozen=True)
class FullSize:
    """A window is full with a message that is ``delay`` past its end, or with its message number ``rows``."""

    delay: int = 0
    rows: int | None = None

    def passed(self, front: pl.Expr) -> pl.Expr:
        """Whether a stream that has come to ``front`` is far enough past the end of windows."""
        if self.delay:
            front = pl.when(front >= MIN + self.delay).then(front - self.delay).otherwise(MIN)
        return is_complete(pl.col(c.END), front)

    def reached(self, front: pl.Expr) -> pl.Expr:
        """Whether windows are full, by the stream or by what they hold."""
        return self.passed(front) if self.rows is None else self.passed(front) | (pl.col(c.ROWS) >= self.rows)

    def describe(self) -> str:
        """A few words for ``explain()``.

        >>> FullSize().describe(), FullSize(30_000_000, 100).describe()
        ('when full', 'when full (30s past the end, or 100 messages)')
        """
        parts = [f"{format_duration(self.delay)} past the end"] if self.delay else []
        parts += [] if self.rows is None else [f"{self.rows} messages"]
        return "when full" + (f" ({', or '.join(parts)})" if parts else "")


def full_size(full: Mapping[str, object] | None, axis: Axis) -> FullSize:
    """What a user says of it.

    >>> full_size({"rows": 100}, "time").describe()
    'when full (100 messages)'
    """
    time, rows = time_and_rows("full", full, zero=True)
    if time is not None and axis == "rows":
        raise errors.full_size_in_time_of_rows()
    return FullSize(time or 0, rows)
