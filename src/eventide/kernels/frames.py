"""Frames that hold their own values and no others.

A slice, a filter or a gather of text inside of lists, arrays or structs shares the buffers of its source
frame, and Arrow IPC writes a shared buffer as a whole. A page of one row would then carry the text of all rows that
arrived with it, and a table in memory would hold the text of rows that were removed from it.

``sizes`` estimates how large values are, from the widths of columns and the lengths of their content.

An estimate that is the same in every process: it does not ask how memory happens to be laid out.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import IO, Literal

import numpy as np
import polars as pl
import pyarrow as pa
from polars.datatypes import DataTypeClass

Compression = Literal["uncompressed", "lz4", "zstd"]


def compact(frame: pl.DataFrame) -> pl.DataFrame:
    """The same rows, in buffers that no other frame shares where sharing would be expensive.

    Columns without nested text are returned as they are: Polars writes and gathers those without their neighbours.
    """
    nested = _sharing(frame)
    return frame.with_columns(_text_alone(_lists_alone(frame[name])) for name in nested) if nested else frame


def write_ipc(frame: pl.DataFrame, file: IO[bytes], compression: Compression = "uncompressed") -> None:
    """Write a frame as an Arrow IPC stream of its own values."""
    nested = _sharing(frame)
    if not nested:
        return frame.write_ipc_stream(file, compression=compression)
    # Large text has offsets instead of views: to write it copies exactly the values that are there.
    alone = frame.with_columns(_lists_alone(frame[name]) for name in nested)
    return alone.write_ipc_stream(file, compression=compression, compat_level=pl.CompatLevel.oldest())


def to_ipc(frame: pl.DataFrame) -> bytes:
    """A frame as the bytes of an Arrow IPC stream.

    >>> texts = pl.DataFrame({"texts": [["a" * 100]] * 1000})
    >>> len(to_ipc(texts.slice(0, 1))) < 1000
    True
    """
    body = io.BytesIO()
    write_ipc(frame, body)
    return body.getvalue()


def compact_table(table: pa.Table) -> pa.Table:
    """The same for Arrow tables: of a dictionary, only the values that occur. Other types are written compactly."""
    plain = pa.schema([field.with_type(_without_dictionary(field.type)) for field in table.schema])
    if plain.equals(table.schema):
        return table
    rows = table.take(np.arange(table.num_rows))  # a slice of lists has all values of its parent
    return rows.cast(plain).cast(table.schema)


def _without_dictionary(dtype: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(dtype):
        return dtype.value_type
    if pa.types.is_struct(dtype):
        return pa.struct([field.with_type(_without_dictionary(field.type)) for field in dtype])
    if pa.types.is_list(dtype):
        return pa.list_(dtype.value_field.with_type(_without_dictionary(dtype.value_type)))
    if pa.types.is_large_list(dtype):
        return pa.large_list(dtype.value_field.with_type(_without_dictionary(dtype.value_type)))
    if pa.types.is_fixed_size_list(dtype):
        return pa.list_(dtype.value_field.with_type(_without_dictionary(dtype.value_type)), dtype.list_size)
    return dtype


_TEXT = (pl.String, pl.Binary)
_NOT_IN_ARROW = (pl.Int128, pl.UInt128)


def _sharing(frame: pl.DataFrame) -> list[str]:
    """The columns whose slices share the values of their parents."""
    return [name for name, dtype in frame.schema.items() if dtype.is_nested() and _holds(dtype, *_TEXT, pl.Categorical)]


def _lists_alone(column: pl.Series) -> pl.Series:
    """Lists of their own values. A slice of lists refers to all values of its parent; gathering copies those it has."""
    return column.gather(pl.int_range(len(column), eager=True))


def _text_alone(column: pl.Series) -> pl.Series:
    if not _holds(column.dtype, *_TEXT):
        return column
    if _holds(column.dtype, *_NOT_IN_ARROW):
        return pl.read_ipc_stream(to_ipc(column.to_frame())).to_series()
    return pl.Series(column.name, column.to_arrow(compat_level=pl.CompatLevel.oldest()), dtype=column.dtype)


def _holds(dtype: pl.DataType, *types: type[pl.DataType]) -> bool:
    """Whether a type is one of these or contains one of them."""
    if isinstance(dtype, (pl.List, pl.Array)):
        return _holds(as_dtype(dtype.inner), *types)
    if isinstance(dtype, pl.Struct):
        return any(_holds(as_dtype(field.dtype), *types) for field in dtype.fields)
    return dtype.base_type() in types


_WORD = 8


def sizes(schema: Mapping[str, pl.DataType]) -> pl.Expr:
    """The size of a row of these columns.

    >>> frame = pl.DataFrame({"n": [1, 2], "names": [["a", "bcd"], []]})
    >>> frame.select(sizes(frame.schema)).to_series().to_list()
    [20, 16]
    """
    return pl.sum_horizontal(_size(pl.col(name), dtype) for name, dtype in schema.items()).cast(pl.Int64)


def _size(value: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    if dtype == pl.String:
        return value.str.len_bytes().fill_null(0).cast(pl.Int64)
    if dtype == pl.Binary:
        return value.bin.size().fill_null(0).cast(pl.Int64)
    if isinstance(dtype, pl.Struct):
        fields = [_size(value.struct.field(field.name), as_dtype(field.dtype)) for field in dtype.fields]
        return pl.sum_horizontal(fields).cast(pl.Int64)
    if isinstance(dtype, pl.List):
        return _WORD + value.list.eval(_size(pl.element(), as_dtype(dtype.inner))).list.sum().fill_null(0)
    return pl.lit(_WORD, pl.Int64)


def as_dtype(dtype: pl.DataType | DataTypeClass) -> pl.DataType:
    """A type as an instance. Polars takes classes such as ``pl.Int64`` too, as inner types and as types of fields."""
    return dtype() if isinstance(dtype, type) else dtype
