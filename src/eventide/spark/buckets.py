"""Which bucket a key belongs to. The function is part of the state format: no version may change it.

It does not use Spark's hash, because keys are hashed where they have been grouped already: once per cell, not once per
row.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import polars as pl

from eventide.state.hashing import hashed


def buckets_of(rows: pl.DataFrame, key: Sequence[str], count: int) -> npt.NDArray[np.uint16]:
    """The bucket of each row.

    >>> buckets_of(pl.DataFrame({"shop": ["kiel", "bonn", "kiel"]}), ["shop"], 100).tolist()
    [9, 53, 9]
    """
    if not key or count == 1:
        return np.zeros(rows.height, np.uint16)
    return (hashed(rows, key) % np.uint64(count)).astype(np.uint16)


@cache
def labels(count: int) -> tuple[int, ...]:
    """What buckets are called in the shuffle: numbers that Spark's own hash spreads evenly over ``count`` partitions.

    The first bucket is always called 0, so that a query with another number of buckets meets the state of this one.

    >>> sorted(murmur3(label) % 4 for label in labels(4))
    [0, 1, 2, 3]
    """
    free = set(range(count))
    found: list[int] = []
    label = 0
    while len(found) < count:
        partition = murmur3(label) % count
        if partition in free:
            free.remove(partition)
            found.append(label)
        label += 1
    return tuple(found)


def murmur3(value: int, seed: int = 42) -> int:
    """Spark's hash of an int column, as a signed number.

    >>> murmur3(0), murmur3(1)
    (933211791, -559580957)
    """
    word = _rotated(value * 0xCC9E2D51, 15) * 0x1B873593 & 0xFFFFFFFF
    mixed = _rotated(seed ^ word, 13) * 5 + 0xE6546B64 & 0xFFFFFFFF
    mixed ^= 4
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    mixed ^= mixed >> 16
    return mixed - 2**32 if mixed >= 2**31 else mixed


def _rotated(value: int, bits: int) -> int:
    value &= 0xFFFFFFFF
    return (value << bits | value >> 32 - bits) & 0xFFFFFFFF
