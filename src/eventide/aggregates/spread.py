"""``var`` and ``std`` of a sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from eventide.aggregates.aggregate import Accumulator, Aggregate, Parts, Source
from eventide.aggregates.counting import counted
from eventide.aggregates.sums import numeric
from eventide.aggregates.totals import total


@dataclass(frozen=True)
class Var(Aggregate):
    """The variance of a sample."""

    column: str

    word: ClassVar[str] = "var"
    invertible: ClassVar[bool] = True

    def bind(self, source: Source) -> Parts:  # noqa: D102
        numeric(source, self.column, self)
        accumulators, variance = _variance(source, self.column)
        return Parts(accumulators, variance)


@dataclass(frozen=True)
class Std(Aggregate):
    """The standard deviation of a sample."""

    column: str

    word: ClassVar[str] = "std"
    invertible: ClassVar[bool] = True

    def bind(self, source: Source) -> Parts:  # noqa: D102
        numeric(source, self.column, self)
        accumulators, variance = _variance(source, self.column)
        return Parts(accumulators, variance.sqrt())


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


def _variance(source: Source, column: str) -> tuple[list[Accumulator], pl.Expr]:
    if source.diff is None:
        accumulators = _moments(source, column)
        squares = pl.col(accumulators[-1].name)
    else:
        accumulators, squares = _signed_sums(source, column, source.diff)
    n = pl.col(counted(source, column).name)
    return accumulators, pl.when(n > 1).then(squares / (n - 1))


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


def _signed_sums(source: Source, column: str, diff: str) -> tuple[list[Accumulator], pl.Expr]:
    """The squared distances from the mean by plain sums, the only form from which rows can be taken out."""
    accumulators, summed = total(source, column, pl.Float64())
    name, value = f"squares({column})", pl.col(column).cast(pl.Float64)
    start = pl.when(value.is_finite()).then(value * value * pl.col(diff).cast(pl.Float64)).sum()
    squares = Accumulator(name, pl.Float64(), start, pl.col(name).sum(), empty=0.0)
    n = pl.col(counted(source, column).name)
    distances = (pl.col(name) - summed * summed / n).clip(0)
    return [*accumulators, squares], pl.when(summed.is_finite()).then(distances).otherwise(float("nan"))
