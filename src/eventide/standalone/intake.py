"""Messages as they come in: a dict, several, or a frame; checked, timed, and in the order of their offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import polars as pl
import pyarrow as pa

from eventide.errors import plan as plan_errors
from eventide.errors import standalone as errors
from eventide.local.query import as_frame
from eventide.operators import columns as c
from eventide.panes import RESERVED
from eventide.standalone import columns as s
from eventide.standalone.rows import Row, frame_of_rows, known
from eventide.standalone.stores.keys import check_key, encoded
from eventide.time import FIRST, LAST, time_column

Rows: TypeAlias = Row | Iterable[Row] | pl.DataFrame | pa.Table | pa.RecordBatch


@dataclass(frozen=True)
class Roles:
    """Which column is what."""

    operator: str
    time: str | None
    offset: str
    window_key: tuple[str, ...] = ()
    """Separates windows."""
    equal: tuple[str, ...] = ()
    """Is looked up by joins."""

    @property
    def columns(self) -> dict[str, str]:
        """Every column that is needed, with its role."""
        keys = dict.fromkeys((*self.window_key, *self.equal), "key")
        return keys | {self.offset: "offset"} | ({} if self.time is None else {self.time: "time"})

    def check(self, schema: Mapping[str, pl.DataType]) -> None:
        """The columns are there, and are what they must be."""
        for name, role in self.columns.items():
            if name not in schema:
                raise plan_errors.missing_column(f"{self.operator}({role}=…)", name, schema)
        for name in schema:
            if name.startswith("__"):
                raise plan_errors.internal_name(name)
        if not schema[self.offset].is_integer():
            raise errors.bad_offset_type(self.offset, schema[self.offset])
        check_key((*self.window_key, *self.equal), schema)


def roles(operator: str, *, time: object, offset: object, window_key: object = None, equal: object = None) -> Roles:
    """The columns that a user names."""
    return Roles(
        operator,
        None if time is None else _name(operator, "time", time),
        _name(operator, "offset", offset),
        _names(operator, window_key),
        _names(operator, equal),
    )


def frame_of(rows: Rows, schema: pl.Schema | None) -> pl.DataFrame:
    """What a user gives, as a frame of the schema that is known. Columns that were null so far take its types."""
    if isinstance(rows, (pl.DataFrame, pa.Table, pa.RecordBatch)):
        return _checked(as_frame(rows), schema)
    several: list[Row] = [rows] if isinstance(rows, Mapping) else list(_iterable(rows))
    if not all(isinstance(row, Mapping) for row in several):
        raise errors.not_messages(next(row for row in several if not isinstance(row, Mapping)))
    for row in several:
        if schema is not None and row.keys() != schema.keys():
            raise errors.columns_differ(schema, row)
    return frame_of_rows(several, schema)


def admitted(frame: pl.DataFrame, roles: Roles) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Usable messages with their hidden columns, by offset; and the others, with a reason."""
    offset = frame[roles.offset].cast(pl.Int64, strict=False)
    micros, bad = (offset, None) if roles.time is None else time_column(frame, roles.time)
    time = pl.col(c.TIME)
    usable = pl.col(s.OFFSET).is_not_null() & time.is_between(FIRST, LAST)
    no_time = time.is_null() & (True if bad is None else ~bad) & pl.col(s.OFFSET).is_not_null()
    reason = pl.when(no_time).then(pl.lit("null_time")).when(~usable | usable.is_null()).then(pl.lit("bad_row"))
    timed = (
        frame.lazy()
        .with_columns(
            pl.lit("").alias(s.ORIGIN),
            offset.alias(s.OFFSET),
            micros.alias(c.TIME),
            encoded(roles.window_key, frame.schema).alias(s.SESSION),
            encoded(roles.equal, frame.schema).alias(s.EQUAL),
        )
        .with_columns(reason.alias(c.REASON))
        .sort(s.OFFSET, maintain_order=True)
        .collect(engine="in-memory")
    )
    reasons = timed[c.REASON]
    if reasons.null_count() == timed.height:
        return timed, timed.clear()
    return timed.filter(reasons.is_null()), timed.filter(reasons.is_not_null())


def check_names(names: Iterable[str]) -> None:
    """No column of an output is named as one that every output has."""
    for name in names:
        if name in (*RESERVED, "replaces", "meta"):
            raise errors.name_taken(name)


def _checked(frame: pl.DataFrame, schema: pl.Schema | None) -> pl.DataFrame:
    if schema is None:
        return frame
    if set(frame.columns) != set(schema):
        raise errors.columns_differ(schema, frame.columns)
    for name, dtype in schema.items():
        if frame.schema[name] not in (dtype, pl.Null) and dtype != pl.Null:
            raise errors.types_differ(name, dtype, frame.schema[name])
    return frame.select(pl.col(name).cast(dtype) for name, dtype in known(schema, frame.schema).items())


def _iterable(rows: object) -> Iterable[Row]:
    if isinstance(rows, (str, bytes)) or not isinstance(rows, Iterable):
        raise errors.not_messages(rows)
    return rows


def _name(operator: str, role: str, value: object) -> str:
    if not isinstance(value, str):
        raise errors.bad_column(operator, role, value)
    return value


def _names(operator: str, value: object) -> tuple[str, ...]:
    given: Sequence[object] = value if isinstance(value, (list, tuple)) else [] if value is None else [value]
    return tuple(_name(operator, "key", name) for name in given)
