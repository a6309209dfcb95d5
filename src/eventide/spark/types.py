"""Conversion of types and rows between Spark and Polars."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from eventide.errors import PlanError
from eventide.kernels.frames import as_dtype

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_WIDER: dict[Any, pl.DataType] = {
    pl.UInt8: pl.Int16(),
    pl.UInt16: pl.Int32(),
    pl.UInt32: pl.Int64(),
    pl.UInt64: pl.Decimal(20, 0),
    pl.Int128: pl.Decimal(38, 0),
    pl.Null: pl.String(),
}
_AS_TEXT = (pl.Enum, pl.Categorical)


def polars_schema(schema: StructType) -> dict[str, pl.DataType]:
    """Return the columns of a DataFrame in Polars types. A column that Polars cannot hold is rejected."""
    columns = {field.name: _polars_type(field.name, field.dataType) for field in schema.fields}
    if len(columns) < len(schema.fields):
        names = [field.name for field in schema.fields]
        raise PlanError(
            "The DataFrame has more than one column "
            f"{sorted({name for name in names if names.count(name) > 1})[0]!r}. Rename one of them before the pipeline."
        )
    return columns


def spark_schema(schema: Mapping[str, pl.DataType]) -> StructType:
    """Return Polars columns in Spark types."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(arrow_schema(schema))


def arrow_schema(schema: Mapping[str, pl.DataType]) -> pa.Schema:
    """Return Polars columns in the Arrow types that Spark reads."""
    return _arrow_schema(tuple(schema.items()))


@lru_cache(maxsize=256)  # every batch asks for the same types
def _arrow_schema(columns: tuple[tuple[str, pl.DataType], ...]) -> pa.Schema:
    empty = pl.DataFrame(schema={name: _spark_dtype(dtype) for name, dtype in columns})
    fields = [
        pa.field(name, _narrow(field.type)) for (name, _), field in zip(columns, _arrow(empty).schema, strict=True)
    ]
    return pa.schema(fields)


def to_spark(frame: pl.DataFrame, schema: pa.Schema) -> pa.Table:
    """Return rows in the types of ``arrow_schema``."""
    target = {name: _spark_dtype(dtype) for name, dtype in frame.schema.items()}
    changed = [pl.col(name).cast(dtype) for name, dtype in target.items() if dtype != frame.schema[name]]
    table = _arrow(frame.with_columns(changed) if changed else frame)
    return table if table.schema.equals(schema) else table.cast(schema)


def from_spark(batches: list[pa.RecordBatch], schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Return rows from Spark. Times arrive in the zone of the session, and are the same instants in UTC."""
    if not batches:  # a table without rows may have none, and then no schema either
        return pl.DataFrame(schema=pl.Schema(schema))
    table = pa.Table.from_batches(batches)
    return cast_rows(pl.DataFrame(pl.from_arrow(table.select(list(schema)))), schema)


def cast_rows(frame: pl.DataFrame, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Return rows in the types that the operator is bound to."""
    return frame if dict(frame.schema) == dict(schema) else frame.cast(pl.Schema(schema))


def _arrow(frame: pl.DataFrame) -> pa.Table:
    return frame.to_arrow(compat_level=pl.CompatLevel.oldest())


def _polars_type(name: str, dtype: Any) -> pl.DataType:
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    try:
        arrow = to_arrow_type(dtype, timezone="UTC")
    except PySparkException as cause:
        raise _unsupported_type(name, dtype.simpleString()) from cause
    try:
        return pl.Series(pa.array([], arrow)).dtype
    except pl.exceptions.PolarsError as cause:
        raise _unsupported_type(name, dtype.simpleString()) from cause


def _spark_dtype(dtype: pl.DataType) -> pl.DataType:
    if isinstance(dtype, _AS_TEXT):
        return pl.String()
    if isinstance(dtype, pl.Datetime):
        return pl.Datetime("us", "UTC" if dtype.time_zone else None)
    if isinstance(dtype, pl.Duration):
        return pl.Duration("us")
    if isinstance(dtype, pl.List | pl.Array):
        return pl.List(_spark_dtype(as_dtype(dtype.inner)))
    if isinstance(dtype, pl.Struct):
        return pl.Struct({field.name: _spark_dtype(as_dtype(field.dtype)) for field in dtype.fields})
    return _WIDER.get(dtype.base_type(), dtype)


def _narrow(dtype: pa.DataType) -> pa.DataType:
    """Return the type with 32-bit offsets, which is what Spark reads."""
    if pa.types.is_large_string(dtype):
        return pa.string()
    if pa.types.is_large_binary(dtype):
        return pa.binary()
    if pa.types.is_large_list(dtype):
        return pa.list_(pa.field("element", _narrow(dtype.value_type)))
    if pa.types.is_struct(dtype):
        return pa.struct([pa.field(dtype.field(i).name, _narrow(dtype.field(i).type)) for i in range(dtype.num_fields)])
    return dtype


def _unsupported_type(name: str, dtype: str) -> PlanError:
    return PlanError(
        f"The column {name!r} has the type {dtype}, which cannot be sent to Python. "
        "Cast it, or drop it before the pipeline."
    )
