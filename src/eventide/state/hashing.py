"""A hash of keys that is the same on every machine and in every version: stored data rests on it.

Polars' own hash differs between versions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

Hashes = npt.NDArray[np.uint64]

_NULL = np.uint64(0x9E3779B97F4A7C15)
_PRIME = 0x100000001B3
_CHUNK = 1 << 22  # bytes of text hashed at a time: what is in between costs twenty times as much memory


def hashed(rows: pl.DataFrame, key: Sequence[str]) -> Hashes:
    """The hash of each row's key. No version may change it.

    >>> (hashed(pl.DataFrame({"shop": ["kiel", "bonn", "kiel"]}), ["shop"]) % 100).tolist()
    [9, 53, 9]
    """
    mixed = np.zeros(rows.height, np.uint64)
    for name in key:
        mixed = _mix(mixed ^ _hash(_array(rows[name])))
    return mixed


def _array(column: pl.Series) -> pa.Array:
    column = column.cast(pl.String) if isinstance(column.dtype, (pl.Enum, pl.Categorical)) else column
    array = column.to_arrow(compat_level=pl.CompatLevel.oldest())
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _hash(array: pa.Array) -> Hashes:
    dtype = array.type
    if pa.types.is_null(dtype):
        return np.full(len(array), _NULL)
    if pa.types.is_struct(dtype):
        hashes = np.zeros(len(array), np.uint64)
        for part in array.flatten():
            hashes = _mix(hashes ^ _hash(part))
    elif pa.types.is_large_list(dtype) or pa.types.is_list(dtype):
        offsets = array.offsets.to_numpy()
        hashes = _folded(_hash(array.values), offsets)
    elif pa.types.is_large_string(dtype) or pa.types.is_large_binary(dtype):
        hashes = _text(array)
    else:
        hashes = _fixed(array)
    if array.null_count:
        hashes = np.where(array.is_null().to_numpy(zero_copy_only=False), _NULL, hashes)
    return hashes


def _fixed(array: pa.Array) -> Hashes:
    dtype = array.type
    if pa.types.is_decimal(dtype):
        words = np.frombuffer(array.buffers()[1], np.uint64).reshape(-1, 2)[array.offset : array.offset + len(array)]
        return _mix(_mix(words[:, 0]) ^ words[:, 1])
    if pa.types.is_boolean(dtype):
        return _mix(array.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint64))
    if pa.types.is_floating(dtype):
        values = array.fill_null(0.0).to_numpy().astype(np.float64)
        values = np.where(np.isnan(values), np.nan, values) + 0.0  # one NaN, one zero, as Spark groups them
        return _mix(values.view(np.uint64))
    width = np.dtype(f"i{dtype.bit_width // 8}")
    if pa.types.is_unsigned_integer(dtype):
        width = np.dtype(f"u{dtype.bit_width // 8}")
    values = np.frombuffer(array.buffers()[1], width)[array.offset : array.offset + len(array)]
    return _mix(values.astype(np.int64).view(np.uint64) if width.kind == "i" else values.astype(np.uint64))


def _text(array: pa.Array) -> Hashes:
    raw = array.buffers()
    offsets = np.frombuffer(raw[1], np.int64)[array.offset : array.offset + len(array) + 1]
    body = np.frombuffer(raw[2], np.uint8) if raw[2] is not None else np.empty(0, np.uint8)
    hashes = np.empty(len(array), np.uint64)
    first = 0
    while first < len(array):
        last = max(int(np.searchsorted(offsets, offsets[first] + _CHUNK, "right")) - 1, first + 1)
        hashes[first:last] = _folded(body, offsets[first : last + 1])
        first = last
    return hashes


def _folded(values: npt.NDArray[Any], offsets: npt.NDArray[Any]) -> Hashes:
    """One hash per stretch of ``values``: a polynomial in the place of each value, so that order counts."""
    lengths = np.diff(offsets).astype(np.int64)
    hashes = np.zeros(len(lengths), np.uint64)
    full = np.flatnonzero(lengths)
    if len(full):
        low, high = int(offsets[0]), int(offsets[-1])
        starts = (offsets[:-1] - low)[full]
        place = np.arange(high - low) - np.repeat(starts, lengths[full])
        weighted = (values[low:high].astype(np.uint64) + np.uint64(1)) * _powers(int(lengths.max()))[place]
        hashes[full] = np.add.reduceat(weighted, starts)
    return _mix(hashes ^ lengths.view(np.uint64))


def _powers(count: int) -> Hashes:
    return _table(1 << max(count - 1, 1).bit_length())[:count]


@cache
def _table(count: int) -> Hashes:
    powers = np.full(count, _PRIME, np.uint64)
    powers[0] = 1
    return np.multiply.accumulate(powers)


def _mix(words: Hashes) -> Hashes:
    """The finish of splitmix64: every bit of a word bears on every bit of the result."""
    words = words + _NULL
    words = (words ^ words >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ words >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return words ^ words >> np.uint64(31)
