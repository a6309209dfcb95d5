"""The columns of a float sum in digits: made of rows, added up by group, aligned, and read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from eventide.aggregates.digits import (
    BEYOND,
    DIGITS,
    NOTHING,
    SHIFT,
    SQUARE_DIGITS,
    WIDTH,
    Floats,
    Integers,
    cut,
    highest_place,
    places,
)
from eventide.aggregates.pairs import Pair, divide, square, subtract

_SCALE = 2**WIDTH


@dataclass(frozen=True)
class Digits:
    """The columns of one sum: its place and its digits, highest first, and those of the sum of squares."""

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
        """What adds up the digits of rows by group number; None where it takes more than an addition."""
        values = rows.select(self.value).to_series()
        if self.weight is not None or values.null_count():
            return None
        array = values.to_numpy()
        place = highest_place(array)
        return None if place == BEYOND else DigitAdder(self, array, place, size)

    def of_rows(self, rows: pl.DataFrame, *, apart: bool) -> Mapping[str, pl.Series]:
        """The columns of single values: from the place of the largest down, or each from its own (``apart``)."""
        values = rows.select(self.value).to_series()
        array = (values.fill_null(0.0) if values.null_count() else values).to_numpy()
        place = highest_place(array)
        if apart or place == BEYOND:
            each = places(array)
            finite = np.where(each == BEYOND, 0.0, array)
            place = highest_place(finite)
            if apart:
                exponents = np.where(np.abs(each) == BEYOND, 0, each).astype(np.int32) * -WIDTH
                finite, place = np.ldexp(finite, exponents), 0
                column = pl.Series(self.place, each)
            else:
                column = pl.Series(self.place, np.where(each == BEYOND, BEYOND, place).astype(np.int16))
            found = self._cut(finite, place)
            if apart and (each == BEYOND).any():
                for i, kind in enumerate((array == np.inf, array == -np.inf, np.isnan(array))):
                    digit = found[i]
                    found[i] = kind.astype(np.int64) if digit is None else digit + kind
        else:
            found = self._cut(array, place)
            column = pl.repeat(place, len(array), dtype=pl.Int16, eager=True).alias(self.place)
        if values.null_count():
            column = pl.select(pl.when(values.is_not_null()).then(column).alias(self.place)).to_series()
        weight = None if self.weight is None else rows.select(self.weight.cast(pl.Int64)).to_series()
        return {self.place: column} | {
            name: _weighted(name, digit, weight, len(array))
            for name, digit in zip([*self.digits, *self.square_digits], found, strict=True)
        }

    def _cut(self, values: Floats, place: int) -> list[Integers | None]:
        """A column for each digit; None where all are zero."""
        found: list[Integers | None] = [None] * (len(self.columns) - 1)
        if place == NOTHING:
            return found
        for position, rows, whole in cut(values, place, squares=self.squares is not None):
            if (digit := found[position]) is None:
                digit = found[position] = np.zeros(len(values), np.int64)
            digit[rows] += whole
        return found

    def unsure(self) -> pl.Expr | None:
        """Cells whose values may all lie below the place of the largest value of all rows, or are not finite."""
        place = pl.col(self.place)
        return ((pl.col(self.digits[0]) == 0) & (place != NOTHING)) | (place == BEYOND)

    def spread(self, frame: pl.DataFrame) -> bool:
        """Whether rows have different places, so that digits must be aligned before they are added up."""
        return common_place(frame[self.place]) is None

    def aligned(self, frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Digits from the highest place of each group down."""
        top = pl.col(self.place).max()
        down = ((top.over(list(by)) if by else top) - pl.col(self.place)).alias("__down")
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
        number = _whole(self.digits).cast(pl.Float64) * two.pow(half) * two.pow(exponent - half)
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
        """The sum of the squared distances from the mean; NaN where values are not finite.

        Both sums are exact, so that only their difference is rounded. It is computed in units of the place, so that
        squares neither overflow nor vanish.
        """
        highest, lowest = self.square_digits[:DIGITS], self.square_digits[DIGITS:]
        sums = cells.select(
            place=pl.col(self.place).fill_null(NOTHING).cast(pl.Int32), sum=_whole(self.digits), high=_whole(highest)
        )
        low = cells.select(_whole(lowest).cast(pl.Float64)).to_series().to_numpy()
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
        for position, rows, whole in cut(values, self._place, squares=self._digits.squares is not None):
            if rows is not last:
                last, among = rows, numbers[rows]
            np.add.at(self._totals[position], among, whole)

    def columns(self, present: npt.NDArray[np.intp]) -> list[pl.Series]:
        """The columns of these groups."""
        place, *names = self._digits.columns
        constant = pl.repeat(self._place, len(present), dtype=pl.Int16, eager=True).alias(place)
        return [constant, *(pl.Series(name, total[present]) for name, total in zip(names, self._totals, strict=True))]


def common_place(places: pl.Series) -> int | None:
    """The place of all that is not zero, if there is one: nothing needs to be aligned then."""
    low, high = places.min(), places.max()
    if low is None:
        return NOTHING
    one = low == high or (low == NOTHING and not ((places != low) & (places != high)).any())
    return int(high) if one else None  # type: ignore[arg-type]


def _weighted(name: str, digit: Integers | None, weight: pl.Series | None, length: int) -> pl.Series:
    if digit is None:
        return pl.zeros(length, pl.Int64, eager=True).alias(name)
    return pl.Series(name, digit) if weight is None else (pl.Series(name, digit) * weight).alias(name)


def _moved(digits: Sequence[str], i: int, step: int) -> pl.Expr:
    """Digit ``i`` after a move down by some places of ``step`` digits: what stood higher by as many."""
    moved: pl.Expr = pl.lit(0, pl.Int64)
    for down in range(i // step + 1):
        moved = pl.when(pl.col("__down") == down).then(pl.col(digits[i - down * step])).otherwise(moved)
    return moved


def _whole(digits: Sequence[str]) -> pl.Expr:
    """Digits as one number, in units of the last of them."""
    whole = pl.lit(0, pl.Int128)
    for name in digits:
        whole = whole * _SCALE + pl.col(name).cast(pl.Int128)
    return whole


def _pair(whole: pl.Series) -> Pair:
    high = whole.cast(pl.Float64)
    low = (whole - high.cast(pl.Int128)).cast(pl.Float64)
    return Pair(high.to_numpy(), low.to_numpy())
