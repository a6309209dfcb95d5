"""Scans and sinks of a query on Spark: tasks filter and compute the rows of a scan, and sinks receive the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl
from sqlglot import exp

from eventide import sinks
from eventide.errors import PlanError
from eventide.panes import PANE, WINDOW
from eventide.sinks import OutputInfo, Sink
from eventide.spark.scan import Scan, Unreadable
from eventide.spark.types import cast_rows, polars_schema, spark_schema
from eventide.streamsql.compiled_query import QueryStep, apply_steps
from eventide.streamsql.expressions import column
from eventide.streamsql.select_clause import Projection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from eventide.sinks.batch import SinkBatch
    from eventide.spark.scan import ReadSplit


@dataclass(frozen=True)
class SelectedScan(Scan):
    """The rows of another scan, after the steps of a query."""

    inner: Scan
    steps: tuple[QueryStep, ...]

    @property
    def keeps_unreadable(self) -> bool:
        """Whether the inner scan keeps unreadable rows as dead letters."""
        return self.inner.keeps_unreadable

    def splits(self) -> DataFrame:
        """Return the splits of the inner scan."""
        return self.inner.splits()

    def reader(self) -> ReadSplit:
        """Return the function that reads a split, with only the columns that the steps and the plan need."""
        read, steps, every = self.inner.reader(), self.steps, polars_schema(self.inner.schema)

        def selected(split: dict[str, Any], schema: Mapping[str, pl.DataType]) -> Iterator[pl.DataFrame | Unreadable]:
            needed = _needed(steps, schema)
            columns = {name: dtype for name, dtype in every.items() if name in needed} or dict(list(every.items())[:1])
            for rows in read(split, columns):
                if isinstance(rows, Unreadable):
                    yield rows
                else:
                    yield cast_rows(apply_steps(rows, steps).select(list(schema)), schema)

        return selected


def selected_scan(scan: Scan, steps: Sequence[QueryStep]) -> Scan:
    """Return a scan after the steps of a query. Polars infers the types from an empty frame."""
    if not steps:
        return scan
    selected = apply_steps(pl.DataFrame(schema=polars_schema(scan.schema)), steps)
    return SelectedScan(spark_schema(selected.schema), scan.spark, scan, tuple(steps))


def _needed(steps: Sequence[QueryStep], asked: Mapping[str, pl.DataType]) -> set[str]:
    """Return the columns of the source that the steps read or pass on."""
    names = set() if any(step.only for step in steps) else set(asked)
    for step in steps:
        conditions = [] if step.where is None else [step.where]
        names |= {part.name for node in (*conditions, *step.columns.values()) for part in node.find_all(exp.Column)}
    return names


def selected_sink(sink: Any, projection: Projection) -> Sink:
    """Return a sink that receives the result of a query. With ``as_selected`` it receives only that, and ``diff``."""
    inner = sinks.as_sink(sink)
    if getattr(inner, "as_selected", False) and projection.columns is not None:
        return ProjectedSink(inner, projection)
    if projection.columns is None and projection.where is None:
        return inner
    selected = FollowingSelectedSink if isinstance(inner, sinks.sink.WatermarkSink) else SelectedSink
    return selected(inner, projection)


@dataclass(frozen=True)
class ProjectedSink:
    """A sink that gets the columns that a query selects, under the names and in the order of SELECT, and ``diff``."""

    inner: Sink
    projection: Projection

    def open(self, schema: StructType, info: OutputInfo) -> None:
        """Open the sink."""
        self.inner.open(schema, _row_info(info))

    def write(self, batch: SinkBatch, batch_id: int, info: OutputInfo) -> None:
        """Write what the query selects of a batch."""
        selected = batch.with_dataframe(self.projection.apply_spark(batch.dataframe))
        self.inner.write(selected, batch_id, _row_info(info))

    def close(self) -> None:
        """Close the sink."""
        self.inner.close()


def _row_info(info: OutputInfo) -> OutputInfo:
    """Return the info of rows: they have no window or pane unless the query selects its columns."""
    return replace(info, row_grain="rows")


@dataclass(frozen=True)
class SelectedSink:
    """A sink that receives the query's columns, and those that identify a row: window, pane and ``diff``."""

    inner: Sink
    projection: Projection

    def open(self, schema: StructType, info: OutputInfo) -> None:
        """Open the sink for the query's columns."""
        from pyspark.sql import SparkSession

        spark = SparkSession.getActiveSession()
        assert spark is not None  # a query is about to start in it
        empty = spark.createDataFrame([], schema)
        self.inner.open(self._selected(empty, info).schema, self._named_info(info))

    def write(self, batch: SinkBatch, batch_id: int, info: OutputInfo) -> None:
        """Write what the query selects of a batch."""
        selected = self._selected(batch.dataframe, info)
        self.inner.write(batch.with_dataframe(selected), batch_id, self._named_info(info))

    def close(self) -> None:
        """Close the sink."""
        self.inner.close()

    def _named_info(self, info: OutputInfo) -> OutputInfo:
        """Return the info with the key under its names in the query."""
        chosen = self.projection.columns or {}
        called = {expression.name: name for name, expression in chosen.items() if isinstance(expression, exp.Column)}
        return replace(info, key=tuple(called.get(name, name) for name in info.key))

    def _selected(self, panes: DataFrame, info: OutputInfo) -> DataFrame:
        """Return the query's columns, and columns that identify rows and that the query leaves out."""
        if self.projection.columns is None:
            return self.projection.apply_spark(panes)
        columns: dict[str, exp.Expr] = dict(self.projection.columns)
        named = {expression.name for expression in columns.values() if isinstance(expression, exp.Column)}
        for name in info.key:
            if name in named or name not in panes.columns:
                continue
            if name in columns:
                raise PlanError(
                    f"The sink identifies rows by the key {name!r}, but the query selects something else under that "
                    "name. Give it another name with AS."
                )
            columns[name] = column(name)
        if info.row_grain != "rows":
            for name in (*WINDOW, *PANE):
                if columns.setdefault(name, column(name)) != column(name):
                    raise PlanError(
                        "The sink writes the bounds of windows as window_start and window_end, but the query selects "
                        f"something else as {name!r}. Give it another name with AS."
                    )
        return Projection(columns, self.projection.where).apply_spark(panes)


@dataclass(frozen=True)
class FollowingSelectedSink(SelectedSink):
    """A ``SelectedSink`` for a sink that follows the output watermark. For others, no batch runs to move it."""

    def advance(self, output_watermark: int, info: OutputInfo) -> None:
        """Pass the output watermark on."""
        assert isinstance(self.inner, sinks.sink.WatermarkSink)
        self.inner.advance(output_watermark, self._named_info(info))
