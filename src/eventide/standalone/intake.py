"""Messages from users: dicts or frames, checked, timed, and in the order of their offsets.

Values must have the types of the columns. Nothing is rounded, parsed, or converted to text.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

import polars as pl
import pyarrow as pa
from polars.datatypes import DataTypeClass

from eventide import _columns as c
from eventide._frames import as_frame
from eventide.errors import DataError, PlanError, shown
from eventide.kernels.keys import check_key, encoded
from eventide.panes import RESERVED, taken_names
from eventide.plan.errors import internal_name, missing_column, names_of_late_rows
from eventide.time import FIRST, LAST, MIN, format_instant, instant, time_column

Row: TypeAlias = Mapping[str, object]
Rows: TypeAlias = Row | Iterable[Row] | pl.DataFrame | pa.Table | pa.RecordBatch
Instant: TypeAlias = int | str | datetime


class ArrivalClock:
    """The arrival time of messages: what the caller passes, or the wall clock. It never decreases.

    The wall clock may be set back, and a replay after a restart may bring earlier times.
    """

    def __init__(self) -> None:
        self.now = MIN
        self._last_passed = MIN  # by the caller, since this process began

    def advance(self, now: Instant | None) -> int:
        """Return the time of a step, in microseconds."""
        if now is None:
            self.now = max(self.now, time.time_ns() // 1000)
            return self.now
        passed = now if isinstance(now, int) else instant(now, what="now")
        if passed < self._last_passed:
            raise DataError(
                f"now went back from {format_instant(self._last_passed)} to {format_instant(passed)}. Give messages "
                "and timeouts in the order of their time."
            )
        self._last_passed = passed
        self.now = max(self.now, passed)
        return self.now


@dataclass(frozen=True)
class Roles:
    """The columns of messages that an operator uses."""

    operator: str
    time: str | None
    offset: str
    window_key: tuple[str, ...] = ()
    """Each key has windows of its own."""
    join_key: tuple[str, ...] = ()
    """Joins look messages up by it."""

    @property
    def columns(self) -> dict[str, str]:
        """Every required column, with its role."""
        keys = dict.fromkeys((*self.window_key, *self.join_key), "key")
        return keys | {self.offset: "offset"} | ({} if self.time is None else {self.time: "time"})

    def check(self, schema: Mapping[str, pl.DataType]) -> None:
        """Check that the columns exist and have suitable types."""
        for name, role in self.columns.items():
            if name not in schema:
                raise missing_column(f"{self.operator}({role}=…)", name, schema)
        for name in schema:
            if name.startswith("__"):
                raise internal_name(name)
        if not schema[self.offset].is_integer():
            raise PlanError(
                f"offset: the column {self.offset!r} is {schema[self.offset]}; offsets are integers that grow as "
                "messages arrive."
            )
        check_key((*self.window_key, *self.join_key), schema)


def roles(operator: str, *, time: object, offset: object, window_key: object = None, join_key: object = None) -> Roles:
    """Return the columns that a user names."""
    return Roles(
        operator,
        None if time is None else _name(operator, "time", time),
        _name(operator, "offset", offset),
        _names(operator, window_key),
        _names(operator, join_key),
    )


def frame_of_rows(rows: Sequence[Row], schema: pl.Schema | None) -> pl.DataFrame:
    """Return the rows in the types of the schema; without one, in types that hold all values.

    >>> frame_of_rows([{"n": 1}, {"n": 2.5}], None)["n"].to_list()
    [1.0, 2.5]
    """
    if not rows:
        return pl.DataFrame(schema=schema)
    try:
        frame = pl.DataFrame(rows, infer_schema_length=None)
    except pl.exceptions.PolarsError as cause:
        raise DataError(
            f"These messages cannot be columns: {cause!s}. Give the values of a column one type."
        ) from cause
    expected = frame.schema if schema is None else _with_null_types(schema, frame.schema)
    for name, dtype in expected.items():
        for values in _by_type(name, rows):
            _exact_cast(values, dtype)
    return frame.select(_exact_cast(frame[name], dtype) for name, dtype in expected.items())


def frame_of(rows: Rows, schema: pl.Schema | None) -> pl.DataFrame:
    """Return messages as a frame of the known schema. Columns that were null so far take the types of the messages."""
    if isinstance(rows, (pl.DataFrame, pa.Table, pa.RecordBatch)):
        return _checked(as_frame(rows), schema)
    messages: list[Row] = [rows] if isinstance(rows, Mapping) else list(_iterable(rows))
    if not all(isinstance(row, Mapping) for row in messages):
        raise _not_messages(next(row for row in messages if not isinstance(row, Mapping)))
    for row in messages:
        if schema is not None and row.keys() != schema.keys():
            raise _columns_differ(schema, row)
    return frame_of_rows(messages, schema)


def admit(frame: pl.DataFrame, roles: Roles) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return usable messages with internal columns, by offset, and dead letters with a reason."""
    offset = frame[roles.offset].cast(pl.Int64, strict=False)
    micros, bad = (offset, None) if roles.time is None else time_column(frame, roles.time)
    event_time = pl.col(c.TIME)
    usable = pl.col(c.OFFSET).is_not_null() & event_time.is_between(FIRST, LAST)
    no_time = event_time.is_null() & (True if bad is None else ~bad) & pl.col(c.OFFSET).is_not_null()
    reason = pl.when(no_time).then(pl.lit("null_time")).when(~usable | usable.is_null()).then(pl.lit("bad_row"))
    timed = (
        frame.lazy()
        .with_columns(
            pl.lit("").alias(c.ORIGIN),
            offset.alias(c.OFFSET),
            micros.alias(c.TIME),
            encoded(roles.window_key, frame.schema).alias(c.SESSION),
            encoded(roles.join_key, frame.schema).alias(c.EQUAL),
        )
        .with_columns(reason.alias(c.REASON))
        .sort(c.OFFSET, maintain_order=True)
        .collect(engine="in-memory")
    )
    reasons = timed[c.REASON]
    if reasons.null_count() == timed.height:
        return timed, timed.clear()
    return timed.filter(reasons.is_null()), timed.filter(reasons.is_not_null())


