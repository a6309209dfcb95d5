"""The columns of a float sum in digits: computed from rows, added up by group, aligned, and read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from eventide.aggregates.float_digits import (
    BEYOND,
    DIGITS,
    NOTHING,
    SHIFT,
    SQUARE_DIGITS,
    WIDTH,
    Floats,
    Integers,
    Pair,
    cut,
    divide,
    highest_place,
    places,
    square,
    subtract,
)
from eventide.kernels.intervals import int_bounds

_SCALE = 2**WIDTH
_DOWN = "__down"  # by how many places a value moves down


@dataclass(frozen=True)
class Digits:
    """The columns of a sum: its place and its digits, highest first, and the digits of the sum of squares."""

    name: str
    reads: Sequence[str]
    value: pl.Expr
    weight: pl.Expr | None = None
    """How often each value counts, where rows can be retracted."""
    squares: str | None = None
    """The name of the sum of squares, where there is one. It shares the place of the sum."""

    @property
    def place(self) -> str:
        """The column of the highest place; null where nothing was added."""
        return f"{self.name}.place"

    @property
    def digits(self) -> list[str]:
        """The columns of digits."""
        return [f"{self.name}.{i}" for i in range(DIGITS)]

    @property
    def square_digits(self) -> list[str]:
        """The columns of digits of the sum of squares."""
        return [f"{self.squares}.{i}" for i in range(SQUARE_DIGITS)] if self.squares else []

    @property
    def columns(self) -> list[str]:
        """All columns."""
        return [self.place, *self.digits, *self.square_digits]

    def adder(self, rows: pl.DataFrame, size: int) -> DigitAdder | None:
        """Return what adds up the digits by group number; None if addition is not enough."""
        values = rows.select(self.value).to_series()
        if self.weight is not None or values.null_count():
            return None
        array = values.to_numpy()
        place = highest_place(array)
        return None if place == BEYOND else DigitAdder(self, array, place, size)

    def of_rows(self, rows: pl.DataFrame, *, per_row: bool) -> Mapping[str, pl.Series]:
        """Return the columns of rows: from the highest place of all rows down, or of each row (``per_row``)."""
        values = rows.select(self.value).to_series()
        array = (values.fill_null(0.0) if values.null_count() else values).to_numpy()
        place = highest_place(array)
        if per_row or place == BEYOND:
            row_places = places(array)
            finite = np.where(row_places == BEYOND, 0.0, array)
            place = highest_place(finite)
            if per_row:
                exponents = np.where(np.abs(row_places) == BEYOND, 0, row_places).astype(np.int32) * -WIDTH
                finite, place = np.ldexp(finite, exponents), 0
                column = pl.Series(self.place, row_places)
            else:
                column = pl.Series(self.place, np.where(row_places == BEYOND, BEYOND, place).astype(np.int16))
            digits = self._cut(finite, place)
            if per_row and (row_places == BEYOND).any():
                for i, kind in enumerate((array == np.inf, array == -np.inf, np.isnan(array))):
                    digit = digits[i]
                    digits[i] = kind.astype(np.int64) if digit is None else digit + kind
        else:
            digits = self._cut(array, place)
            column = pl.repeat(place, len(array), dtype=pl.Int16, eager=True).alias(self.place)
        if values.null_count():
            column = pl.select(pl.when(values.is_not_null()).then(column).alias(self.place)).to_series()
        weight = None if self.weight is None else rows.select(self.weight.cast(pl.Int64)).to_series()
        return {self.place: column} | {
            name: _weighted(name, digit, weight, len(array))
            for name, digit in zip([*self.digits, *self.square_digits], digits, strict=True)
        }

    def _cut(self, values: Floats, place: int) -> list[Integers | None]:
        """Return a column for each digit; None where all are zero."""
        digits: list[Integers | None] = [None] * (len(self.columns) - 1)
        if place == NOTHING:
            return digits
        for position, rows, units in cut(values, place, squares=self.squares is not None):
            if (digit := digits[position]) is None:
                digit = digits[position] = np.zeros(len(values), np.int64)
            digit[rows] += units
        return digits

    def needs_recompute(self) -> pl.Expr | None:
        """Return the cells whose values may all be below the highest place of all rows, or are not finite."""
        place = pl.col(self.place)
        return ((pl.col(self.digits[0]) == 0) & (place != NOTHING)) | (place == BEYOND)

    def needs_alignment(self, frame: pl.DataFrame) -> bool:
        """Return whether rows have different places."""
        return common_place(frame[self.place]) is None

    def align(self, frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return digits from the highest place of each group down."""
        top = pl.col(self.place).max()
        down = ((top.over(list(by)) if by else top) - pl.col(self.place)).alias(_DOWN)
        moved = frame.select(*self.digits, *self.square_digits, down)
        columns = [_moved(self.digits, i, 1).alias(name) for i, name in enumerate(self.digits)]
        columns += [_moved(self.square_digits, i, 2).alias(name) for i, name in enumerate(self.square_digits)]
        return frame.with_columns(moved.select(columns).get_columns())

    @property
    def sum(self) -> pl.Expr:
        """The sum, rounded once."""
        place = pl.col(self.place)
        exponent = (place.cast(pl.Int32) - 2) * WIDTH - SHIFT
        half = exponent // 2
        two = pl.lit(2.0)
        number = _number(self.digits).cast(pl.Float64) * two.pow(half) * two.pow(exponent - half)
        high, low, nan = (pl.col(name) > 0 for name in self.digits)
        infinite = pl.when(nan | (high & low)).then(float("nan")).when(high).then(float("inf")).otherwise(float("-inf"))
        return (
            pl.when(place == BEYOND)
            .then(infinite)
            .when(place == NOTHING)
            .then(0.0)
            .when(place.is_not_null())
            .then(number)
        )

    def squared_distances(self, cells: pl.DataFrame, count: Floats) -> Floats:
        """Return the sum of squared distances from the mean; NaN where values are not finite.

        Both sums are exact, so that only their difference is rounded. It is computed in units of the place, so that
        squares neither overflow nor underflow.
        """
        highest, lowest = self.square_digits[:DIGITS], self.square_digits[DIGITS:]
        sums = cells.select(
            place=pl.col(self.place).fill_null(NOTHING).cast(pl.Int32), sum=_number(self.digits), high=_number(highest)
        )
        low = cells.select(_number(lowest).cast(pl.Float64)).to_series().to_numpy()
        squares = _pair(sums["high"])
        squares = Pair(squares.high * 2.0**96, squares.low * 2.0**96 + low * 2.0**32)
        place = sums["place"].to_numpy()
        with np.errstate(invalid="ignore", over="ignore"):
            distances = subtract(squares, divide(square(_pair(sums["sum"])), count))
            distances = np.where(place == BEYOND, np.nan, np.maximum(distances, 0.0))
            exponent = np.where(np.abs(place) == BEYOND, 0, 2 * (place * WIDTH - SHIFT) - 4 * WIDTH)
            return np.ldexp(distances, exponent)


