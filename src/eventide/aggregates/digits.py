"""Floats as digits on a fixed grid, so that sums do not depend on how rows are divided.

A float is cut into digits of 32 bits at places that are the same for all floats, and each digit is added up as an
integer. Integers add up to the same in any order, over any tasks, blocks and bundles. A sum holds its highest place,
which is that of its largest value, and the digits from there down. What lies below is dropped from each value alone,
so it makes no difference when the largest value arrives. Digits are rounded to the nearest: three of them are at least
65 bits, more than a float has, so the sum is at least as accurate as adding floats one by one.

The digits of a square are the halves of the products of a float's digits. They stand in places of their own: one place
of a float is two places of its square.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

WIDTH = 32  # bits of a digit; 2**31 rows have room in the 64 bits of a sum
SHIFT = 21  # the unit of place 0 is 2**-21, so that most values between 0.5 and 1024 have two digits
DIGITS = 3
SQUARE_DIGITS = 5
NOTHING = -1000  # the place of zero, which is in no place
BEYOND = 1000  # the place of infinities and NaN: its digits count +inf, -inf and NaN

_BLOCK = 8_192  # rows that are cut together: what is in between stays in the processor's cache
_SPARSE = 8  # a digit that fewer than one row in so many has is cut for these rows alone
_HALF = 1 << (WIDTH - 1)
_MASK = (1 << WIDTH) - 1
# A float to which 1.5 * 2**52 units are added loses all below one unit, and its last bits are the number of units.
_ROUND = [1.5 * 2.0 ** (52 - SHIFT - WIDTH * i) for i in range(4)]
_ROUND_BITS = [int(np.float64(value).view(np.int64)) for value in _ROUND]


class Digit(NamedTuple):
    """One digit of some rows. The array is valid until the next digit is cut."""

    index: int
    """Its position, highest first: ``DIGITS`` of the value, then ``SQUARE_DIGITS`` of its square."""
    rows: slice | npt.NDArray[np.intp]
    whole: Integers


def cut(values: Floats, place: int, *, squares: bool) -> Iterator[Digit]:
    """The digits of values from ``place`` down, those that are not zero for all rows of a block.

    No value may lie in a higher place.
    """
    scratch, whole = np.empty((2, _BLOCK)), np.empty((6, _BLOCK), np.int64)
    for first in range(0, len(values), _BLOCK):
        block = values[first : first + _BLOCK]
        rounded, rest = scratch[:, : len(block)]
        rows = slice(first, first + len(block))
        a, b, *more = whole[:, : len(block)]
        _scale(block, place, rest)
        _round(rest, 0, rounded, a)
        yield Digit(0, rows, a)
        filled = rest != 0
        second = bool(filled.any())
        if second:
            _round(rest, 1, rounded, b)
            yield Digit(1, rows, b)
            np.not_equal(rest, 0, out=filled)
        if squares:
            for index, digit in _square(a, b if second else None, more):
                yield Digit(index, rows, digit)
        count = np.count_nonzero(filled) if second else 0
        if count * _SPARSE > len(block):
            yield from _third(a, b, rest, rows, squares)
        elif count:
            few = np.flatnonzero(filled)
            yield from _third(a[few], b[few], rest[few], few + first, squares)


def _scale(values: Floats, place: int, out: Floats) -> None:
    """Values as if their place were 0."""
    if place == 0:
        np.copyto(out, values)
    elif abs(place * WIDTH) < 1000:
        np.multiply(values, 2.0 ** (-WIDTH * place), out=out)  # exact, and faster
    else:
        np.ldexp(values, -WIDTH * place, out=out)


def _round(rest: Floats, i: int, rounded: Floats, whole: Integers) -> None:
    """Move a digit out of the rest."""
    np.add(rest, _ROUND[i], out=rounded)
    np.subtract(rounded.view(np.int64), _ROUND_BITS[i], out=whole)
    np.subtract(rounded, _ROUND[i], out=rounded)
    np.subtract(rest, rounded, out=rest)


def _square(a: Integers, b: Integers | None, scratch: list[Integers]) -> Iterator[tuple[int, Integers]]:
    """What the two highest digits give to the digits of a square."""
    product, high, low, _ = scratch
    np.multiply(a, a, out=product)
    _halve(product, high, low)
    yield DIGITS, high
    if b is None:
        yield DIGITS + 1, low
        return
    digit = low
    for i, (one, other) in enumerate([(a, b), (b, b)], DIGITS + 1):
        np.multiply(one, other, out=product)
        if one is not other:
            product += product
        low = scratch[3 - i % 2]
        _halve(product, high, low)
        digit += high
        yield i, digit
        digit = low
    yield DIGITS + 3, digit


def _third(
    a: Integers, b: Integers, rest: Floats, rows: slice | npt.NDArray[np.intp], squares: bool
) -> Iterator[Digit]:
    """The third digit, and what it and the fourth give to the digits of a square."""
    rounded, c = np.empty(len(rest)), np.empty(len(rest), np.int64)
    _round(rest, 2, rounded, c)
    yield Digit(2, rows, c)
    if not squares:
        return
    high, low = _halves(2 * a * c)
    yield Digit(DIGITS + 2, rows, high)
    higher, lowest = _halves(2 * b * c)
    yield Digit(DIGITS + 3, rows, low + higher)
    lowest += _halves(c * c)[0]
    if rest.any():
        # A fourth digit follows only where the first is zero, so there is no product of both.
        _round(rest, 3, rounded, c)
        lowest += _halves(2 * b * c)[0]
    yield Digit(DIGITS + 4, rows, lowest)


def _halves(product: Integers) -> tuple[Integers, Integers]:
    high, low = np.empty((2, len(product)), np.int64)
    _halve(product, high, low)
    return high, low


def _halve(product: Integers, high: Integers, low: Integers) -> None:
    """A product as ``high * 2**WIDTH + low``, where the low half is positive or negative."""
    product += _HALF
    np.right_shift(product, WIDTH, out=high)
    np.bitwise_and(product, _MASK, out=low)
    low -= _HALF


def highest_place(values: Floats) -> int:
    """The place of the largest value; ``BEYOND`` where not all are finite."""
    if not len(values):
        return NOTHING
    most = max(-float(values.min()), float(values.max()))  # NaN, where there is one: NumPy passes it on
    return int(places(np.array([most]))[0])


def places(values: Floats) -> npt.NDArray[np.int16]:
    """The place of each value: up to half a unit belongs to the place below."""
    size = np.abs(values)
    fraction, exponents = np.frexp(size)
    found = (exponents.astype(np.int32) - (fraction == 0.5) + SHIFT) // WIDTH
    found = np.where(size == 0, NOTHING, found)
    return np.where(np.isfinite(size), found, BEYOND).astype(np.int16)
