"""Rows as users pass them: Polars and Arrow input as one type of frame."""

from __future__ import annotations

from typing import TypeAlias

import polars as pl
import pyarrow as pa

from eventide.errors import PlanError

Frame: TypeAlias = pl.DataFrame | pa.Table | pa.RecordBatch


def as_frame(rows: Frame) -> pl.DataFrame:
    """Rows as a Polars frame, without a copy where the types allow it."""
    if isinstance(rows, pl.DataFrame):
        return rows
    if isinstance(rows, (pa.Table, pa.RecordBatch)):
        names = rows.schema.names
        duplicates = sorted({name for name in names if names.count(name) > 1})
        if duplicates:
            raise PlanError(
                f"The rows have more than one column named {', '.join(map(repr, duplicates))}. Rename or drop one."
            )
        return pl.DataFrame([_series(name, rows.column(name)) for name in names])
    raise not_rows(rows)


def not_rows(value: object) -> PlanError:
    """The error about a value that is not a frame, with how to convert it."""
    package = type(value).__module__.partition(".")[0]
    hint = {
        "pandas": "Convert it with polars.from_pandas(rows).",
        "polars": "Collect a LazyFrame first: rows.collect().",
        "pyspark": "Run it on Spark with pipeline.run(rows, …), or convert it with rows.toArrow().",
    }.get(package, "For a list or a dict use polars.DataFrame(rows).")
    name = type(value).__name__ if package not in ("pandas", "pyspark") else f"a {package} {type(value).__name__}"
    return PlanError(f"rows must be a Polars or Arrow frame (or a list of them, one a bundle), not {name}. {hint}")


def _series(name: str, column: pa.ChunkedArray | pa.Array) -> pl.Series:
    if _has_decimal256(column.type):  # Polars panics on it instead of raising an error
        raise _unsupported_type(name, column.type)
    try:
        return pl.Series(name, column)
    except pl.exceptions.PolarsError as cause:
        raise _unsupported_type(name, column.type) from cause


def _has_decimal256(dtype: pa.DataType) -> bool:
    fields = (dtype.field(i).type for i in range(dtype.num_fields))
    return bool(pa.types.is_decimal256(dtype)) or any(map(_has_decimal256, fields))


def _unsupported_type(column: str, dtype: object) -> PlanError:
    return PlanError(f"The column {column!r} is {dtype}, which cannot be read. Drop it, or cast it to another type.")
