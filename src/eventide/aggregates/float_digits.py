"""Floats as digits on a fixed grid, so that sums do not depend on how rows are divided.

A float is cut into digits of 32 bits at places that are the same for all floats, and each digit is added up as an
integer. Integer sums are equal in any order, over any tasks, blocks and bundles. A sum stores its highest place, which
is that of its largest value, and the digits from there down. Lower digits are dropped from each value separately, so
the arrival of the largest value makes no difference. Digits are rounded to the nearest: three of them have at least 65
bits, more than a float, so the sum is at least as accurate as adding floats one by one.

The digits of a square are the halves of the products of a float's digits. One place of a float is two places of its
square. Differences of such sums are computed as pairs of floats with twice the precision (Dekker 1971).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
_SPLIT = 2.0**27 + 1


class Pair(NamedTuple):
    """The sum of two floats, of which the second is less than the last bit of the first."""

    high: Floats
    low: Floats


def add(left: Floats, right: Floats) -> Pair:
    """Return the exact sum of two floats."""
    high = left + right
    shift = high - left
    return Pair(high, (left - (high - shift)) + (right - shift))


def multiply(left: Floats, right: Floats) -> Pair:
    """Return the exact product of two floats."""
    high = left * right
    (a, b), (c, d) = _split(left), _split(right)
    return Pair(high, ((a * c - high) + a * d + b * c) + b * d)


def square(pair: Pair) -> Pair:
    """Return the square of a pair."""
    high, low = multiply(pair.high, pair.high)
    return add(high, low + 2 * pair.high * pair.low)


def divide(pair: Pair, by: Floats) -> Pair:
    """Divide a pair by a float."""
    first = pair.high / by
    units, remainder = multiply(first, by)
    return add(first, ((pair.high - units) - remainder + pair.low) / by)


def subtract(left: Pair, right: Pair) -> Floats:
    """Return the difference of two pairs as one float."""
    high, low = add(left.high, -right.high)
    return high + (low + (left.low - right.low))


def _split(value: Floats) -> tuple[Floats, Floats]:
    shifted = _SPLIT * value
    high = shifted - (shifted - value)
    return high, value - high


Integers = npt.NDArray[np.int64]
Rows = slice | npt.NDArray[np.intp]

WIDTH = 32  # bits of a digit; 2**31 rows have room in the 64 bits of a sum
SHIFT = 21  # the unit of place 0 is 2**-21, so that most values between 0.5 and 1024 have two digits
DIGITS = 3
SQUARE_DIGITS = 5
NOTHING = -1000  # the place of zero
BEYOND = 1000  # the place of infinities and NaN: its digits count +inf, -inf and NaN

_BLOCK = 16_384  # rows that are cut together, so that intermediate results stay in the processor's cache
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
    units: Integers


def cut(values: Floats, place: int, *, squares: bool) -> Iterator[Digit]:
    """Return the digits of values from ``place`` down, except those that are zero for all rows of a block.

    No value may have a higher place.
    """
    height = min(_BLOCK, len(values))
    floats, integers = np.empty((2, height)), np.empty((7, height), np.int64)
    for first in range(0, len(values), _BLOCK):
        block = values[first : first + _BLOCK]
        rounded, remainder = floats[:, : len(block)]
        a, b, *scratch = integers[:, : len(block)]
        rows = slice(first, first + len(block))
        scaled = _scaled(block, place, remainder)
        _round(scaled, 0, rounded, a, remainder)
        yield Digit(0, rows, a)
        filled = remainder != 0
        if not filled.any():
            if squares:
                _halve(np.multiply(a, a, out=scratch[0]), scratch[1], scratch[2])
                yield Digit(DIGITS, rows, scratch[1])
                yield Digit(DIGITS + 1, rows, scratch[2])
            continue
        _round(remainder, 1, rounded, b, remainder)
        yield Digit(1, rows, b)
        if squares:
            yield from _square(a, b, rows, scratch)
        np.not_equal(remainder, 0, out=filled)
        count = np.count_nonzero(filled)
        if count > len(block) // 2:
            yield from _third(a, b, remainder, rounded, rows, scratch if squares else scratch[:1])
        elif count:  # only for these rows
            few = np.flatnonzero(filled)
            scratch = [array[:count] for array in (scratch if squares else scratch[:1])]
            yield from _third(a[few], b[few], remainder[few], rounded[:count], few + first, scratch)


def _scaled(values: Floats, place: int, out: Floats) -> Floats:
    """Scale values to place 0."""
    if place == 0:
        return values
    if abs(place * WIDTH) < 1000:
        return np.multiply(values, 2.0 ** (-WIDTH * place), out=out)  # exact, and faster
    return np.ldexp(values, -WIDTH * place, out=out)


def _round(values: Floats, i: int, rounded: Floats, units: Integers, remainder: Floats) -> None:
    """Cut off digit ``i``: the whole units and the remainder."""
    np.add(values, _ROUND[i], out=rounded)
    np.subtract(rounded.view(np.int64), _ROUND_BITS[i], out=units)
    np.subtract(rounded, _ROUND[i], out=rounded)
    np.subtract(values, rounded, out=remainder)


def _square(a: Integers, b: Integers, rows: Rows, scratch: list[Integers]) -> Iterator[Digit]:
    """Return the digits of a square that the two highest digits contribute."""
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
    a: Integers, b: Integers, remainder: Floats, rounded: Floats, rows: Rows, scratch: list[Integers]
) -> Iterator[Digit]:
    """Return the third digit and, with more scratch, what it and the fourth contribute to a square."""
    c, *others = scratch
    _round(remainder, 2, rounded, c, remainder)
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
    if remainder.any():
        # A fourth digit follows only where the first is zero, so there is no product of both.
        _round(remainder, 3, rounded, c, remainder)
        _halve(_twice(b, c, product), high, low)
        lower += high
    yield Digit(DIGITS + 4, rows, lower)


def _twice(left: Integers, right: Integers, out: Integers) -> Integers:
    np.multiply(left, right, out=out)
    out += out
    return out


def _halve(product: Integers, high: Integers, low: Integers) -> None:
    """Split a product into ``high * 2**WIDTH + low``. The low half has a sign."""
    product += _HALF
    np.right_shift(product, WIDTH, out=high)
    np.bitwise_and(product, _MASK, out=low)
    low -= _HALF


def highest_place(values: Floats) -> int:
    """Return the place of the largest value; ``BEYOND`` if not all are finite."""
    if not len(values):
        return NOTHING
    largest = max(-float(values.min()), float(values.max()))  # NaN if there is one: NumPy propagates it
    return int(places(np.array([largest]))[0])


def places(values: Floats) -> npt.NDArray[np.int16]:
    """Return the place of each value. Up to half a unit belongs to the place below."""
    size = np.abs(values)
    fraction, exponents = np.frexp(size)
    result = (exponents.astype(np.int32) - (fraction == 0.5) + SHIFT) // WIDTH
    result = np.where(size == 0, NOTHING, result)
    return np.where(np.isfinite(size), result, BEYOND).astype(np.int16)
