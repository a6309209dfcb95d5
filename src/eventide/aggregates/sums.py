"""``count``, ``sum`` and ``mean``. A sum never overflows silently, and is null if there are no values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import polars as pl

from eventide._column_refs import Column, masked
from eventide._hints import with_option_hints
from eventide.aggregates.aggregate import NO_SUM, ROWS, Accumulator, Addends, Aggregate, Parts, Source
from eventide.aggregates.errors import _of, wrong_type
from eventide.aggregates.float_digits import NOTHING
from eventide.aggregates.float_sums import Digits, common_place
from eventide.errors import DataError, PlanError
from eventide.kernels.grouping import group


@dataclass(frozen=True)
class Count(Aggregate):
    """Counts rows, or the values of ``column`` that are not null."""

    column: str | None = None

    word: ClassVar[str] = "count"
    invertible: ClassVar[bool] = True

    def bind(self, source: Source) -> Parts:
        if self.column is not None:
            source.dtype(self.column, self)
        accumulator = counted(source, self.column)
        return Parts([accumulator], pl.col(accumulator.name))

    def __str__(self) -> str:
        return f"count({self.column or ''})"


@with_option_hints
def count(column: Column | None = None, *, where: Column | None = None) -> Count:
    """The number of rows; with a column, of its values that are not null.

    As in every aggregate, ``where`` is a condition on rows: the name of a boolean column, or a Polars expression. Only
    rows for which it is true count; null is not true.

    >>> from eventide.aggregates import try_out
    >>> try_out({"price": [5, None, 7]}, rows=count(), prices=count("price"), dear=count(where=pl.col("price") > 5))
    {'rows': 3, 'prices': 2, 'dear': 1}
    """
    if isinstance(column, str) and column == "*":
        raise PlanError("ev.count('*'): to count rows, write ev.count(). To count the values of a column, name it.")
    return Count(masked("count", column, where))


def counted(source: Source, column: str | None) -> Accumulator:
    """Return the accumulator that counts values. Aggregates that need it share it."""
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

    def addends(self, frame: pl.DataFrame, *, starting: bool) -> Addends:
        return ROWS if starting else frame[self.name]


@dataclass(frozen=True, eq=False)
class ValueCount(Accumulator):
    """Counts values. Where a column has no nulls, that is the number of rows."""

    column: str = ""

    def starting(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.Expr:
        return self.start if rows[self.column].null_count() else pl.len()

    def addends(self, frame: pl.DataFrame, *, starting: bool) -> Addends:
        if not starting:
            return frame[self.name]
        return NO_SUM if frame[self.column].null_count() else ROWS


_INT64 = 2**63
_DECIMAL = 10**38


class Total(NamedTuple):
    """Accumulators that add up a column, and the sum that is read from them: null without values."""

    accumulators: list[Accumulator]
    value: pl.Expr


def total(source: Source, column: str, dtype: pl.DataType) -> Total:
    """Return the sum of ``column`` as ``dtype``: Int64, Float64, or a decimal of 38 digits."""
    widened = dtype.is_float() and not source.schema[column].is_float()
    name = f"sum({column} as Float64)" if widened else f"sum({column})"

    def value(wanted: pl.DataType) -> pl.Expr:
        return pl.col(column).cast(wanted) if source.schema[column] != wanted else pl.col(column)

    if source.diff is None:
        if dtype.is_float():
            return float_total(name, (column,), value(dtype), None)
        return Total([_sum(name, column, dtype, value, empty=None)], pl.col(name))
    diff = pl.col(source.diff)
    present = counted(source, column)
    has_values = pl.col(present.name) > 0

    def weighted(wanted: pl.DataType) -> pl.Expr:
        return value(wanted) * diff.cast(wanted)

    if not source.schema[column].is_float():
        if dtype.is_float():
            summed = float_total(name, (column, source.diff), value(dtype), diff)
            return Total([*summed.accumulators, present], pl.when(has_values).then(summed.value))
        signed = _sum(name, column, dtype, weighted, empty=0)
        return Total([signed, present], pl.when(has_values).then(pl.col(name)))

    # A value that is not finite can not be subtracted (NaN - NaN is NaN), so such values are counted separately.
    number = value(dtype)
    finite = pl.when(number.is_finite()).then(number)
    nan = _count_of(f"nan({column})", number.is_nan(), diff)
    high = _count_of(f"inf({column})", number == float("inf"), diff)
    low = _count_of(f"-inf({column})", number == float("-inf"), diff)
    has_nan, has_high, has_low = (pl.col(a.name) > 0 for a in (nan, high, low))
    summed = float_total(name, (column, source.diff), finite, diff)
    read = (
        pl.when(has_nan | (has_high & has_low))
        .then(float("nan"))
        .when(has_high)
        .then(float("inf"))
        .when(has_low)
        .then(float("-inf"))
        .otherwise(summed.value.fill_null(0.0))
    )
    return Total([*summed.accumulators, present, nan, high, low], pl.when(has_values).then(read))


def _count_of(name: str, test: pl.Expr, diff: pl.Expr) -> Accumulator:
    start = pl.when(test).then(diff.cast(pl.Int64)).otherwise(0).sum()
    return Accumulator(name, pl.Int64(), start, pl.col(name).sum(), empty=0, ordered=False)


def _sum(
    name: str, column: str, dtype: pl.DataType, value: Callable[[pl.DataType], pl.Expr], empty: object
) -> Accumulator:
    start, merge = value(dtype).sum(), pl.col(name).sum()
    return SumOf(name, dtype, start, merge, empty=empty, ordered=False, column=column, value=value)


def float_total(name: str, reads: Sequence[str], value: pl.Expr, weight: pl.Expr | None) -> Total:
    """Add up floats in digits, so that the sum does not depend on how rows are divided."""
    digits = Digits(name, reads, value, weight)
    return Total(digit_sums(digits), digits.sum)


def digit_sums(digits: Digits) -> list[Accumulator]:
    """Return the accumulators of sums in digits."""
    place = pl.col(digits.place).max()
    return [
        PlaceOf(digits.place, pl.Int16(), place, place, ordered=False, prepared=digits),
        *(
            DigitSum(
                name,
                pl.Int64(),
                pl.col(name).sum(),
                pl.col(name).sum(),
                empty=0,
                ordered=False,
                prepared=digits,
                column=name,
                value=pl.col(name).cast,
            )
            for name in (*digits.digits, *digits.square_digits)
        ),
    ]


@dataclass(frozen=True, eq=False)
class SumOf(Accumulator):
    """Adds up ``value``. Null, not zero, where ``column`` has no values, unless ``empty`` is a zero."""

    column: str = ""
    value: Callable[[pl.DataType], pl.Expr] = pl.lit
    """Returns what is added, in the requested type."""

    def starting(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.Expr:
        return self._safe(rows, by, self.column, self.value)

    def merging(self, cells: pl.DataFrame, by: Sequence[str]) -> pl.Expr:
        return self._safe(cells, by, self.name, pl.col(self.name).cast)

    def addends(self, frame: pl.DataFrame, *, starting: bool) -> Addends:
        # The range is checked first: values that do not fit cannot be cast.
        if self.dtype != pl.Int64 or not self._surely_fits(frame[self.column if starting else self.name]):
            return NO_SUM
        values = frame.select(self.value(self.dtype)).to_series() if starting else frame[self.name]
        return NO_SUM if values.null_count() else values

    def _safe(
        self, frame: pl.DataFrame, by: Sequence[str], column: str, value: Callable[[pl.DataType], pl.Expr]
    ) -> pl.Expr:
        summed = value(self.dtype).sum()
        if not self._surely_fits(frame[column]):
            self._check(frame, by, value)
            if self.dtype == pl.Int64:
                summed = value(pl.Int128()).sum()
        if self.empty is not None or not frame[column].null_count():
            return summed
        return pl.when(pl.col(column).count() > 0).then(summed)

    def _surely_fits(self, values: pl.Series) -> bool:
        """Return whether no sum can overflow. Two reductions prove that for nearly all data."""
        if values.dtype in _NARROW:
            return True
        return _reach(values) * len(values) < self._limit()

    def _limit(self) -> int:
        return _DECIMAL // 10**self.dtype.scale if isinstance(self.dtype, pl.Decimal) else _INT64

    def _check(self, frame: pl.DataFrame, by: Sequence[str], value: Callable[[pl.DataType], pl.Expr]) -> None:
        # Floats are precise enough to distinguish a sum of 38 digits from one of 39.
        exact = pl.Int128() if self.dtype == pl.Int64 else pl.Float64()
        sums = group(frame, by, [value(exact).sum().alias(self.name)], ordered=False)
        fits = pl.col(self.name).is_between(-self._limit(), self._limit(), closed="left")
        for row in sums.filter(~fits).head(1).iter_rows(named=True):
            raise _sum_overflow(self.name, str(self.dtype), {name: row[name] for name in by})


@dataclass(frozen=True, eq=False)
class DigitSum(SumOf):
    """Adds up one digit."""

    def starting(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.Expr:
        return self.start  # the digits of all rows of a frame always fit

    def _limit(self) -> int:
        return _INT64 // 2  # three digits are read as one number of 128 bits


@dataclass(frozen=True, eq=False)
class PlaceOf(Accumulator):
    """The highest place of a sum in digits."""

    def addends(self, frame: pl.DataFrame, *, starting: bool) -> Addends:
        places = frame[self.name]
        if places.null_count() or common_place(places) is None:
            return NO_SUM
        return ROWS if places.min() == places.max() else (places != NOTHING).cast(pl.Int64)

    def of_totals(self, totals: pl.DataFrame, frame: pl.DataFrame) -> pl.Series:
        place = pl.when(pl.col(self.name) > 0).then(common_place(frame[self.name])).otherwise(NOTHING)
        return totals.select(place.alias(self.name)).to_series()


def _reach(values: pl.Series) -> int:
    """Return a bound on the absolute values."""
    low: Any = values.min()
    high: Any = values.max()
    return 0 if low is None else max(abs(int(low)), abs(int(high))) + 1


_NARROW = (pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16, pl.UInt32)


@dataclass(frozen=True)
class Sum(Aggregate):
    """Adds up the values of ``column``."""

    column: str

    word: ClassVar[str] = "sum"
    invertible: ClassVar[bool] = True

    def bind(self, source: Source) -> Parts:
        dtype = numeric(source, self.column, self)
        accumulators, value = total(source, self.column, sum_dtype(dtype))
        return Parts(accumulators, value)


@dataclass(frozen=True)
class Mean(Aggregate):
    """The arithmetic mean of ``column``."""

    column: str

    word: ClassVar[str] = "mean"
    invertible: ClassVar[bool] = True

    def bind(self, source: Source) -> Parts:
        dtype = numeric(source, self.column, self)
        # A mean of 64-bit numbers (ids, epochs) must not fail because their sum does not fit into 64 bits.
        wide = dtype in (pl.Int64, pl.UInt64, pl.Int128, pl.UInt128)
        accumulators, summed = total(source, self.column, pl.Float64() if wide else sum_dtype(dtype))
        present = counted(source, self.column)
        n = pl.col(present.name)
        if isinstance(dtype, pl.Decimal):
            summed = summed.cast(pl.Decimal(38, min(dtype.scale + 4, 38)))
            n = n.cast(pl.Decimal(38, 0))
        return Parts([*accumulators, present], pl.when(n > 0).then(summed / n))


@with_option_hints
def sum(column: Column, *, where: Column | None = None) -> Sum:
    """The sum of a column, null where it has no values.

    Integers of any width add up in 64 bits, and a sum that does not fit is an error, never a wrong number.
    Floats add up as Float64, decimals keep their scale.

    >>> from eventide.aggregates import try_out
    >>> rows = {"price": [5, None, 7], "paid": [True, True, False]}
    >>> try_out(rows, total=sum("price"), paid=sum("price", where="paid"), double=sum(pl.col("price") * 2))
    {'total': 12, 'paid': 5, 'double': 24}
    """
    return Sum(masked("sum", column, where))


@with_option_hints
def mean(column: Column, *, where: Column | None = None) -> Mean:
    """The arithmetic mean of a column, null where it has no values.

    It is a Float64, or for decimals a decimal with four more digits, as in Spark.

    >>> from eventide.aggregates import try_out
    >>> try_out({"price": [5, None, 8]}, average=mean("price"))
    {'average': 6.5}
    """
    return Mean(masked("mean", column, where))


def numeric(source: Source, column: str, aggregate: Aggregate) -> pl.DataType:
    """Return the type of a column, which must be numeric."""
    dtype = source.dtype(column, aggregate)
    if dtype.is_numeric():
        return dtype
    hint = "Cast it to a number first."
    if dtype == pl.Boolean:
        hint = f"To count the true ones, cast it to Int8 first; ev.count({column!r}) counts values."
    elif dtype == pl.String:
        hint = f"Cast it to a number first, or use ev.collect_list({column!r}) to gather texts."
    raise wrong_type(aggregate, column, dtype, f"{aggregate.word} needs numbers", hint)


def sum_dtype(dtype: pl.DataType) -> pl.DataType:
    """Return the type of a sum of numbers, as in Spark."""
    if isinstance(dtype, pl.Decimal):
        return pl.Decimal(38, dtype.scale)
    return pl.Float64() if dtype.is_float() else pl.Int64()


def _sum_overflow(name: str, kind: str, key: Mapping[str, object]) -> DataError:
    """A sum overflows its type."""
    hint = "Cast the column to Decimal(38, 0) or Float64 first." if kind == "Int64" else "Use Float64 instead."
    return DataError(f"{name} does not fit into {kind}{_of(key)}. {hint}")
