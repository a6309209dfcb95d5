"""``count``: of rows, or of the values of a column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from eventide.aggregates.aggregate import NO_SUM, ROWS, Accumulator, Addends, Aggregate, Parts, Source


@dataclass(frozen=True)
class Count(Aggregate):
    """Counts rows, or the values of ``column`` that are not null."""

    column: str | None = None

    word: ClassVar[str] = "count"
    invertible: ClassVar[bool] = True

    def bind(self, source: Source) -> Parts:  # noqa: D102
        if self.column is not None:
            source.dtype(self.column, self)
        accumulator = counted(source, self.column)
        return Parts([accumulator], pl.col(accumulator.name))

    def __str__(self) -> str:
        return f"count({self.column or ''})"


def count(column: str | None = None) -> Count:
    """The number of rows; with a column, of its values that are not null.

    >>> from eventide.aggregates import try_out
    >>> try_out({"price": [5, None, 7]}, rows=count(), prices=count("price"))
    {'rows': 3, 'prices': 2}
    """
    return Count(column)


def counted(source: Source, column: str | None) -> Accumulator:
    """The accumulator that counts, shared by all that need to know how many values there were."""
    name = f"count({column or '*'})"
    merge = pl.col(name).sum()
    if source.diff is not None:
        diff = pl.col(source.diff).cast(pl.Int64)
        present = diff if column is None else diff.filter(pl.col(column).is_not_null())
        return Accumulator(name, pl.Int64(), present.sum(), merge, empty=0, ordered=False)
    if column is None:
        return RowCount(name, pl.Int64(), pl.len(), merge, empty=0, ordered=False)
    # Expr.count leaves Polars' fast path; a sum of ones stays on it.
    start = pl.col(column).is_not_null().cast(pl.UInt32).sum()
    return ValueCount(name, pl.Int64(), start, merge, empty=0, ordered=False, column=column)


@dataclass(frozen=True, eq=False)
class RowCount(Accumulator):
    """Counts rows."""

    def addends(self, frame: pl.DataFrame, *, starting: bool) -> Addends:  # noqa: D102
        return ROWS if starting else frame[self.name]


@dataclass(frozen=True, eq=False)
class ValueCount(Accumulator):
    """Counts values. Where a column has no nulls, that is the number of rows."""

    column: str = ""

    def starting(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.Expr:  # noqa: D102
        return self.start if rows[self.column].null_count() else pl.len()

    def addends(self, frame: pl.DataFrame, *, starting: bool) -> Addends:  # noqa: D102
        if not starting:
            return frame[self.name]
        return NO_SUM if frame[self.column].null_count() else ROWS
