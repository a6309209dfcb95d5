"""Rows as flat tables hold them: windows and panes are columns of their own, and all that is nested is JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

    from eventide.sinks.batch import SinkBatch

NESTED = frozenset({"array", "map", "struct", "variant"})

# Whatever the session's time zone is, the same value is the same text.
JSON = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


@dataclass(frozen=True)
class Field:
    """A column of a flat table, and where in Spark's rows it is found."""

    name: str
    path: tuple[str, ...]
    dtype: DataType

    @property
    def kind(self) -> str:
        """Spark's name of the type, without its parameters."""
        return str(self.dtype.typeName())


def flat_fields(schema: StructType, *, panes: bool) -> list[Field]:
    """The columns of a flat table. ``window`` and ``pane`` are taken apart: ``window_start``, ``pane_index``."""
    fields = []
    for field in schema.fields:
        if panes and field.name in ("window", "pane") and field.dataType.typeName() == "struct":
            inner: StructType = field.dataType  # type: ignore[assignment]
            fields += [Field(f"{field.name}_{f.name}", (field.name, f.name), f.dataType) for f in inner.fields]
        else:
            fields.append(Field(field.name, (field.name,), field.dataType))
    return fields


def flat(batch: DataFrame, fields: Iterable[Field]) -> DataFrame:
    """The given columns of a batch."""
    return batch.select(*map(_column, fields))


def flat_rows(batch: SinkBatch, fields: Iterable[Field]) -> pl.DataFrame:
    """Return the given columns of a batch in this process.

    Text is JSON as Spark writes it, so a batch with nested values takes the way through Spark.
    """
    wanted = list(fields)
    if not batch.is_local or any(field.kind in NESTED for field in wanted):
        return pl.DataFrame(batch.with_dataframe(flat(batch.dataframe, wanted)).arrow)
    columns = [_arrow_column(batch.arrow, field) for field in wanted]
    return pl.DataFrame(pa.table(columns, names=[field.name for field in wanted]))


def _arrow_column(table: pa.Table, field: Field) -> pa.ChunkedArray:
    name, *inner = field.path
    column = table.column(name)
    return pc.struct_field(column, inner) if inner else column


def _column(field: Field) -> Column:
    from pyspark.sql import functions as spark

    column = spark.col(".".join(f"`{name.replace('`', '``')}`" for name in field.path))
    if field.kind in NESTED:
        column = spark.to_json(column, JSON)
    elif field.kind == "void":
        column = column.cast("string")
    return column.alias(field.name)
