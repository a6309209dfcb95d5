"""Float sums that do not depend on how rows are divided: sums of digits on a fixed grid.

A float is cut into digits of 28 bits at places that are the same for all floats, and each digit is added up as an
integer. Integers add up to the same in any order, over any tasks, blocks and bundles. A sum holds its highest place,
which is that of its largest value, and the digits from there down. What lies below is dropped from each value alone,
so it makes no difference when the largest value arrives. Three digits are at least 57 bits: more than a float has, so
the sum is at least as accurate as adding floats one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from eventide.aggregates.pairs import Pair

Floats = npt.NDArray[np.float64]

WIDTH = 28  # bits of a digit; 2**35 rows have room in the 64 bits of a sum
_SHIFT = 10  # places begin at 2**-10, so that values around 1 lie in one place
NOTHING = -1000  # the place of zero, which is in no place
BEYOND = 1000  # the place of infinities and NaN: its digits count +inf, -inf and NaN
_SCALE = 2.0**WIDTH


@dataclass(frozen=True)
class Digits:
    """The columns of one sum: its place and its digits, highest first."""

    name: str
    count: int = 3

    @property
    def place(self) -> str:
        """The column of the highest place; null where nothing was added."""
        return f"{self.name}.place"

    @property
    def digits(self) -> list[str]:
        """The columns of digits."""
        return [f"{self.name}.{i}" for i in range(self.count)]

    def of(self, values: pl.Series, *more: Floats) -> dict[str, pl.Series]:
        """The columns of single values; ``more`` are small parts to be added to them, in the same places."""
        nulls = values.is_null() if values.null_count() else None
        array = (values.fill_null(0.0) if nulls is not None else values).to_numpy()
        size = np.abs(array)
        place = _common_place(size)
        if place is None:
            places = _places(size)
            finite = places != BEYOND
            digits = self._cut(np.where(finite, array, 0.0), np.where(finite, places, 0), more)
            if not finite.all():
                counts = (array == np.inf, array == -np.inf, np.isnan(array))
                digits[:3] = [digit + count for digit, count in zip(digits, counts, strict=False)]
        else:
            places = np.full(len(array), place, np.int16)
            if place != NOTHING and not size.all():
                places[size == 0] = NOTHING
            digits = self._cut(array, place if place != NOTHING else 0, more)
        column = pl.Series(self.place, places, dtype=pl.Int16)
        if nulls is not None:
            column = column.to_frame().select(pl.when(~nulls).then(self.place)).to_series()
        return {self.place: column} | {
            name: pl.Series(name, digit) for name, digit in zip(self.digits, digits, strict=True)
        }

    def _cut(self, values: Floats, places: Any, more: Sequence[Floats]) -> list[Floats]:
        """The digits of values from given places down. They are whole numbers, as floats: faster to add."""
        found = []
        rests = [_scaled(part, _SHIFT - WIDTH * places) for part in (values, *more)]
        for _ in range(self.count):
            wholes = [np.trunc(rest) for rest in rests]
            found.append(wholes[0] if len(wholes) == 1 else np.sum(wholes, axis=0))
            if len(rests) == 1 and np.array_equal(wholes[0], rests[0]):
                break
            rests = [(rest - whole) * _SCALE for rest, whole in zip(rests, wholes, strict=True)]
        zeros = np.zeros(len(values))
        return [*found, *[zeros] * (self.count - len(found))]

    def spread(self, frame: pl.DataFrame) -> bool:
        """Whether rows have different places, so that digits must be aligned before they are added up."""
        return common_place(frame[self.place]) is None

    def aligned(self, frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Digits from the highest place of each group down."""
        top = pl.col(self.place).max()
        down = ((top.over(list(by)) if by else top) - pl.col(self.place)).alias("__down")
        moved = frame.select(*self.digits, down)
        columns = [_moved(self.digits, i).alias(name) for i, name in enumerate(self.digits)]
        return frame.with_columns(moved.select(columns).get_columns())

    def pair(self, cells: pl.DataFrame) -> Pair:
        """The sum as a high and a low float; NaN where it is not finite."""
        whole, rest = pl.lit(0, pl.Int128), pl.lit(0, pl.Int128)
        for name in self.digits[:3]:
            whole = whole * int(_SCALE) + pl.col(name).cast(pl.Int128)
        for name in self.digits[3:]:
            rest = rest * int(_SCALE) + pl.col(name).cast(pl.Int128)
        high = whole.cast(pl.Float64)
        low = (whole - high.cast(pl.Int128)).cast(pl.Float64) + rest.cast(pl.Float64) * _SCALE ** (3 - self.count)
        place = pl.col(self.place).cast(pl.Int32)
        known = pl.when(place < BEYOND)
        columns = cells.select(
            high=known.then(high).otherwise(float("nan")),
            low=known.then(low).otherwise(float("nan")),
            exponent=pl.when(place.abs() < BEYOND).then((place - 2) * WIDTH - _SHIFT).otherwise(0),
        )
        exponent = columns["exponent"].to_numpy()
        return Pair(np.ldexp(columns["high"].to_numpy(), exponent), np.ldexp(columns["low"].to_numpy(), exponent))

    @property
    def value(self) -> pl.Expr:
        """The sum, rounded once."""
        place = pl.col(self.place)
        whole = pl.lit(0, pl.Int128)
        for name in self.digits[:3]:
            whole = whole * int(_SCALE) + pl.col(name).cast(pl.Int128)
        exponent = (place.cast(pl.Int32) - 2) * WIDTH - _SHIFT
        half = exponent // 2
        two = pl.lit(2.0)
        number = whole.cast(pl.Float64) * two.pow(half) * two.pow(exponent - half)
        high, low, nan = (pl.col(name) > 0 for name in self.digits[:3])
        infinite = pl.when(nan | (high & low)).then(float("nan")).when(high).then(float("inf")).otherwise(float("-inf"))
        return (
            pl.when(place == BEYOND)
            .then(infinite)
            .when(place == NOTHING)
            .then(0.0)
            .when(place.is_not_null())
            .then(number)
        )


