"""What a call may store. A fault that comes in here would stop every reader, or every writer, of its stream."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from eventide.errors import controller as errors
from eventide.errors import marks
from eventide.marks import events
from eventide.marks.stores.store import Store

_OF_CLOCKS = ("until", "timeout")  # event times may lie before 1970; stores check that they are instants
_DURATIONS = ("writer_timeout", "mark_every", "writer_lease")


def check(store: Store, call: str, given: Mapping[str, Any]) -> None:
    """Reject arguments that their types allow, and no store should hold."""
    for name, value in given.items():
        _check_names(name, value)
    for name in _OF_CLOCKS:
        if (given.get(name) or 0) < 0:
            raise errors.wrong_type(name, given[name], "a whole number, 0 or more")
    if call == "create_stream":
        _check_config(given["config"])
    elif call == "put_mark":
        _check_mark(given["mark"])
    elif call == "append":
        for part in given["parts"]:
            _check_events(store, given["seat"].stream, part.rows, part.body)
    elif call == "add":
        _check_events(store, given["seat"].stream, given["rows"], given["body"], points=True)
    elif given.get("rows", 0) < 0:
        raise errors.wrong_type("rows", given["rows"], "a whole number, 0 or more")


def _check_names(name: str, value: Any) -> None:
    """All text of a call is the name of something."""
    if isinstance(value, str):
        if not value or "\0" in value:
            raise errors.wrong_type(name, value, "text that is not empty, without a null character")
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for one in dataclasses.fields(value):
            _check_names(f"{name}.{one.name}", getattr(value, one.name))
    elif isinstance(value, tuple | list):
        for one in value:
            _check_names(name, one)


def _check_config(config: Any) -> None:
    if config.segments < 1:
        raise marks.bad_segments(config.segments)
    for name in _DURATIONS:
        if getattr(config, name) < 0:
            raise errors.wrong_type(name, getattr(config, name), "a whole number, 0 or more")


def _check_mark(mark: Any) -> None:
    if mark.upper < mark.lower or mark.at < 0 or min(mark.cut.values(), default=0) < 0:
        raise errors.impossible_mark(mark)


def _check_events(store: Store, stream: str, rows: int, body: bytes, *, points: bool = False) -> None:
    """Reject bytes that are not so many events of the stream, of which every value can be read."""
    try:
        table = events.decode(body)
        table.validate(full=True)
    except (pa.ArrowException, OSError, EOFError, ValueError, MemoryError) as cause:
        raise errors.not_events(stream, str(cause) or type(cause).__name__) from cause
    if points:
        table = _without_points(stream, table)
    expected: pa.Schema = store.stream(stream).config.schema
    if not table.schema.equals(expected):
        raise errors.not_events(stream, f"the columns are {_columns(table.schema)}, not {_columns(expected)}")
    if table.num_rows != rows:
        raise errors.not_events(stream, f"there are {table.num_rows} rows, not {rows}")


def _without_points(stream: str, table: pa.Table) -> pa.Table:
    """The events of a transaction without the place of each in the key space, which is from 0 to less than 1."""
    if events.POINT not in table.column_names or table[events.POINT].type != pa.float64():
        raise errors.not_events(stream, f"there is no column {events.POINT} of numbers")
    where = table[events.POINT]
    inside = pc.and_(pc.greater_equal(where, 0.0), pc.less(where, 1.0))
    if where.null_count or not pc.all(inside, min_count=0).as_py():
        raise errors.not_events(stream, f"{events.POINT} is not from 0 to less than 1")
    return table.drop_columns([events.POINT])


def _columns(schema: pa.Schema) -> Sequence[str]:
    return [f"{field.name}: {field.type}" for field in schema]
