"""The rows of one output in one batch, in the form that a sink requests: Arrow, a DataFrame, or flat rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from eventide._jvm import arrow_batches

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

JSON = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Options of Spark's JSON, with which equal values are equal text in every time zone of the session."""

_NESTED = frozenset({"array", "map", "struct", "variant"})


class SinkBatch:
    """A batch for a sink.

    State in the driver produces Arrow, state on the executors produces DataFrames. A sink requests the form that it
    writes best, and only another form costs a conversion. ``has_rows`` says that the batch is known to have rows.
    ``size`` is the number of bytes of its rows in Arrow, if it is known. ``check_writer`` raises an error if another
    driver runs the query now: a sink calls it before it replaces rows that it has written with other rows.
    """

    def __init__(
        self,
        rows: pa.Table | DataFrame,
        spark: SparkSession,
        *,
        has_rows: bool = False,
        size: int | None = None,
        check_writer: Callable[[], object] = lambda: None,
    ) -> None:
        self._rows = rows
        self.spark = spark
        self._has_rows = has_rows
        self.size = size
        self.check_writer = check_writer

    @property
    def is_local(self) -> bool:
        """Whether the rows are in this process already."""
        return isinstance(self._rows, pa.Table)

    @cached_property
    def schema(self) -> StructType:
        """The columns, in Spark's types."""
        if isinstance(self._rows, pa.Table):
            from pyspark.sql.pandas.types import from_arrow_schema

            return from_arrow_schema(self._rows.schema)
        return self._rows.schema

    @cached_property
    def arrow(self) -> pa.Table:
        """The rows as an Arrow table; time zones are UTC."""
        if isinstance(self._rows, pa.Table):
            return self._rows
        return in_utc(self._rows.toArrow())

    @cached_property
    def dataframe(self) -> DataFrame:
        """The rows as a DataFrame. Rows of this process are one partition.

        A retraction precedes the pane that replaces it, and two tasks that write to Kafka would not keep that order.
        """
        if isinstance(self._rows, pa.Table):
            return self.spark.createDataFrame(self._rows, schema=self.schema).coalesce(1)
        return self._rows

    def with_dataframe(self, rows: DataFrame) -> SinkBatch:
        """Return a batch of other rows in the same session."""
        return SinkBatch(rows, self.spark)

    def with_nulls(self, columns: Mapping[str, str]) -> SinkBatch:
        """Return the rows with nulls in those of ``columns`` (name and Spark type) that they lack."""
        missing = _missing(self.schema, columns)
        if not missing:
            return self
        if isinstance(self._rows, pa.Table):
            rows = _with_null_columns(self._rows, missing)
            return SinkBatch(rows, self.spark, check_writer=self.check_writer)
        from pyspark.sql import functions as F  # noqa: N812

        nulls = [F.lit(None).cast(dtype).alias(name) for name, dtype in missing.items()]
        return SinkBatch(self._rows.select("*", *nulls), self.spark, has_rows=self._has_rows, size=self.size)

    def select(self, *columns: str) -> SinkBatch:
        """Return some of the columns."""
        rows = self._rows.select(list(columns)) if isinstance(self._rows, pa.Table) else self._rows.select(*columns)
        return SinkBatch(rows, self.spark, has_rows=self._has_rows, size=self.size)

    def head(self, count: int) -> SinkBatch:
        """Return the first rows."""
        rows = self._rows.slice(0, count) if isinstance(self._rows, pa.Table) else self._rows.limit(count)
        return SinkBatch(rows, self.spark)

    def is_empty(self) -> bool:
        """Return whether there are no rows.

        Rows of a DataFrame are counted if ``has_rows`` is not set. A search for the first row would stop Python workers
        in the middle of their task, and new ones would have to start.
        """
        if isinstance(self._rows, pa.Table):
            return not self._rows.num_rows
        return not self._has_rows and not self._rows.count()


def with_null_fields(schema: StructType, columns: Mapping[str, str]) -> StructType:
    """Return the schema of rows after ``SinkBatch.with_nulls``."""
    from pyspark.sql.types import DataType, StructField, StructType

    missing = _missing(schema, columns)
    return StructType([*schema.fields, *(StructField(name, DataType.fromDDL(text)) for name, text in missing.items())])


def _missing(schema: StructType, columns: Mapping[str, str]) -> dict[str, str]:
    present = {name.lower() for name in schema.names}
    return {name: dtype for name, dtype in columns.items() if name.lower() not in present}


def _with_null_columns(table: pa.Table, columns: Mapping[str, str]) -> pa.Table:
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import DataType

    for name, text in columns.items():
        dtype = to_arrow_type(DataType.fromDDL(text), timezone="UTC")
        table = table.append_column(name, pa.nulls(table.num_rows, dtype))
    return table


def in_utc(table: pa.Table) -> pa.Table:
    """Return the same instants with UTC as their time zone, as Spark's time zone changes nothing in a sink."""
    for index, column in enumerate(table.schema):
        if _in_utc(column.type) != column.type:
            table = table.set_column(index, column.name, table.column(index).cast(_in_utc(column.type)))
    return table


def _in_utc(dtype: pa.DataType) -> pa.DataType:
    return pa.timestamp("us", "UTC") if pa.types.is_timestamp(dtype) and dtype.tz is not None else dtype


@dataclass(frozen=True)
class Field:
    """A column of a flat table, and its type in Spark. Nested types become JSON."""

    name: str
    dtype: DataType

    @property
    def kind(self) -> str:
        """Spark's name of the type, without its parameters."""
        return str(self.dtype.typeName())


def flat_fields(schema: StructType) -> list[Field]:
    """Return the columns of a flat table."""
    return [Field(field.name, field.dataType) for field in schema.fields]


def flatten(rows: DataFrame, fields: Iterable[Field]) -> DataFrame:
    """Return these columns of a DataFrame, with nested values as JSON."""
    return rows.select(*map(_flat_column, fields))


def read_flat(batch: SinkBatch, fields: Iterable[Field]) -> pl.DataFrame:
    """Return these columns of a batch in this process, with nested values as JSON.

    The JSON is that of Spark, so a batch with nested values goes through Spark.
    """
    columns = list(fields)
    if not batch.is_local or any(field.kind in _NESTED for field in columns):
        return pl.DataFrame(batch.with_dataframe(flatten(batch.dataframe, columns)).arrow)
    return pl.DataFrame(batch.arrow.select([field.name for field in columns]))


def read_flat_parts(batch: SinkBatch, fields: Iterable[Field]) -> Iterator[pl.DataFrame]:
    """Yield the rows of ``read_flat`` in parts, so that this process holds one partition at a time."""
    for part in arrow_batches(flatten(batch.dataframe, fields)):
        yield pl.DataFrame(in_utc(pa.Table.from_batches([part])))


def _flat_column(field: Field) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    column = F.col(f"`{field.name.replace('`', '``')}`")
    if field.kind in _NESTED:
        column = F.to_json(column, JSON)
    elif field.kind == "void":
        column = column.cast("string")
    return column.alias(field.name)
