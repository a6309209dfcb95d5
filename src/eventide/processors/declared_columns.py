"""What users hand over, as the columns that they have declared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from eventide.errors import DataError, PlanError, did_you_mean, shown
from eventide.processors.errors import columns_missing, not_a_frame

Schema = Mapping[str, pl.DataType]


def declared(what: str, given: Any, *, empty: bool = False) -> dict[str, pl.DataType]:
    """The columns and types that a user names; Python's types stand for those of Polars.

    >>> declared("output", {"shop": str, "n": pl.Int64})
    {'shop': String, 'n': Int64}
    """
    if not isinstance(given, Mapping) or not (given or empty) or not all(isinstance(n, str) and n for n in given):
        raise _bad_schema(what, given)
    for name in given:
        if name.startswith("__"):
            raise PlanError(f"{what}: {name!r} begins with two underscores; such names are Eventide's own. Rename it.")
    try:
        return dict(pl.DataFrame(schema=dict(given)).schema)
    except Exception as cause:
        raise _bad_schema(what, given) from cause


def fitted(rows: Any, schema: Schema, *, who: str, call: str) -> pl.DataFrame:
    """These columns of a frame, with the declared types; a number may be given as a narrower one."""
    if not isinstance(rows, pl.DataFrame):
        raise not_a_frame(who, call, rows)
    missing = [name for name in schema if name not in rows.columns]
    if missing:
        raise columns_missing(who, call, missing, rows.columns)
    found = rows.schema
    casts = {name: dtype for name, dtype in schema.items() if found[name] != dtype}
    for name, dtype in casts.items():
        if not _same_kind(found[name], dtype):
            raise _misfit(who, call, name, found[name], dtype)
    own = rows.select(list(schema))
    try:
        return own.cast(dict(casts)) if casts else own  # type: ignore[arg-type]
    except pl.exceptions.PolarsError as cause:
        name = next(iter(casts))
        raise _misfit(who, call, name, found[name], casts[name]) from cause


def _same_kind(found: pl.DataType, wanted: pl.DataType) -> bool:
    if found == pl.Null or found.is_nested() or wanted.is_nested():
        return found == pl.Null or (found.is_nested() and wanted.is_nested())
    if found.is_integer():
        return wanted.is_numeric()
    if found.is_float():
        return wanted.is_float()
    return type(found) is type(wanted)


def frame_of(rows: Sequence[Mapping[str, Any]], schema: Schema) -> pl.DataFrame:
    """Rows in Python as a frame. What a row does not have is null; what does not fit is refused."""
    for row in rows:
        unknown = row.keys() - schema.keys()
        if unknown:
            raise _unknown_column(min(unknown), schema)
    return pl.DataFrame([_column(name, [row.get(name) for row in rows], dtype) for name, dtype in schema.items()])


def fitting_rows(
    rows: Sequence[Mapping[str, Any]], schema: Schema, failed: Callable[[int, Exception], None]
) -> tuple[pl.DataFrame, list[int]]:
    """The rows that fit, and their numbers; of each other one ``failed`` is told."""
    try:
        return frame_of(rows, schema), list(range(len(rows)))
    except Exception:  # of one row at least
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


def _bad_schema(what: str, given: object) -> PlanError:
    """A schema that does not name columns and their types."""
    return PlanError(
        f"{what}={shown(given)}: name the columns and their types, as in {{'shop': pl.String, 'n': pl.Int64}}."
    )


def _misfit(processor: str, call: str, column: str, found: object, wanted: object) -> DataError:
    """A column has another type than was declared."""
    return DataError(f"{processor}: {call}: the column {column!r} is {found}, but {wanted} was declared. Cast it.")


def _unknown_column(column: str, known: Iterable[str]) -> DataError:
    """A row with a column that was not declared."""
    return DataError(f"{column!r} was not declared. {did_you_mean(column, known)}")
