"""Deterministic grouping of rows: the same input rows give the same output bytes.

- ``group``: Polars sums the floats of few groups in parts, and merges the parts in an order that differs between runs,
  in both engines and with ``maintain_order``. Only an expression that it cannot compute in parts makes it process the
  rows of a group in sequence. That is slower, so callers ask for it (``ordered``) only if the order can matter.
- ``number``: numbers groups, for accumulators that group again inside a group. Keys may have any type; a number is
  cheap to group, sort and join by.
- ``dense_groups``: finds groups by arithmetic instead of hashing, if the keys are integers in a small range. The number
  of a group follows from the values of its keys, and integers are summed by number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from eventide.kernels.intervals import int_bounds

_WHOLE = "__whole"


def group(frame: pl.DataFrame, by: Sequence[str], columns: Sequence[pl.Expr], *, ordered: bool = True) -> pl.DataFrame:
    """``columns`` evaluated once per distinct ``by``, in no particular order of groups.

    ``ordered``: the expressions receive the rows of a group in the order of ``frame``. Without it, their results must
    not depend on the order. Without ``by``, the whole frame is one group; an empty frame has none.
    """
    if not by:
        return frame.select(columns) if frame.height else frame.select(columns).clear()
    grouped = frame.lazy().group_by(list(by))
    if not ordered:
        return grouped.agg(columns).collect()
    # A literal cannot be computed in parts, so no other column is. It must be in the result, or the optimizer drops it.
    whole = grouped.agg(*columns, pl.lit(True).alias(_WHOLE)).collect(engine="in-memory")
    return whole.drop(_WHOLE)


GROUP = "__eventide_group"
_POSITION = "__eventide_position"


class Numbered(NamedTuple):
    """A frame with the number of each row's group."""

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
    """The other column next to ``GROUP``, for the groups 0, 1, 2, ...; ``missing`` for groups without a value."""
    name = next(c for c in values.columns if c != GROUP)
    every = pl.DataFrame({GROUP: np.arange(groups, dtype=np.uint32)})
    joined = every.join(values, on=GROUP, how="left", maintain_order="left")
    return joined.select(pl.col(name).fill_null(missing)).to_series()


Grid: TypeAlias = tuple[int, int]
"""Width and offset of a grid. A value is rounded down to a grid point."""

# Hashing is better above this many unused numbers per row; a small range is always used.
_ROOM = 4
_FEW = 1024
# Rows per block: they fit the processor's cache, and the cost of calls is small.
_BLOCK = 65_536


class Adder(Protocol):
    """Sums several series together by group number."""

    def add(self, first: int, numbers: npt.NDArray[np.int64]) -> None:
        """Add the rows from ``first`` on, whose groups are ``numbers``."""

    def columns(self, present: npt.NDArray[np.intp]) -> list[pl.Series]:
        """The columns of these groups."""


@dataclass(frozen=True)
class _Axis:
    """One key's part of a group's number."""

    name: str
    dtype: pl.DataType
    low: int
    step: int
    length: int


@dataclass(frozen=True)
class DenseGroups:
    """How rows are numbered by group, and how keys are read back from the numbers."""

    frame: pl.DataFrame
    size: int
    axes: tuple[_Axis, ...]

    def sums(self, addends: Mapping[str, pl.Series | None], adders: Sequence[Adder] = ()) -> pl.DataFrame:
        """One row per group that occurs: its keys, and each series added up (None: the number of rows).

        Series hold integers, whose sums fit into 64 bits. ``adders`` add up more.
        """
        values = {name: series for name, series in addends.items() if series is not None}
        totals = {name: np.zeros(self.size, np.int64) for name in values}
        rows = np.zeros(self.size, np.int64)
        for first, numbers in self._blocks():
            rows += np.bincount(numbers, minlength=self.size)
            for name, series in values.items():
                np.add.at(totals[name], numbers, series.slice(first, len(numbers)).to_numpy())
            for adder in adders:
                adder.add(first, numbers)
        present = np.flatnonzero(rows)
        sums = [pl.Series(name, totals.get(name, rows)[present]) for name in addends]
        more = [column for adder in adders for column in adder.columns(present)]
        return pl.DataFrame([*self._keys(present), *sums, *more])

    def _blocks(self) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
        """The rows' group numbers, block by block: what fits the cache is not written to memory and read again.

        That is why columns are cut before they become arrays: one in several pieces would be copied as a whole.
        """
        columns = [self.frame[axis.name] for axis in self.axes]
        height = max(_BLOCK, self.size)
        scratch, numbers = np.empty((2, min(height, self.frame.height)), np.int64)
        for first in range(0, self.frame.height, height):
            parts = [column.slice(first, height).to_numpy() for column in columns]
            length = len(parts[0])
            place, number = scratch[:length], numbers[:length]
            for part, axis in zip(parts, self.axes, strict=True):
                target = number if axis is self.axes[0] else place
                np.subtract(part, axis.low, out=target, casting="unsafe", dtype=np.int64)
                if axis.step != 1:
                    np.floor_divide(target, axis.step, out=target)
                if target is place:
                    number *= axis.length
                    number += place
            yield first, number

    def _keys(self, numbers: npt.NDArray[np.int64]) -> list[pl.Series]:
        keys: list[pl.Series] = []
        for axis in reversed(self.axes):
            numbers, place = np.divmod(numbers, axis.length) if len(self.axes) > 1 else (numbers, numbers)
            keys.append(pl.Series(axis.name, place * axis.step + axis.low, dtype=pl.Int64).cast(axis.dtype))
        return keys[::-1]


def on_grid(grids: Mapping[str, Grid]) -> list[pl.Expr]:
    """The columns of ``grids``, each value moved down to its grid point.

    >>> pl.DataFrame({"at": [-1, 0, 61]}).select(on_grid({"at": (60, 1)}))["at"].to_list()
    [-59, -59, 61]
    """
    return [(pl.col(name) - offset) // width * width + offset for name, (width, offset) in grids.items()]


def dense_groups(frame: pl.DataFrame, by: Sequence[str], grids: Mapping[str, Grid]) -> DenseGroups | None:
    """Number the groups by arithmetic; None if the keys are not integers in a small range.

    Columns in ``grids`` are grouped by grid point, which costs nothing extra here.
    """
    if not by or any(not _integral(frame, name) for name in by):
        return None
    axes, size = [], 1
    room = _ROOM * frame.height + _FEW
    for name in by:
        values, (step, offset) = frame[name], grids.get(name, (1, 0))
        bounds = int_bounds(values)
        if bounds is None:
            return None
        low, high = bounds
        low = (low - offset) // step * step + offset
        length = (high - low) // step + 1
        axes.append(_Axis(name, values.dtype, low, step, length))
        size *= length
        if size > room:
            return None
    return DenseGroups(frame, size, tuple(axes))


def _integral(frame: pl.DataFrame, name: str) -> bool:
    dtype = frame.schema[name]
    return dtype.is_integer() and dtype not in (pl.Int128, pl.UInt128, pl.UInt64) and not frame[name].null_count()
