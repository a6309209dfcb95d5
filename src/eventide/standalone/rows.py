"""Dicts as a frame. Their values must be of the columns' types: nothing is rounded, parsed, or turned into text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import polars as pl
from polars.datatypes import DataTypeClass

from eventide.errors import standalone as errors

Row: TypeAlias = Mapping[str, object]


def frame_of_rows(rows: Sequence[Row], schema: pl.Schema | None) -> pl.DataFrame:
    """The rows in the types of the schema; where none is known, in those that hold all of their values.

    >>> frame_of_rows([{"n": 1}, {"n": 2.5}], None)["n"].to_list()
    [1.0, 2.5]
    """
    if not rows:
        return pl.DataFrame(schema=schema)
    try:
        found = pl.DataFrame(rows, infer_schema_length=None)
    except pl.exceptions.PolarsError as cause:
        raise errors.no_common_type(str(cause)) from cause
    wanted = found.schema if schema is None else known(schema, found.schema)
    for name, dtype in wanted.items():
        for alike in _mixed(name, rows):
            _exactly(alike, dtype)
    return found.select(_exactly(found[name], dtype) for name, dtype in wanted.items())


def known(schema: pl.Schema, found: pl.Schema) -> pl.Schema:
    """The schema, where columns that were null so far have the type that is found."""
    return pl.Schema({name: found[name] if dtype == pl.Null else dtype for name, dtype in schema.items()})


def _mixed(name: str, rows: Sequence[Row]) -> list[pl.Series]:
    """Values of several kinds, each kind by itself: together, a number and a text would be texts."""
    kinds = {type(row.get(name)) for row in rows} - {type(None)}
    if len(kinds) < 2:
        return []
    alike = ([{name: row[name]} for row in rows if type(row.get(name)) is kind] for kind in kinds)
    return [pl.DataFrame(some, infer_schema_length=None)[name] for some in alike]


def _fits(found: pl.DataType, dtype: pl.DataType) -> bool:
    """Whether values of one type can be of the other without a change of their meaning."""
    if found in (dtype, pl.Null):
        return True
    if found.is_integer():
        return dtype.is_integer() or dtype.is_float()
    if isinstance(found, pl.String):
        return isinstance(dtype, (pl.Categorical, pl.Enum))
    if isinstance(found, pl.Datetime) and isinstance(dtype, pl.Datetime):
        return (found.time_zone is None) == (dtype.time_zone is None)
    if isinstance(found, pl.List) and isinstance(dtype, (pl.List, pl.Array)):
        return _fits(_plain(found.inner), _plain(dtype.inner))
    if isinstance(found, pl.Struct) and isinstance(dtype, pl.Struct):
        inner = {field.name: _plain(field.dtype) for field in dtype.fields}
        return all(field.name in inner and _fits(_plain(field.dtype), inner[field.name]) for field in found.fields)
    return (found.is_float() and dtype.is_float()) or type(found) is type(dtype)


def _plain(dtype: pl.DataType | DataTypeClass) -> pl.DataType:
    return dtype if isinstance(dtype, pl.DataType) else dtype()


def _exactly(values: pl.Series, dtype: pl.DataType) -> pl.Series:
    """The values in a type that fits and for which none of them is too large or too fine."""
    if values.dtype == dtype:
        return values
    if not _fits(values.dtype, dtype):
        raise errors.types_differ(values.name, dtype, values.dtype)
    try:
        # Fields of a struct go by name, and may be missing: not so in a cast.
        cast = pl.Series(values.name, values.to_list(), dtype) if dtype.is_nested() else values.cast(dtype)
    except (pl.exceptions.PolarsError, TypeError) as cause:
        raise errors.types_differ(values.name, dtype, values.dtype) from cause
    exact = not values.dtype.is_float() and not values.dtype.is_nested()
    if exact and not cast.cast(values.dtype).equals(values):
        raise errors.types_differ(values.name, dtype, values.dtype)
    return cast
