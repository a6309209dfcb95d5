"""Sums as accumulators: never a wrong number, and null when there was nothing to add."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import polars as pl

from eventide.aggregates.aggregate import NO_SUM, ROWS, Accumulator, Addends, Source
from eventide.aggregates.counting import counted
from eventide.aggregates.digit_columns import Digits, common_place
from eventide.aggregates.digits import NOTHING
from eventide.aggregates.grouping import group
from eventide.errors import aggregates as errors

_INT64 = 2**63
_DECIMAL = 10**38


class Total(NamedTuple):
    """Accumulators that add up a column, and the sum read from them: null where nothing was added."""

    accumulators: list[Accumulator]
    value: pl.Expr


def total(source: Source, column: str, dtype: pl.DataType) -> Total:
    """``column`` added up as ``dtype``, which is one of Int64, Float64, or a decimal of 38 digits."""
    own = dtype.is_float() and not source.schema[column].is_float()
    name = f"sum({column} as Float64)" if own else f"sum({column})"

    def value(wanted: pl.DataType) -> pl.Expr:
        return pl.col(column).cast(wanted) if source.schema[column] != wanted else pl.col(column)

    if source.diff is None:
        if dtype.is_float():
            return float_total(name, (column,), value(dtype), None)
        return Total([_sum(name, column, dtype, value, empty=None)], pl.col(name))
    diff = pl.col(source.diff)
    present = counted(source, column)
    there = pl.col(present.name) > 0

    def weighted(wanted: pl.DataType) -> pl.Expr:
        return value(wanted) * diff.cast(wanted)

    if not source.schema[column].is_float():
        if dtype.is_float():
            summed = float_total(name, (column, source.diff), value(dtype), diff)
            return Total([*summed.accumulators, present], pl.when(there).then(summed.value))
        signed = _sum(name, column, dtype, weighted, empty=0)
        return Total([signed, present], pl.when(there).then(pl.col(name)))

    # What is not finite would stay in a sum for ever (NaN - NaN is NaN), so it is counted apart.
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
    return Total([*summed.accumulators, present, nan, high, low], pl.when(there).then(read))


def _count_of(name: str, test: pl.Expr, diff: pl.Expr) -> Accumulator:
    start = pl.when(test).then(diff.cast(pl.Int64)).otherwise(0).sum()
    return Accumulator(name, pl.Int64(), start, pl.col(name).sum(), empty=0, ordered=False)


def _sum(
    name: str, column: str, dtype: pl.DataType, value: Callable[[pl.DataType], pl.Expr], empty: object
) -> Accumulator:
    start, merge = value(dtype).sum(), pl.col(name).sum()
    return SumOf(name, dtype, start, merge, empty=empty, ordered=False, column=column, value=value)


def float_total(name: str, reads: Sequence[str], value: pl.Expr, weight: pl.Expr | None) -> Total:
    """Floats added up in digits, so that the sum does not depend on how rows are divided."""
    digits = Digits(name, reads, value, weight)
    return Total(digit_sums(digits), digits.sum)


def digit_sums(digits: Digits) -> list[Accumulator]:
    """The accumulators of sums in digits."""
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
    """What is added, in the precision that is asked for."""

    def starting(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.Expr:  # noqa: D102
        return self._safe(rows, by, self.column, self.value)

    def merging(self, cells: pl.DataFrame, by: Sequence[str]) -> pl.Expr:  # noqa: D102
        return self._safe(cells, by, self.name, pl.col(self.name).cast)

    def addends(self, frame: pl.DataFrame, *, starting: bool) -> Addends:  # noqa: D102
        # The range is judged first: what does not fit could not even be cast.
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
        """Two reductions tell for nearly all data that no sum can leave the range."""
        if values.dtype in _NARROW:
            return True
        return _reach(values) * len(values) < self._limit()

    def _limit(self) -> int:
        return _DECIMAL // 10**self.dtype.scale if isinstance(self.dtype, pl.Decimal) else _INT64

    def _check(self, frame: pl.DataFrame, by: Sequence[str], value: Callable[[pl.DataType], pl.Expr]) -> None:
        # Floats are near enough to tell a sum of 38 digits from one of 39.
        exact = pl.Int128() if self.dtype == pl.Int64 else pl.Float64()
        sums = group(frame, by, [value(exact).sum().alias(self.name)], ordered=False)
        fits = pl.col(self.name).is_between(-self._limit(), self._limit(), closed="left")
        for row in sums.filter(~fits).head(1).iter_rows(named=True):
            raise errors.sum_overflow(self.name, str(self.dtype), {name: row[name] for name in by})


@dataclass(frozen=True, eq=False)
class DigitSum(SumOf):
    """Adds up one digit."""

    def starting(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.Expr:  # noqa: D102
        return self.start  # no frame has so many rows that their digits do not fit

    def _limit(self) -> int:
        return _INT64 // 2  # three digits are read as one number of 128 bits


@dataclass(frozen=True, eq=False)
class PlaceOf(Accumulator):
    """The highest place of a sum in digits."""

    def addends(self, frame: pl.DataFrame, *, starting: bool) -> Addends:  # noqa: D102
        places = frame[self.name]
        if places.null_count() or common_place(places) is None:
            return NO_SUM
        return ROWS if places.min() == places.max() else (places != NOTHING).cast(pl.Int64)

    def of_totals(self, totals: pl.DataFrame, frame: pl.DataFrame) -> pl.Series:  # noqa: D102
        place = pl.when(pl.col(self.name) > 0).then(common_place(frame[self.name])).otherwise(NOTHING)
        return totals.select(place.alias(self.name)).to_series()


def _reach(values: pl.Series) -> int:
    """A bound on the absolute values."""
    low: Any = values.min()
    high: Any = values.max()
    return 0 if low is None else max(abs(int(low)), abs(int(high))) + 1


_NARROW = (pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16, pl.UInt32)
