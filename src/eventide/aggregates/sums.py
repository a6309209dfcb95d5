"""``sum`` and ``mean``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from eventide.aggregates.aggregate import Aggregate, Parts, Source
from eventide.aggregates.counting import counted
from eventide.aggregates.totals import total
from eventide.errors import aggregates as errors


@dataclass(frozen=True)
class Sum(Aggregate):
    """Adds up the values of ``column``."""

    column: str

    word: ClassVar[str] = "sum"
    invertible: ClassVar[bool] = True

    def bind(self, source: Source) -> Parts:  # noqa: D102
        dtype = numeric(source, self.column, self)
        accumulators, value = total(source, self.column, sum_dtype(dtype))
        return Parts(accumulators, value)


@dataclass(frozen=True)
class Mean(Aggregate):
    """The arithmetic mean of ``column``."""

    column: str

    word: ClassVar[str] = "mean"
    invertible: ClassVar[bool] = True

    def bind(self, source: Source) -> Parts:  # noqa: D102
        dtype = numeric(source, self.column, self)
        # A mean of 64-bit numbers (ids, epochs) must not fail because their sum has no room in 64 bits.
        wide = dtype in (pl.Int64, pl.UInt64, pl.Int128, pl.UInt128)
        accumulators, summed = total(source, self.column, pl.Float64() if wide else sum_dtype(dtype))
        present = counted(source, self.column)
        n = pl.col(present.name)
        if isinstance(dtype, pl.Decimal):
            summed = summed.cast(pl.Decimal(38, min(dtype.scale + 4, 38)))
            n = n.cast(pl.Decimal(38, 0))
        return Parts([*accumulators, present], pl.when(n > 0).then(summed / n))


def sum(column: str) -> Sum:
    """The sum of a column, null where it has no values.

    Integers of any width add up in 64 bits, and a sum that does not fit is an error, never a wrong number.
    Floats add up as Float64, decimals keep their scale.

    >>> from eventide.aggregates import try_out
    >>> try_out({"price": [5, None, 7]}, total=sum("price"))
    {'total': 12}
    """
    return Sum(column)


def mean(column: str) -> Mean:
    """The arithmetic mean of a column, null where it has no values.

    It is a Float64, or for decimals a decimal with four more digits, as in Spark.

    >>> from eventide.aggregates import try_out
    >>> try_out({"price": [5, None, 8]}, average=mean("price"))
    {'average': 6.5}
    """
    return Mean(column)


def numeric(source: Source, column: str, aggregate: Aggregate) -> pl.DataType:
    """The type of a column that must hold numbers."""
    dtype = source.dtype(column, aggregate)
    if dtype.is_numeric():
        return dtype
    hint = "Cast it to a number first."
    if dtype == pl.Boolean:
        hint = f"To count the true ones, cast it to Int8 first; ev.count({column!r}) counts values."
    elif dtype == pl.String:
        hint = f"Cast it to a number first, or use ev.collect_list({column!r}) to gather texts."
    raise errors.wrong_type(aggregate, column, dtype, f"{aggregate.word} needs numbers", hint)


def sum_dtype(dtype: pl.DataType) -> pl.DataType:
    """The type in which numbers of a type add up, as in Spark."""
    if isinstance(dtype, pl.Decimal):
        return pl.Decimal(38, dtype.scale)
    return pl.Float64() if dtype.is_float() else pl.Int64()
