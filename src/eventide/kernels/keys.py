"""Keys: equality as in Spark, a stable hash, and keys as text.

Stored data depends on the hash, so it is the same on every machine and in every version. Polars' hash is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from eventide.errors import PlanError

JoinStrategy = Literal["inner", "left"]

_SAME = "__same"


def as_grouped(rows: pl.DataFrame, key: Iterable[str]) -> pl.DataFrame:
    """-0.0 is 0.0 (Polars takes ``+ 0.0`` for nothing to do).

    >>> as_grouped(pl.DataFrame({"x": [-0.0, 1.0]}), ["x"])["x"].to_list()
    [0.0, 1.0]
    """
    floats = [pl.col(name) for name in key if rows.schema[name].is_float()]
    return rows.with_columns(pl.when(x == 0).then(x.abs()).otherwise(x) for x in floats) if floats else rows


def join_on_key(
    left: pl.DataFrame, right: pl.DataFrame, key: Sequence[str], how: JoinStrategy = "left", **options: Any
) -> pl.DataFrame:
    """Rows with equal keys side by side, as Spark groups them: null equals null, and NaN equals NaN.

    Polars joins frames on a single float column that it knows to be sorted, and every frame of one row is, without
    taking NaN for equal; a second column makes it compare as it should.
    """
    same = pl.lit(0, pl.Int8).alias(_SAME)
    joined = left.with_columns(same).join(
        right.with_columns(same), on=[*key, _SAME], how=how, nulls_equal=True, **options
    )
    return joined.drop(_SAME)


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


def encoded(columns: Sequence[str], schema: Mapping[str, pl.DataType]) -> pl.Expr:
    """One text a row. Nulls equal nulls, NaN equals NaN, and zero has no sign.

    >>> rows = pl.DataFrame({"shop": ["kiel", None], "n": [-0.0, 1.5]})
    >>> rows.select(key=encoded(["shop", "n"], rows.schema))["key"].to_list()
    ['4:kiel3:0.0', '-3:1.5']
    """
    return pl.concat_str([_part(name, schema[name]) for name in columns]) if columns else pl.lit("")


def encoded_key(values: object, columns: Sequence[str], schema: Mapping[str, pl.DataType]) -> str:
    """Return the text of a key: a value, or one value for each column.

    >>> encoded_key("kiel", ["shop"], {"shop": pl.String()})
    '4:kiel'
    """
    parts = list(values) if isinstance(values, (list, tuple)) else [values]
    if len(parts) != len(columns):
        raise PlanError(f"key=… needs one value for each of {', '.join(map(repr, columns))}, in this order.")
    row = {name: pl.Series(name, [value], schema[name]) for name, value in zip(columns, parts, strict=True)}
    text: str = pl.DataFrame(row).select(encoded(columns, schema)).item()
    return text


def check_key(columns: Sequence[str], schema: Mapping[str, pl.DataType]) -> None:
    """Reject key columns whose values are not plain."""
    for name in columns:
        if schema[name].is_nested() or schema[name] == pl.Object:
            raise PlanError(
                f"key: the column {name!r} is {schema[name]}; a key is a plain value. Name the fields "
                "inside it instead."
            )
        if schema[name] == pl.Duration:
            raise PlanError(
                f"key: the column {name!r} is a duration, which cannot be a key. Turn it into a number, "
                "such as microseconds."
            )


def _part(name: str, dtype: pl.DataType) -> pl.Expr:
    value = pl.col(name)
    if dtype.is_float():
        value = pl.when(value == 0).then(pl.lit(0.0, dtype)).otherwise(value)
    text = value.bin.encode("hex") if dtype == pl.Binary else value.cast(pl.String)
    # The length before each part keeps ("a", "bc") and ("ab", "c") apart.
    whole = pl.concat_str(text.str.len_bytes().cast(pl.String), pl.lit(":"), text)
    return pl.when(value.is_null()).then(pl.lit("-")).otherwise(whole)
