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
Rows = slice | npt.NDArray[np.intp]

WIDTH = 32  # bits of a digit; 2**31 rows have room in the 64 bits of a sum
SHIFT = 21  # the unit of place 0 is 2**-21, so that most values between 0.5 and 1024 have two digits
DIGITS = 3
SQUARE_DIGITS = 5
NOTHING = -1000  # the place of zero, which is in no place
BEYOND = 1000  # the place of infinities and NaN: its digits count +inf, -inf and NaN

_BLOCK = 16_384  # rows that are cut together: what is in between stays in the processor's cache
_HALF = 1 << (WIDTH - 1)
_MASK = (1 << WIDTH) - 1
# A float to which 1.5 * 2**52 units are added loses all below one unit, and its last bits are the number of units.
_ROUND = [1.5 * 2.0 ** (52 - SHIFT - WIDTH * i) for i in range(4)]
_ROUND_BITS = [int(np.float64(value).view(np.int64)) for value in _ROUND]


class Digit(NamedTuple):
    """One digit of some rows. The array is valid until the next digit is cut."""

    position: int
    """Highest first: ``DIGITS`` of the value, then ``SQUARE_DIGITS`` of its square."""
    rows: Rows
    whole: Integers


def cut(values: Floats, place: int, *, squares: bool) -> Iterator[Digit]:
    """The digits of values from ``place`` down, those that are not zero for all rows of a block.

    No value may lie in a higher place.
    """
    height = min(_BLOCK, len(values))
    floats, integers = np.empty((2, height)), np.empty((7, height), np.int64)
    for first in range(0, len(values), _BLOCK):
        block = values[first : first + _BLOCK]
        rounded, rest = floats[:, : len(block)]
        a, b, *scratch = integers[:, : len(block)]
        rows = slice(first, first + len(block))
        scaled = _scaled(block, place, rest)
        _round(scaled, 0, rounded, a, rest)
        yield Digit(0, rows, a)
        filled = rest != 0
        if not filled.any():
            if squares:
                _halve(np.multiply(a, a, out=scratch[0]), scratch[1], scratch[2])
                yield Digit(DIGITS, rows, scratch[1])
                yield Digit(DIGITS + 1, rows, scratch[2])
            continue
        _round(rest, 1, rounded, b, rest)
        yield Digit(1, rows, b)
        if squares:
            yield from _square(a, b, rows, scratch)
        np.not_equal(rest, 0, out=filled)
        count = np.count_nonzero(filled)
        if count > len(block) // 2:
            yield from _third(a, b, rest, rounded, rows, scratch if squares else scratch[:1])
        elif count:  # for these rows alone
            few = np.flatnonzero(filled)
            scratch = [array[:count] for array in (scratch if squares else scratch[:1])]
            yield from _third(a[few], b[few], rest[few], rounded[:count], few + first, scratch)


def _scaled(values: Floats, place: int, out: Floats) -> Floats:
    """Values as if their place were 0."""
    if place == 0:
        return values
    if abs(place * WIDTH) < 1000:
        return np.multiply(values, 2.0 ** (-WIDTH * place), out=out)  # exact, and faster
    return np.ldexp(values, -WIDTH * place, out=out)


def _round(values: Floats, i: int, rounded: Floats, whole: Integers, rest: Floats) -> None:
    """Cut digit ``i`` off: the whole units, and the rest."""
    np.add(values, _ROUND[i], out=rounded)
    np.subtract(rounded.view(np.int64), _ROUND_BITS[i], out=whole)
    np.subtract(rounded, _ROUND[i], out=rounded)
    np.subtract(values, rounded, out=rest)


def _square(a: Integers, b: Integers, rows: Rows, scratch: list[Integers]) -> Iterator[Digit]:
    """What the two highest digits give to the digits of a square."""
    product, high, low, lower, _ = scratch
    _halve(np.multiply(a, a, out=product), high, low)
    yield Digit(DIGITS, rows, high)
    _halve(_twice(a, b, product), high, lower)
    low += high
    yield Digit(DIGITS + 1, rows, low)
    _halve(np.multiply(b, b, out=product), high, low)
    lower += high
    yield Digit(DIGITS + 2, rows, lower)
    yield Digit(DIGITS + 3, rows, low)


def _third(
    a: Integers, b: Integers, rest: Floats, rounded: Floats, rows: Rows, scratch: list[Integers]
) -> Iterator[Digit]:
    """The third digit, and, with more scratch, what it and the fourth give to the digits of a square."""
    c, *others = scratch
    _round(rest, 2, rounded, c, rest)
    yield Digit(2, rows, c)
    if not others:
        return
    product, high, low, lower = others
    _halve(_twice(a, c, product), high, low)
    yield Digit(DIGITS + 2, rows, high)
    _halve(_twice(b, c, product), high, lower)
    low += high
    yield Digit(DIGITS + 3, rows, low)
    _halve(np.multiply(c, c, out=product), high, low)
    lower += high
    if rest.any():
        # A fourth digit follows only where the first is zero, so there is no product of both.
        _round(rest, 3, rounded, c, rest)
        _halve(_twice(b, c, product), high, low)
        lower += high
    yield Digit(DIGITS + 4, rows, lower)


def _twice(one: Integers, other: Integers, out: Integers) -> Integers:
    np.multiply(one, other, out=out)
    out += out
    return out


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