class DigitAdder:
    """Adds up the digits of values by group number, from the place of the largest value down."""

    def __init__(self, digits: Digits, values: Floats, place: int, size: int) -> None:
        self._digits, self._values, self._place = digits, values, place
        self._totals = np.zeros((len(digits.columns) - 1, size), np.int64)

    def add(self, first: int, numbers: npt.NDArray[np.int64]) -> None:
        """Add the values from ``first`` on, whose groups are ``numbers``."""
        if self._place == NOTHING:
            return
        values = self._values[first : first + len(numbers)]
        last, among = None, numbers
        for position, rows, units in cut(values, self._place, squares=self._digits.squares is not None):
            if rows is not last:
                last, among = rows, numbers[rows]
            np.add.at(self._totals[position], among, units)

    def columns(self, present: npt.NDArray[np.intp]) -> list[pl.Series]:
        """Return the columns of these groups."""
        place, *names = self._digits.columns
        constant = pl.repeat(self._place, len(present), dtype=pl.Int16, eager=True).alias(place)
        return [constant, *(pl.Series(name, total[present]) for name, total in zip(names, self._totals, strict=True))]


def common_place(places: pl.Series) -> int | None:
    """Return the common place of all values that are not zero; None if they differ."""
    bounds = int_bounds(places)
    if bounds is None:
        return NOTHING
    low, high = bounds
    is_common = low == high or (low == NOTHING and not ((places != low) & (places != high)).any())
    return high if is_common else None


def _weighted(name: str, digit: Integers | None, weight: pl.Series | None, length: int) -> pl.Series:
    if digit is None:
        return pl.zeros(length, pl.Int64, eager=True).alias(name)
    return pl.Series(name, digit) if weight is None else (pl.Series(name, digit) * weight).alias(name)


def _moved(digits: Sequence[str], i: int, step: int) -> pl.Expr:
    """Return digit ``i`` after a move down by some places of ``step`` digits."""
    moved: pl.Expr = pl.lit(0, pl.Int64)
    for down in range(i // step + 1):
        moved = pl.when(pl.col(_DOWN) == down).then(pl.col(digits[i - down * step])).otherwise(moved)
    return moved


def _number(digits: Sequence[str]) -> pl.Expr:
    """Combine digits into one number, in units of the last digit."""
    units = pl.lit(0, pl.Int128)
    for name in digits:
        units = units * _SCALE + pl.col(name).cast(pl.Int128)
    return units


def _pair(units: pl.Series) -> Pair:
    high = units.cast(pl.Float64)
    low = (units - high.cast(pl.Int128)).cast(pl.Float64)
    return Pair(high.to_numpy(), low.to_numpy())
