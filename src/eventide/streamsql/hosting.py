"""A compiled query over real tables: on Spark, or in this process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl
import pyarrow as pa

from eventide.errors import sql_tables as table_errors
from eventide.local.query import Clock, LocalResult, as_frame
from eventide.operators.bundle import Counts, Output
from eventide.streamsql.blame import meeting_rows
from eventide.streamsql.compiled import Compiled
from eventide.streamsql.compiling import Statements, compiled
from eventide.streamsql.places import pointing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Table: TypeAlias = Any  # a DataFrame or a scan of Spark, or a frame, or several frames


def on_spark(said: Statements, tables: Mapping[str, Table]) -> DataFrame:
    """The result over DataFrames."""
    found, rows = spark_rows(said, tables)
    with pointing(said.text):
        with meeting_rows(said), found.blaming_the_union():
            panes = found.pipelines[0](*rows.values())
        with meeting_rows(said):
            for following in found.pipelines[1:]:
                panes = following(panes)
        return found.projection.of_spark(panes)


def spark_rows(said: Statements, tables: Mapping[str, Table]) -> tuple[Compiled, dict[str, Any]]:
    """The query over the columns of its tables, and what the first pipeline reads, by the names of its inputs."""
    found, frames = _bound(said, tables)
    with pointing(said.text):
        return found, {name: one.of_spark(frames[name]) for name, one in found.inputs.items()}


def in_process(said: Statements, tables: Mapping[str, Table], clock: Clock | None, drain: bool) -> LocalResult:
    """What the pipelines give in this process, with the query's result as the panes."""
    bundles = {name: _bundles(name, table) for name, table in tables.items()}
    found, frames = _bound(said, bundles)
    with pointing(said.text):
        rows = {name: [one.of_polars(frame) for frame in frames[name]] for name, one in found.inputs.items()}
        given: Any = rows if found.pipelines[0].plan.inputs else next(iter(rows.values()))
        with meeting_rows(said), found.blaming_the_union():
            result = found.pipelines[0].local(given, clock=clock, drain=drain)
        with meeting_rows(said):
            for following in found.pipelines[1:]:
                result = following.local(result, drain=drain)
        return replace(result, steps=_selected(result, found), _chain=result.operators)


def _selected(result: LocalResult, found: Compiled) -> list[Output]:
    """The steps of a result with what the query selects, and with what became of the rows of its tables.

    Of several pipelines the first one reads the tables. So its counts, late rows and dead letters are those of the
    query, as on Spark; ``operators`` has those of the others.
    """
    first = result.operators[0].steps
    steps = []
    for number, step in enumerate(result.steps):
        # The last pipeline may be drained in a step of its own, which reads no rows.
        read = first[number] if number < len(first) else _without_rows(first[-1])
        counts = replace(read.counts, panes=step.counts.panes, retractions=step.counts.retractions)
        panes = found.projection.of_polars(step.panes)
        steps.append(replace(step, panes=panes, late=read.late, dead=read.dead, counts=counts))
    return steps


def _without_rows(step: Output) -> Output:
    return replace(step, late=step.late.clear(), dead=step.dead.clear(), counts=Counts())


def is_spark(name: str, table: Table) -> bool:
    """Whether a table is of Spark; refused, if it is none at all."""
    if hasattr(table, "isStreaming") and hasattr(table, "sparkSession"):
        return True
    frame = isinstance(table, pl.DataFrame | pa.Table | pa.RecordBatch)
    if not frame and (isinstance(table, str | bytes | dict) or not isinstance(table, Iterable)):
        raise table_errors.not_a_table(name, table)
    return False


def columns_of(table: Table) -> tuple[str, ...]:
    """The names of a table's columns."""
    if hasattr(table, "isStreaming"):
        return tuple(field.name for field in table.schema.fields)
    frame = table if isinstance(table, pl.DataFrame | pa.Table | pa.RecordBatch) else next(iter(table), pl.DataFrame())
    return tuple(as_frame(frame).columns)


def _bound(said: Statements, tables: Mapping[str, Table]) -> tuple[Compiled, dict[str, Table]]:
    """The query over the columns of its tables, and the table of each input."""
    found = compiled(said, {name: columns_of(table) for name, table in tables.items()})
    by_name = {name.lower(): table for name, table in tables.items()}
    read = {one.stream.name.lower() for one in found.inputs.values()}
    for name in tables:
        if name.lower() not in read:
            raise table_errors.table_not_used(name, sorted(read))
    return found, {
        name: tables.get(one.stream.name, by_name[one.stream.name.lower()]) for name, one in found.inputs.items()
    }


def _bundles(name: str, table: Table) -> list[pl.DataFrame]:
    if is_spark(name, table):
        raise table_errors.not_a_table(name, table)
    frames = [table] if isinstance(table, pl.DataFrame | pa.Table | pa.RecordBatch) else list(table)
    return [as_frame(frame) for frame in frames]
