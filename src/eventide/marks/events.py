"""Events as they are stored and sent: Arrow, with the columns of their stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from eventide.errors import PlanError
from eventide.errors import marks as errors
from eventide.marks.fractions import column_of
from eventide.marks.segments import Segments
from eventide.marks.stores.store import Part
from eventide.state.compact import compact_table
from eventide.state.hashing import hashed

PLACES = ("_segment", "_offset", "_mark")
"""What readers put beside the columns of an event: where it was, and (on Spark) the last mark passed with its batch."""
POINT = "__point"
"""Where a row of a transaction lies in the key space, until its segment is known."""

Rows: TypeAlias = "pl.DataFrame | pa.Table | Sequence[Mapping[str, Any]]"

# Batches are small: threads would cost five times as much as they save.
_WRITE = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_READ = pa.ipc.IpcReadOptions(use_threads=False)
_LARGE = 1 << 16  # bytes that take longer to be copied than a schema to be parsed
_MARK = 8  # bytes before each message of an Arrow stream, and at its end


def check_columns(stream: str, schema: pa.Schema) -> None:
    """Refuse columns that no stream can have."""
    for name in schema.names:
        if name == POINT:
            raise errors.point_column(stream, name)
        if schema.names.count(name) > 1:
            raise errors.column_twice(stream, name)


def table_of(rows: Rows, schema: pa.Schema) -> pa.Table:
    """Rows as users have them, with exactly the columns of the stream; a column that is missing is null."""
    try:
        if isinstance(rows, pl.DataFrame):
            rows = rows.to_arrow(compat_level=pl.CompatLevel.oldest())
        if not isinstance(rows, pa.Table):
            strange = {name for row in rows for name in row} - set(schema.names)
            if strange:
                raise errors.unknown_columns(sorted(strange), schema.names)
            values = ([row.get(name) for row in rows] for name in schema.names)
            return pa.table(list(map(column_of, values, schema)), schema=schema)
        strange = set(rows.column_names) - set(schema.names)
        if strange:
            raise errors.unknown_columns(sorted(strange), schema.names)
        columns = [
            rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(len(rows), field.type)
            for field in schema
        ]
        return pa.table(columns, schema=schema)
    except PlanError:
        raise
    except (pa.ArrowException, TypeError, ValueError, ArithmeticError) as cause:
        raise errors.not_the_schema(schema, cause) from cause


def encode(table: pa.Table) -> bytes:
    """Events as an Arrow IPC stream."""
    table = compact_table(table)
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema, options=_WRITE) as writer:
        writer.write_table(table)
    return bytes(out.getvalue())


def decode(body: bytes) -> pa.Table:
    """The events of ``encode``."""
    return pa.ipc.open_stream(body, options=_READ).read_all()


def decode_all(bodies: Sequence[bytes]) -> pa.Table:
    """The events of many ``encode``, one after the other.

    Small ones that begin alike (all that one version has written) are read as one stream: parsing the schema of each
    would take as long as all the rest. Large ones would take longer to be copied.
    """
    schema, end = _schema_in(bodies[0]), bodies[0][-_MARK:]
    large = sum(map(len, bodies)) > _LARGE * len(bodies)
    if large or not all(body.startswith(schema) and body.endswith(end) for body in bodies):
        return pa.concat_tables(map(decode, bodies))
    batches = (memoryview(body)[len(schema) : -_MARK] for body in bodies)
    return decode(b"".join((schema, *batches, end)))


def _schema_in(body: bytes) -> bytes:
    """The first message of an Arrow stream: a mark, its length, and the schema."""
    return body[: _MARK + int.from_bytes(body[4:_MARK], "little")]


def points(keys: Iterable[Any] | pl.Series) -> npt.NDArray[np.float64]:
    """Where routing keys lie in the key space. No version may change it.

    >>> points(["kiel", "bonn", "kiel"]).round(3).tolist()
    [0.164, 0.055, 0.164]
    """
    series = keys if isinstance(keys, pl.Series) else pl.Series(list(keys))
    return np.ldexp((hashed(series.to_frame("key"), ["key"]) >> np.uint64(11)).astype(np.float64), -53)


def parted(table: pa.Table, where: npt.NDArray[np.float64], segments: Segments) -> list[Part]:
    """Events split over the open segments; those of one segment stay in their order."""
    numbers = segments.route(where)
    found: list[Part] = []
    for number in np.unique(numbers).tolist():
        own = table if len(segments.open) == 1 else table.filter(pa.array(numbers == number))
        found.append(Part(number, len(own), encode(own)))
    return found
