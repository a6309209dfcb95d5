"""Events as Arrow: conversion to the schema of a stream, encoding, routing by key, and writer ids."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from eventide.errors import DataError, PlanError
from eventide.kernels.frames import compact_table
from eventide.kernels.keys import hashed
from eventide.marks.errors import unknown_columns
from eventide.marks.segments import Segments
from eventide.marks.stores.store import Blob, Part

SEGMENT, OFFSET = "_segment", "_offset"
"""Columns that readers add: the location of an event, which is unique in its stream."""
LOCATION_COLUMNS = (SEGMENT, OFFSET, "_mark")
"""All columns that readers add. On Spark, ``_mark`` is the last mark passed with the batch."""
POINT = "__point"
"""The point of a transaction's row in the key space. The commit routes by it and drops it."""

Rows: TypeAlias = "pl.DataFrame | pa.Table | Sequence[Mapping[str, Any]]"

# Batches are small: threads would cost more than they save.
_WRITE_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_READ_OPTIONS = pa.ipc.IpcReadOptions(use_threads=False)
_LARGE_BODY = 1 << 16  # above this many bytes, copying a body takes longer than parsing its schema
_PREFIX = 8  # bytes before each message of an Arrow stream, and at its end
_GENERATED_ID = re.compile("writer-[0-9a-f]{32}")
_DECODE_ERRORS = (pa.ArrowException, OSError, EOFError, ValueError)


def check_columns(stream: str, schema: pa.Schema) -> None:
    """Reject a schema with duplicate or internal columns."""
    for name in schema.names:
        if name == POINT:
            raise PlanError(
                f"The events of stream {stream!r} have a column {name!r}, which transactions add. Rename it."
            )
        if schema.names.count(name) > 1:
            raise PlanError(f"The events of stream {stream!r} have two columns {name!r}. Rename one of them.")


def to_table(rows: Rows, schema: pa.Schema) -> pa.Table:
    """Convert rows to exactly the columns of a stream. Missing columns are null."""
    try:
        if isinstance(rows, pl.DataFrame):
            rows = rows.to_arrow(compat_level=pl.CompatLevel.oldest())
        names = rows.column_names if isinstance(rows, pa.Table) else {name for row in rows for name in row}
        unknown = set(names) - set(schema.names)
        if unknown:
            raise unknown_columns(sorted(unknown), schema.names)
        if not isinstance(rows, pa.Table):
            values = ([row.get(name) for row in rows] for name in schema.names)
            return pa.table(list(map(to_column, values, schema)), schema=schema)
        columns = [
            rows[field.name].cast(field.type) if field.name in names else pa.nulls(len(rows), field.type)
            for field in schema
        ]
        return pa.table(columns, schema=schema)
    except PlanError:
        raise
    except (pa.ArrowException, TypeError, ValueError, ArithmeticError) as cause:
        declared = ", ".join(f"{field.name} {field.type}" for field in schema)
        raise PlanError(
            f"The events do not fit the stream's columns ({declared}): {str(cause).removesuffix('.')}."
        ) from cause


def to_column(values: Sequence[Any], field: pa.Field) -> pa.Array:
    """Convert Python values to a column. Arrow truncates fractions silently, so they are rejected here.

    >>> to_column([1, 2.0, None], pa.field("n", pa.int64())).to_pylist()
    [1, 2, None]
    >>> to_column([1, 2.5], pa.field("n", pa.int64()))
    Traceback (most recent call last):
    ...
    eventide.errors.PlanError: Column 'n' (int64) takes whole numbers, not 2.5. Round it, or choose another type.
    """
    column = pa.array(values, field.type)
    if _has_integers(field.type):
        for value in _fractions(values, field.type):
            raise PlanError(
                f"Column {field.name!r} ({field.type}) takes whole numbers, not {value}. Round it, or "
                "choose another type."
            )
    return column


def encode(table: pa.Table) -> bytes:
    """Encode events as an Arrow IPC stream."""
    table = compact_table(table)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_WRITE_OPTIONS) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def decode(body: bytes) -> pa.Table:
    """Decode the events of ``encode``."""
    return pa.ipc.open_stream(body, options=_READ_OPTIONS).read_all()


def decode_all(bodies: Sequence[bytes]) -> pa.Table:
    """Decode and concatenate many bodies.

    Small bodies with the same schema message are joined into one stream, because parsing each schema would dominate.
    Large ones are decoded separately, because copying them would cost more.
    """
    schema, end = _schema_message(bodies[0]), bodies[0][-_PREFIX:]
    are_large = sum(map(len, bodies)) > _LARGE_BODY * len(bodies)
    if are_large or not all(body.startswith(schema) and body.endswith(end) for body in bodies):
        return pa.concat_tables(map(decode, bodies))
    batches = (memoryview(body)[len(schema) : -_PREFIX] for body in bodies)
    return decode(b"".join((schema, *batches, end)))


