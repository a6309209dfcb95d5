"""``var`` and ``std`` of a sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from eventide.aggregates.aggregate import Accumulator, Aggregate, Parts, Source
from eventide.aggregates.counting import counted
from eventide.aggregates.entries import spelled_out
from eventide.aggregates.lists import sorted_values
from eventide.aggregates.sums import numeric


@dataclass(frozen=True)
class Var(Aggregate):
    """The variance of a sample."""

    column: str

    word: ClassVar[str] = "var"

    def bind(self, source: Source) -> Parts:  # noqa: D102
        numeric(source, self.column, self)
        return _parts(source, self.column, root=False)


@dataclass(frozen=True)
class Std(Aggregate):
    """The standard deviation of a sample."""

    column: str

    word: ClassVar[str] = "std"

    def bind(self, source: Source) -> Parts:  # noqa: D102
        numeric(source, self.column, self)
        return _parts(source, self.column, root=True)


def var(column: str) -> Var:
    """The variance of a column as of a sample (divided by n - 1), null for fewer than two values.

    >>> from eventide.aggregates import try_out
    >>> try_out({"price": [2, 4, None, 6]}, spread=var("price"))
    {'spread': 4.0}
    """
    return Var(column)


def std(column: str) -> Std:
    """The standard deviation of a column as of a sample, null for fewer than two values.

    >>> from eventide.aggregates import try_out
    >>> try_out({"price": [2, 4, None, 6]}, spread=std("price"))
    {'spread': 2.0}
    """
    return Std(column)


def _parts(source: Source, column: str, *, root: bool) -> Parts:
    if source.diff is None:
        accumulators = _moments(source, column)
        n = pl.col(accumulators[0].name)
        variance = pl.when(n > 1).then(pl.col(accumulators[-1].name) / (n - 1))
        return Parts(accumulators, variance.sqrt() if root else variance)
    # Sums of squares, from which rows could be taken back, are garbage where values are large and close together.
    kept = sorted_values(source, column)
    floats = pl.col(kept.name).list.eval(pl.element().cast(pl.Float64))
    result = floats.list.std() if root else floats.list.var()
    return Parts([kept], lambda cells: spelled_out(cells, kept).to_frame(kept.name).select(result).to_series())


def _moments(source: Source, column: str) -> list[Accumulator]:
    """Count, mean, and the squared distances from the mean.

    They merge as Chan, Golub and LeVeque do it, which stays exact where values are large and close together.
    """
    count, value = counted(source, column), pl.col(column).cast(pl.Float64)
    mean, squares = f"mean({column})", f"squared_distances({column})"
    n, means = pl.col(count.name), pl.col(mean)
    merged_mean = (n * means).sum() / n.sum()
    merged_squares = pl.col(squares).sum() + (n * (means - merged_mean).pow(2)).sum()
    some = n.sum() > 0
    return [
        count,
        Accumulator(mean, pl.Float64(), value.mean(), pl.when(some).then(merged_mean)),
        Accumulator(
            squares,
            pl.Float64(),
            value.var(ddof=0) * value.count(),
            pl.when(some).then(merged_squares),
        ),
    ]
