"""``var`` and ``std`` of a sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from eventide._column_refs import Column, masked
from eventide._hints import with_option_hints
from eventide.aggregates.aggregate import Aggregate, Parts, Source
from eventide.aggregates.float_sums import Digits
from eventide.aggregates.sums import counted, digit_sums, numeric


@dataclass(frozen=True)
class Var(Aggregate):
    """The variance of a sample."""

    column: str

    word: ClassVar[str] = "var"
    invertible: ClassVar[bool] = True

    def bind(self, source: Source) -> Parts:
        numeric(source, self.column, self)
        return _parts(source, self.column, root=False)


@dataclass(frozen=True)
class Std(Aggregate):
    """The standard deviation of a sample."""

    column: str

    word: ClassVar[str] = "std"
    invertible: ClassVar[bool] = True

    def bind(self, source: Source) -> Parts:
        numeric(source, self.column, self)
        return _parts(source, self.column, root=True)


@with_option_hints
def var(column: Column, *, where: Column | None = None) -> Var:
    """The variance of a column as of a sample (divided by n - 1), null for fewer than two values.

    >>> from eventide.aggregates import try_out
    >>> try_out({"price": [2, 4, None, 6]}, spread=var("price"))
    {'spread': 4.0}
    """
    return Var(masked("var", column, where))


@with_option_hints
def std(column: Column, *, where: Column | None = None) -> Std:
    """The standard deviation of a column as of a sample, null for fewer than two values.

    >>> from eventide.aggregates import try_out
    >>> try_out({"price": [2, 4, None, 6]}, spread=std("price"))
    {'spread': 2.0}
    """
    return Std(masked("std", column, where))


def _parts(source: Source, column: str, *, root: bool) -> Parts:
    """From the count, the sum and the sum of squares, all exact, so that only their difference is rounded."""
    present = counted(source, column)
    # The same sum as that of `sum` and `mean`, except where these count apart what is not finite.
    plain = source.diff is None and source.schema[column].is_float()
    digits = Digits(
        f"sum({column})" if plain else f"sum({column} of squares)",
        (column,) if source.diff is None else (column, source.diff),
        pl.col(column).cast(pl.Float64),
        None if source.diff is None else pl.col(source.diff),
        squares=f"squares({column})",
    )

    def result(cells: pl.DataFrame) -> pl.Series:
        count = np.maximum(cells[present.name].to_numpy().astype(np.float64), 2)
        variance = pl.Series(source.name, digits.squared_distances(cells, count) / (count - 1))
        value = pl.when(pl.col(present.name) > 1).then(variance.sqrt() if root else variance)
        return cells.select(value).to_series()

    return Parts([present, *digit_sums(digits)], result)
