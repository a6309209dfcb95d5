"""``var`` and ``std`` of a sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl

from eventide.aggregates.aggregate import Aggregate, Parts, Source
from eventide.aggregates.counting import counted
from eventide.aggregates.digits import Digits
from eventide.aggregates.pairs import divide, multiply, square, subtract
from eventide.aggregates.sums import numeric
from eventide.aggregates.totals import FloatDigits, digit_sums


@dataclass(frozen=True)
class Var(Aggregate):
    """The variance of a sample."""

    column: str

    word: ClassVar[str] = "var"
    invertible: ClassVar[bool] = True

    def bind(self, source: Source) -> Parts:  # noqa: D102
        numeric(source, self.column, self)
        return _parts(source, self.column, root=False)


@dataclass(frozen=True)
class Std(Aggregate):
    """The standard deviation of a sample."""

    column: str

    word: ClassVar[str] = "std"
    invertible: ClassVar[bool] = True

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
    """From the count, the sum and the sum of squares, all exact, so that only their difference is rounded."""
    summed = _Sums(source, column)
    there = pl.col(summed.count.name) > 1

    def result(cells: pl.DataFrame) -> pl.Series:
        variance = pl.Series(source.name, summed.variance(cells))
        shown = pl.when(there).then(variance.sqrt() if root else variance)
        return cells.select(shown).to_series()

    return Parts(summed.accumulators, result)


class _Sums:
    """Sums of a column and of its squares. Where rows can be retracted, so are their digits."""

    def __init__(self, source: Source, column: str) -> None:
        self.name = f"squares({column})"
        self.count = counted(source, column)
        # The same sum as that of `sum` and `mean`, except where these count apart what is not finite.
        plain = source.diff is None and source.schema[column].is_float()
        self._sum = Digits(f"sum({column})" if plain else f"sum({column} of squares)")
        self._squares = Digits(self.name, 5)  # 140 bits: the squares of floats have 106
        self._value = pl.col(column).cast(pl.Float64)
        self._diff = None if source.diff is None else pl.col(source.diff).cast(pl.Float64)
        self.reads = (column,) if source.diff is None else (column, source.diff)
        value = self._value if self._diff is None else self._value * self._diff
        values = FloatDigits(self._sum.name, self.reads, self._sum, value)
        self.accumulators = [self.count, *digit_sums(self._sum, values), *digit_sums(self._squares, self)]

    def of_rows(self, rows: pl.DataFrame) -> Mapping[str, pl.Series]:
        """The digits of each row's square."""
        values = rows.select(self._value).to_series()
        array = values.fill_null(0.0).to_numpy()
        with np.errstate(over="ignore", invalid="ignore"):
            high, low = multiply(array, array)
        low = np.where(np.isfinite(low), low, 0.0)
        if self._diff is not None:
            diff = rows.select(self._diff).to_series().to_numpy()
            high, low = high * diff, low * diff
        squares = pl.Series(high)
        if values.null_count():
            squares = pl.select(pl.when(values.is_not_null()).then(squares)).to_series()
        return self._squares.of(squares, low)

    def spread(self, frame: pl.DataFrame) -> bool:
        """Whether squares have different places."""
        return self._squares.spread(frame)

    def aligned(self, frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Digits that can be added up."""
        return self._squares.aligned(frame, by)

    def variance(self, cells: pl.DataFrame) -> npt.NDArray[np.float64]:
        """The variance of a sample, of cells with more than one value."""
        count = np.maximum(cells[self.count.name].to_numpy().astype(np.float64), 2)
        with np.errstate(invalid="ignore", over="ignore"):
            distances = subtract(self._squares.pair(cells), divide(square(self._sum.pair(cells)), count))
            variance: npt.NDArray[np.float64] = np.where(distances < 0, 0.0, distances) / (count - 1)
        return variance