def check_names(names: Iterable[str]) -> None:
    """Check that no column of an output has a reserved name."""
    for name in names:
        if name in (*RESERVED, *c.WINDOW_FACTS, c.PANE_NUMBER, c.REPLACED_WINDOWS):
            raise PlanError(
                f"{name!r} is a column that every output has. Rename the column of the messages, or the result."
            )


def _with_null_types(schema: pl.Schema, actual: pl.Schema) -> pl.Schema:
    """Return the schema, where columns that were null so far have their actual type."""
    return pl.Schema({name: actual[name] if dtype == pl.Null else dtype for name, dtype in schema.items()})


def _by_type(name: str, rows: Sequence[Row]) -> list[pl.Series]:
    """Return the values of a column with mixed types, one series per type. In one frame, numbers would become text."""
    types = {type(row.get(name)) for row in rows} - {type(None)}
    if len(types) < 2:
        return []
    groups = ([{name: row[name]} for row in rows if type(row.get(name)) is kind] for kind in types)
    return [pl.DataFrame(group, infer_schema_length=None)[name] for group in groups]


def _fits(actual: pl.DataType, dtype: pl.DataType) -> bool:
    """Whether values of the actual type keep their meaning in the other."""
    if actual in (dtype, pl.Null):
        return True
    if actual.is_integer():
        return dtype.is_integer() or dtype.is_float()
    if isinstance(actual, pl.String):
        return isinstance(dtype, (pl.Categorical, pl.Enum))
    if isinstance(actual, pl.Datetime) and isinstance(dtype, pl.Datetime):
        return (actual.time_zone is None) == (dtype.time_zone is None)
    if isinstance(actual, pl.List) and isinstance(dtype, (pl.List, pl.Array)):
        return _fits(_instance(actual.inner), _instance(dtype.inner))
    if isinstance(actual, pl.Struct) and isinstance(dtype, pl.Struct):
        fields = {field.name: _instance(field.dtype) for field in dtype.fields}
        return all(
            field.name in fields and _fits(_instance(field.dtype), fields[field.name]) for field in actual.fields
        )
    return (actual.is_float() and dtype.is_float()) or type(actual) is type(dtype)


def _instance(dtype: pl.DataType | DataTypeClass) -> pl.DataType:
    return dtype if isinstance(dtype, pl.DataType) else dtype()


def _exact_cast(values: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Cast values to a type that represents all of them exactly."""
    if values.dtype == dtype:
        return values
    if not _fits(values.dtype, dtype):
        raise _types_differ(values.name, dtype, values.dtype)
    try:
        # A cast would match fields of a struct by position, and reject missing ones.
        cast = pl.Series(values.name, values.to_list(), dtype) if dtype.is_nested() else values.cast(dtype)
    except (pl.exceptions.PolarsError, TypeError) as cause:
        raise _types_differ(values.name, dtype, values.dtype) from cause
    exact = not values.dtype.is_float() and not values.dtype.is_nested()
    if exact and not cast.cast(values.dtype).equals(values):
        raise _types_differ(values.name, dtype, values.dtype)
    return cast


def _checked(frame: pl.DataFrame, schema: pl.Schema | None) -> pl.DataFrame:
    if schema is None:
        if taken := taken_names(frame.columns):
            raise names_of_late_rows(taken)
        return frame
    if set(frame.columns) != set(schema):
        raise _columns_differ(schema, frame.columns)
    for name, dtype in schema.items():
        if frame.schema[name] not in (dtype, pl.Null) and dtype != pl.Null:
            raise _types_differ(name, dtype, frame.schema[name])
    return frame.select(pl.col(name).cast(dtype) for name, dtype in _with_null_types(schema, frame.schema).items())


def _iterable(rows: object) -> Iterable[Row]:
    if isinstance(rows, (str, bytes)) or not isinstance(rows, Iterable):
        raise _not_messages(rows)
    return rows


def _name(operator: str, role: str, value: object) -> str:
    if not isinstance(value, str):
        raise PlanError(f"{operator}: {role}={shown(value)} is not a column name.")
    return value


def _names(operator: str, value: object) -> tuple[str, ...]:
    names: Sequence[object] = value if isinstance(value, (list, tuple)) else [] if value is None else [value]
    return tuple(_name(operator, "key", name) for name in names)


def _not_messages(value: object) -> PlanError:
    return PlanError(f"A message is a dict, a list of dicts, or a Polars or Arrow frame, not {type(value).__name__}.")


def _columns_differ(expected: Iterable[str], actual: Iterable[str]) -> DataError:
    return DataError(
        f"The messages have the columns {', '.join(map(repr, actual))}, but this operator began with "
        f"{', '.join(map(repr, expected))}. An operator has one schema: add missing columns, drop new ones."
    )


def _types_differ(column: str, expected: object, actual: object) -> DataError:
    return DataError(
        f"The column {column!r} has a value of type {actual}, but in this operator it is {expected}. "
        "Cast the messages, or make the operator with a schema=… that holds all values."
    )
