"""Pairs of floats, high and low, for twice the precision of one (Dekker 1971): on whole columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
_SPLIT = 2.0**27 + 1


class Pair(NamedTuple):
    """The sum of two floats, of which the second is less than the last bit of the first."""

    high: Floats
    low: Floats


def add(one: Floats, other: Floats) -> Pair:
    """The exact sum of two floats."""
    high = one + other
    shift = high - one
    return Pair(high, (one - (high - shift)) + (other - shift))


def multiply(one: Floats, other: Floats) -> Pair:
    """The exact product of two floats."""
    high = one * other
    (a, b), (c, d) = _split(one), _split(other)
    return Pair(high, ((a * c - high) + a * d + b * c) + b * d)


def square(pair: Pair) -> Pair:
    """The square of a pair."""
    high, low = multiply(pair.high, pair.high)
    return add(high, low + 2 * pair.high * pair.low)


def divide(pair: Pair, by: Floats) -> Pair:
    """A pair divided by a float."""
    first = pair.high / by
    whole, rest = multiply(first, by)
    return add(first, ((pair.high - whole) - rest + pair.low) / by)


def subtract(one: Pair, other: Pair) -> Floats:
    """The difference of two pairs as one float."""
    high, low = add(one.high, -other.high)
    return high + (low + (one.low - other.low))


def _split(value: Floats) -> tuple[Floats, Floats]:
    shifted = _SPLIT * value
    high = shifted - (shifted - value)
    return high, value - high
