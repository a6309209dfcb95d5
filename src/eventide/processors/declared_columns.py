"""Columns that users declare, and frames with these columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from eventide.errors import DataError, PlanError, did_you_mean, shown
from eventide.processors.errors import columns_missing, not_a_frame

Schema = Mapping[str, pl.DataType]


def declared(what: str, schema: Any, *, empty: bool = False) -> dict[str, pl.DataType]:
    """Return a checked schema. Python types are converted to Polars types.

    >>> declared("output", {"shop": str, "n": pl.Int64})
    {'shop': String, 'n': Int64}
    """
    if not isinstance(schema, Mapping) or not (schema or empty) or not all(isinstance(n, str) and n for n in schema):
        raise _bad_schema(what, schema)
    for name in schema:
        if name.startswith("__"):
            raise PlanError(f"{what}: {name!r} begins with two underscores, as internal columns do. Rename it.")
    try:
        return dict(pl.DataFrame(schema=dict(schema)).schema)
    except Exception as cause:
        raise _bad_schema(what, schema) from cause


def fitted(rows: Any, schema: Schema, *, who: str, call: str) -> pl.DataFrame:
    """Return the declared columns of a frame with their declared types. Numbers are widened."""
    if not isinstance(rows, pl.DataFrame):
        raise not_a_frame(who, call, rows)
    missing = [name for name in schema if name not in rows.columns]
    if missing:
        raise columns_missing(who, call, missing, rows.columns)
    types = rows.schema
    casts = {name: dtype for name, dtype in schema.items() if types[name] != dtype}
    for name, dtype in casts.items():
        if not _same_kind(types[name], dtype):
            raise _misfit(who, call, name, types[name], dtype)
    columns = rows.select(list(schema))
    try:
        return columns.with_columns(pl.col(name).cast(dtype) for name, dtype in casts.items())
    except pl.exceptions.PolarsError as cause:
        name = next(iter(casts))
        raise _misfit(who, call, name, types[name], casts[name]) from cause


def _same_kind(actual: pl.DataType, expected: pl.DataType) -> bool:
    if actual == pl.Null or actual.is_nested() or expected.is_nested():
        return actual == pl.Null or (actual.is_nested() and expected.is_nested())
    if actual.is_integer():
        return expected.is_numeric()
    if actual.is_float():
        return expected.is_float()
    return type(actual) is type(expected)


def frame_of(rows: Sequence[Mapping[str, Any]], schema: Schema) -> pl.DataFrame:
    """Return Python rows as a frame. Missing values are null; values of another type are rejected."""
    for row in rows:
        unknown = row.keys() - schema.keys()
        if unknown:
            raise DataError(f"{min(unknown)!r} was not declared. {did_you_mean(min(unknown), schema)}")
    return pl.DataFrame([_column(name, [row.get(name) for row in rows], dtype) for name, dtype in schema.items()])


def fitting_rows(
    rows: Sequence[Mapping[str, Any]], schema: Schema, failed: Callable[[int, Exception], None]
) -> tuple[pl.DataFrame, list[int]]:
    """Return the rows that fit and their numbers. ``failed`` is called for each of the others."""
    try:
        return frame_of(rows, schema), list(range(len(rows)))
    except Exception:  # at least one row does not fit
        good = []
        for number, row in enumerate(rows):
            try:
                frame_of([row], schema)
            except Exception as cause:
                failed(number, cause)
            else:
                good.append(number)
        return frame_of([rows[number] for number in good], schema), good


def _column(name: str, values: list[Any], dtype: pl.DataType) -> pl.Series:
    try:
        return pl.Series(name, values, dtype=dtype, strict=True)
    except Exception as cause:
        raise DataError(
            f"{name!r} is {shown(next((v for v in values if not _fits(v, dtype)), values[:1]))}, which is "
            f"not {dtype} as declared"
        ) from cause


def _fits(value: Any, dtype: pl.DataType) -> bool:
    try:
        pl.Series([value], dtype=dtype, strict=True)
    except Exception:
        return False
    return True


def _bad_schema(what: str, schema: object) -> PlanError:
    """Return the error about a value that is no schema."""
    return PlanError(
        f"{what}={shown(schema)}: name the columns and their types, as in {{'shop': pl.String, 'n': pl.Int64}}."
    )


def _misfit(processor: str, call: str, column: str, actual: object, expected: object) -> DataError:
    """Return the error about a column with another type than declared."""
    return DataError(f"{processor}: {call}: the column {column!r} is {actual}, but {expected} was declared. Cast it.")
