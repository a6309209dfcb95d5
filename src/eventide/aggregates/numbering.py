"""Groups as numbers, for the accumulators that group again inside a group.

Keys may be of any type; a number is cheap to group, sort and join by.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from eventide.aggregates.grouping import group

GROUP = "__eventide_group"
_POSITION = "__eventide_position"


class Numbered(NamedTuple):
    """A frame whose rows know the number of their group."""

    rows: pl.DataFrame
    """The frame, with the column ``GROUP``."""
    keys: pl.DataFrame
    """One row per group: number ``i`` is at position ``i``."""
    groups: int


def number(frame: pl.DataFrame, by: Sequence[str]) -> Numbered:
    """Number the distinct ``by`` of a frame.

    >>> rows, keys, groups = number(pl.DataFrame({"shop": ["a", "a"], "price": [1, 2]}), ["shop"])
    >>> keys["shop"].to_list(), rows[GROUP].to_list(), groups
    (['a'], [0, 0], 1)
    """
    grouped = group(frame.with_row_index(_POSITION), by, [pl.col(_POSITION).implode()])
    members = grouped[_POSITION]
    numbers = np.empty(frame.height, np.uint32)
    numbers[members.explode().to_numpy()] = np.repeat(
        np.arange(grouped.height, dtype=np.uint32), members.list.len().to_numpy()
    )
    return Numbered(frame.with_columns(pl.Series(GROUP, numbers)), grouped.drop(_POSITION), grouped.height)


def in_order(values: pl.DataFrame, groups: int, *, missing: pl.Expr) -> pl.Series:
    """The one column beside ``GROUP``, for the groups 0, 1, 2, ..., with ``missing`` where there is none."""
    name = next(c for c in values.columns if c != GROUP)
    every = pl.DataFrame({GROUP: np.arange(groups, dtype=np.uint32)})
    joined = every.join(values, on=GROUP, how="left", maintain_order="left")
    return joined.select(pl.col(name).fill_null(missing)).to_series()
