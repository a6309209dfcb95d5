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
_BLOCK = 16_384  # rows that are cut together


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

    def of(self, values: pl.Series, more: Floats | None = None) -> dict[str, pl.Series]:
        """The columns of single values; ``more`` are small parts to be added to them, in the same places."""
        nulls = values.null_count() > 0
        array = (values.fill_null(0.0) if nulls else values).to_numpy()
        place = _highest_place(array)
        digits = None if place is None else self._cut(array, 0 if place == NOTHING else place, more)
        if place is not None and digits is not None and place != NOTHING:
            filled = np.count_nonzero(array)
            # A value that lies below the place has no highest digit.
            if digits[0] is None or np.count_nonzero(digits[0]) != filled:
                digits = None
        if place is None or digits is None:
            places = _places(np.abs(array))
            digits = self._cut_apart(array, places, more)
            column = pl.Series(self.place, places)
        elif place != NOTHING and filled < len(array):
            column = pl.Series(self.place, np.where(array != 0, np.int16(place), np.int16(NOTHING)))
        else:
            column = pl.repeat(place, len(array), dtype=pl.Int16, eager=True).alias(self.place)
        if nulls:
            column = pl.select(pl.when(values.is_not_null()).then(column).alias(self.place)).to_series()
        return {self.place: column} | {
            name: pl.zeros(len(array), pl.Int8, eager=True).alias(name) if digit is None else pl.Series(name, digit)
            for name, digit in zip(self.digits, digits, strict=True)
        }

    def _cut(self, values: Floats, place: int, more: Floats | None) -> list[Floats | None]:
        """The digits of values from one place down: whole numbers in floats, None where all are zero.

        Block by block, so that what is in between stays in the processor's cache.
        """
        exponent = _SHIFT - WIDTH * place
        found: list[Floats | None] = [None] * self.count
        rests, whole = np.empty((2, _BLOCK)), np.empty(_BLOCK)
        parts = [values] if more is None else [values, more]
        for first in range(0, len(values), _BLOCK):
            for part, rest in zip(parts, rests, strict=False):
                block = part[first : first + _BLOCK]
                rest, cut = rest[: len(block)], whole[: len(block)]
                _scale(block, exponent, rest)
                for i in range(self.count):
                    np.trunc(rest, out=cut)
                    if (digit := found[i]) is None and cut.any():
                        digit = found[i] = np.zeros(len(values))
                    if digit is not None:
                        digit[first : first + _BLOCK] += cut
                    np.subtract(rest, cut, out=rest)
                    if not rest.any():
                        break
                    np.multiply(rest, _SCALE, out=rest)
        return found

    def _cut_apart(self, values: Floats, places: npt.NDArray[np.int16], more: Floats | None) -> list[Floats | None]:
        """The digits of values from the place of each down."""
        finite = places != BEYOND
        exponents = _SHIFT - WIDTH * np.where(finite & (places != NOTHING), places, 0).astype(np.int32)
        parts = [values] if more is None else [values, more]
        rests = [np.ldexp(np.where(finite, part, 0.0), exponents) for part in parts]
        found: list[Floats | None] = []
        for _ in range(self.count):
            wholes = [np.trunc(rest) for rest in rests]
            rests = [(rest - whole) * _SCALE for rest, whole in zip(rests, wholes, strict=True)]
            found.append(np.sum(wholes, axis=0))
        if not finite.all():
            counts = (values == np.inf, values == -np.inf, np.isnan(values))
            found[:3] = [digit + count for digit, count in zip(found, counts, strict=False)]
        return found

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
    if low is None:
        return NOTHING
    one = low == high or (low == NOTHING and not ((places != low) & (places != high)).any())
    return int(high) if one else None  # type: ignore[arg-type]


def _moved(digits: Sequence[str], i: int) -> pl.Expr:
    """Digit ``i`` after a move down by some places: what stood higher by as many."""
    moved: pl.Expr = pl.lit(0)
    for down in range(i + 1):
        moved = pl.when(pl.col("__down") == down).then(pl.col(digits[i - down])).otherwise(moved)
    return moved


def _scale(values: Floats, exponent: int, out: Floats) -> None:
    if abs(exponent) < 1000:
        np.multiply(values, 2.0**exponent, out=out)  # exact, and faster
    else:
        np.ldexp(values, exponent, out=out)


def _highest_place(values: Floats) -> int | None:
    """The place of the largest value, if all are finite."""
    if not len(values):
        return NOTHING
    most = max(-float(values.min()), float(values.max()))  # NaN, where there is one: NumPy passes it on
    return int(_places(np.array([most]))[0]) if np.isfinite(most) else None


def _places(size: Floats) -> npt.NDArray[np.int16]:
    exponents = np.frexp(size)[1].astype(np.int32) - 1
    places = (exponents + _SHIFT) // WIDTH
    places = np.where(size == 0, NOTHING, places)
    return np.where(np.isfinite(size), places, BEYOND).astype(np.int16)