def decode_blobs(stream: str, segment: int, blobs: Sequence[Blob]) -> pa.Table:
    """Decode consecutive blobs. A damaged blob is reported with its position."""
    try:
        table = decode_all([blob.body for blob in blobs])
        if table.num_rows == sum(blob.rows for blob in blobs):
            return table
    except _DECODE_ERRORS as cause:
        raise _first_damaged(stream, segment, blobs, str(cause)) from cause
    raise _first_damaged(stream, segment, blobs, "the number of events differs")


def key_points(keys: Iterable[Any] | pl.Series) -> npt.NDArray[np.float64]:
    """The points of routing keys in the key space. Stored events depend on this mapping; it must never change.

    >>> key_points(["kiel", "bonn", "kiel"]).round(3).tolist()
    [0.164, 0.055, 0.164]
    """
    series = keys if isinstance(keys, pl.Series) else pl.Series(list(keys))
    return np.ldexp((hashed(series.to_frame("key"), ["key"]) >> np.uint64(11)).astype(np.float64), -53)


def split_by_segment(table: pa.Table, points: npt.NDArray[np.float64], segments: Segments) -> list[Part]:
    """Split events over the open segments. Events of a segment keep their order."""
    numbers = segments.route(points)
    parts: list[Part] = []
    for number in np.unique(numbers).tolist():
        rows = table if len(segments.open) == 1 else table.filter(pa.array(numbers == number))
        parts.append(Part(number, len(rows), encode(rows)))
    return parts


def is_generated(writer: str) -> bool:
    """Whether a writer id was generated, so that no writer will use it again.

    >>> is_generated("writer-" + 32 * "0"), is_generated("writer-1")
    (True, False)
    """
    return _GENERATED_ID.fullmatch(writer) is not None


def _fractions(values: Sequence[Any], type_: pa.DataType) -> Iterator[Any]:
    """The values with a fraction where the type has integers."""
    if not pa.types.is_nested(type_):
        fractional = {kind for kind in set(map(type, values)) if issubclass(kind, float | np.floating | Decimal)}
        if fractional:
            yield from (value for value in values if type(value) in fractional and value != value // 1)
        return
    for nested_values, nested_type in _nested([value for value in values if value is not None], type_):
        if _has_integers(nested_type):
            yield from _fractions(nested_values, nested_type)


def _nested(values: Sequence[Any], type_: pa.DataType) -> Iterator[tuple[Sequence[Any], pa.DataType]]:
    """The values inside nested values, by their type."""
    if pa.types.is_struct(type_):
        yield from (([dict(value).get(field.name) for value in values], field.type) for field in type_)
    elif pa.types.is_map(type_):
        pairs = [pair for value in values for pair in (value.items() if isinstance(value, Mapping) else value)]
        yield [key for key, _ in pairs], type_.key_type
        yield [item for _, item in pairs], type_.item_type
    else:
        yield [item for value in values for item in value], type_.value_type


@cache
def _has_integers(type_: pa.DataType) -> bool:
    """Whether a type holds integers. Instants and durations are integers, too."""
    if pa.types.is_nested(type_):
        return any(_has_integers(nested_type) for _, nested_type in _nested([], type_))
    return bool(pa.types.is_integer(type_) or pa.types.is_temporal(type_))


def _schema_message(body: bytes) -> bytes:
    """The first message of an Arrow stream: a prefix with its length, and the schema."""
    return body[: _PREFIX + int.from_bytes(body[4:_PREFIX], "little")]


def _first_damaged(stream: str, segment: int, blobs: Sequence[Blob], cause: str) -> DataError:
    """An error for the first unreadable blob, or the last one if only its columns differ from the others."""
    damaged = blobs[-1]
    for blob in blobs:
        try:
            if decode(blob.body).num_rows != blob.rows:
                damaged, cause = blob, "the number of events differs"
                break
        except _DECODE_ERRORS as error:
            damaged, cause = blob, str(error) or type(error).__name__
            break
    next_offset = f"{{{segment}: {damaged.offset + max(damaged.rows, 1)}}}"
    return DataError(
        f"Stream {stream!r}, segment {segment}, offset {damaged.offset}: {damaged.rows} events cannot be read: "
        f"{cause}. Restore the store from a backup, or skip them: ReaderGroup.reset() with {next_offset} in its cut."
    )