def common_place(places: pl.Series) -> int | None:
    """The place of all that is not zero, if there is one: nothing needs to be aligned then."""
    low, high = places.min(), places.max()
    if low == NOTHING != high:
        low = places.filter(places != NOTHING).min()
    if low is None:
        return NOTHING
    return int(low) if low == high else None  # type: ignore[arg-type]


def _moved(digits: Sequence[str], i: int) -> pl.Expr:
    """Digit ``i`` after a move down by some places: what stood higher by as many."""
    moved = pl.when(pl.col("__down") == 0).then(pl.col(digits[i]))
    for down in range(1, i + 1):
        moved = moved.when(pl.col("__down") == down).then(pl.col(digits[i - down]))
    return moved.otherwise(0)


def _scaled(values: Floats, exponent: Any) -> Floats:
    if isinstance(exponent, int) and abs(exponent) < 1000:
        return values * 2.0**exponent  # exact, and faster
    scaled: Floats = np.ldexp(values, exponent)
    return scaled


def _common_place(size: Floats) -> int | None:
    """The place of all values, if they are finite and have one; zeros have any."""
    if not len(size):
        return NOTHING
    high = float(size.max())
    if not np.isfinite(high):
        return None
    if high == 0:
        return NOTHING
    low = float(size.min())
    if low == 0:
        low = float(np.min(size, where=size > 0, initial=high))
    first, last = (int(place) for place in _places(np.array([low, high])))
    return first if first == last else None


def _places(size: Floats) -> npt.NDArray[np.int16]:
    exponents = np.frexp(size)[1].astype(np.int32) - 1
    places = (exponents + _SHIFT) // WIDTH
    places = np.where(size == 0, NOTHING, places)
    return np.where(np.isfinite(size), places, BEYOND).astype(np.int16)
