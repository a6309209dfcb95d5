"""Intervals of whole numbers, as columns: many numbers in any order become few intervals."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

NO_INTS: Ints = np.empty(0, np.int64)


def int_bounds(numbers: pl.Series) -> tuple[int, int] | None:
    """The least and the greatest of whole numbers; None without any.

    >>> int_bounds(pl.Series([3, None, 1])), int_bounds(pl.Series([None], dtype=pl.Int64))
    ((1, 3), None)
    """
    low: Any = numbers.min()  # Polars types the minimum of a column of any type
    high: Any = numbers.max()
    return None if low is None else (int(low), int(high))


def int_min(numbers: pl.Series) -> int | None:
    """The least of whole numbers; None without any.

    >>> int_min(pl.Series([3, None, 1])), int_min(pl.Series([], dtype=pl.Int64))
    (1, None)
    """
    low: Any = numbers.min()
    return None if low is None else int(low)


def int_max(numbers: pl.Series) -> int | None:
    """The greatest of whole numbers; None without any.

    >>> int_max(pl.Series([3, None, 1])), int_max(pl.Series([], dtype=pl.Int64))
    (3, None)
    """
    high: Any = numbers.max()
    return None if high is None else int(high)


def order_by(*columns: Ints) -> Ints:
    """The positions that sort by the first column, then the second, and so on.

    >>> order_by(np.array([1, 0, 1]), np.array([5, 9, 4])).tolist()
    [1, 2, 0]
    """
    packed = _packed(columns)
    if packed is None:
        return np.lexsort(columns[::-1])
    falls = np.count_nonzero(packed[1:] < packed[:-1])
    if falls == 0:  # the usual case: a task reads its partition in order
        return np.arange(len(packed))
    if falls * 64 < len(packed):  # a few sorted stretches, as state and news are: numpy merges them
        return np.argsort(packed, kind="stable")
    return pl.Series(packed).arg_sort().to_numpy().astype(np.int64, copy=False)


def _packed(columns: tuple[Ints, ...]) -> Ints | None:
    """All columns in one integer of the same order, which sorts several times faster, where they fit."""
    packed = np.zeros(len(columns[0]), np.int64)
    if not len(packed):
        return packed
    used = 0
    for column in columns:
        width = int(column.max()).bit_length()
        used += width
        if column.min() < 0 or used > 63:
            return None
        packed = (packed << width) | column
    return packed


def join_runs(keys: tuple[Ints, ...], start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Join what overlaps or touches: the order to put rows in, and where in it each joined run begins.

    Any payload is then joined with ``ufunc.reduceat(payload[order], heads)``.

    >>> of = np.array([0, 0, 0]); start = np.array([7, 1, 3]); end = np.array([9, 2, 5])
    >>> order, heads = join_runs((of,), start, end)
    >>> start[order][heads].tolist(), np.maximum.reduceat(end[order], heads).tolist()
    ([1, 7], [5, 9])
    """
    order = order_by(*keys, start)
    if not len(order):
        return order, NO_INTS
    start, end = start[order], end[order]
    keys = tuple(key[order] for key in keys)
    same = same_as_before(keys)
    reach = running_max(keys, end)
    fresh = ~same
    fresh[1:] |= start[1:] - 1 > reach[:-1]
    return order, np.flatnonzero(fresh)


def same_as_before(keys: tuple[Ints, ...]) -> Bools:
    """Whether each row has the keys of the row before it.

    >>> same_as_before((np.array([3, 3, 4]),)).tolist()
    [False, True, False]
    """
    same = np.zeros(len(keys[0]), np.bool_)
    same[1:] = True
    for key in keys:
        same[1:] &= key[1:] == key[:-1]
    return same


def running_max(keys: tuple[Ints, ...], values: Ints) -> Ints:
    """The highest value so far among the rows of the same keys; rows are sorted by keys.

    >>> running_max((np.array([0, 0, 1]),), np.array([8, 5, 2])).tolist()
    [8, 8, 2]
    """
    if not np.any((values[1:] < values[:-1]) & same_as_before(keys)[1:]):
        return values
    # Ranks grow from one key to the next, so a plain running maximum of ranks starts anew at each key.
    by_value = np.lexsort((values, *keys[::-1]))
    rank = np.empty_like(by_value)
    rank[by_value] = np.arange(len(by_value))
    return values[by_value[np.maximum.accumulate(rank)]]


def contains(keys: Ints, start: Ints, end: Ints, key: Ints, number: Ints) -> Bools:
    """Whether each (key, number) is in one of the runs, which are disjoint and sorted.

    >>> one = np.array([0]); contains(one, np.array([3]), np.array([5]), np.array([0, 0]), np.array([5, 6])).tolist()
    [True, False]
    """
    return run_of(keys, start, end, key, number) >= 0


def run_of(keys: Ints, start: Ints, end: Ints, key: Ints, number: Ints) -> Ints:
    """The run that contains each (key, number), or -1; runs are disjoint and sorted.

    >>> one = np.array([0]); run_of(one, np.array([3]), np.array([5]), np.array([0, 0]), np.array([5, 6])).tolist()
    [0, -1]
    """
    runs = np.full(len(number), -1)
    if not len(start) or not len(number):
        return runs
    # Runs sort before a number equal to their start, so the last run before it is the only candidate.
    order = np.lexsort(
        (
            np.repeat([0, 1], [len(start), len(number)]),
            np.concatenate((start, number)),
            np.concatenate((keys, key)),
        )
    )
    is_run = order < len(start)
    last = np.maximum.accumulate(np.where(is_run, order, -1))
    query, run = order[~is_run] - len(start), last[~is_run]
    inside = (run >= 0) & (keys[run] == key[query]) & (end[run] >= number[query])
    runs[query] = np.where(inside, run, -1)
    return runs
