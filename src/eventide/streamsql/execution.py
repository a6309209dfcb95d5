"""A compiled query over tables: DataFrames of Spark, or frames of this process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl
import pyarrow as pa

from eventide._frames import as_frame
from eventide.errors import PlanError, did_you_mean
from eventide.local import Clock, LocalQuery, LocalResult
from eventide.local.run import replayed_bundles
from eventide.operators.operator import Counts, Output
from eventide.plan import Pipeline
from eventide.streamsql.compiled_query import CompiledQuery
from eventide.streamsql.compiler import SqlScript, compile_query, locate_runtime_errors
from eventide.streamsql.source_positions import with_excerpt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Table: TypeAlias = Any  # a DataFrame or a scan of Spark, or a frame, or several frames


def spark_result(statements: SqlScript, tables: Mapping[str, Table]) -> DataFrame:
    """Return the result over DataFrames."""
    query, rows = spark_inputs(statements, tables)
    with with_excerpt(statements.text):
        with locate_runtime_errors(statements), query.locate_union_errors():
            panes = query.pipeline(*rows.values())
        return query.projection.apply_spark(panes)


def spark_inputs(statements: SqlScript, tables: Mapping[str, Table]) -> tuple[CompiledQuery, dict[str, Any]]:
    """Return the compiled query, and the inputs of the first pipeline by name."""
    for name, table in tables.items():
        if not is_spark(name, table):
            raise PlanError(
                f"The table {name!r} is a {type(table).__name__}, but a query on Spark reads DataFrames of Spark. Run "
                "it in this process with .local(rows)."
            )
    query, frames = _bound(statements, tables)
    with with_excerpt(statements.text):
        return query, {name: rows.apply_spark(frames[name]) for name, rows in query.inputs.items()}


def run_in_process(
    statements: SqlScript,
    tables: Mapping[str, Table],
    *,
    bundle_by: str | int | None,
    every: str | timedelta | None,
    clock: Clock | None,
    drain: bool,
) -> LocalResult:
    """Run the pipelines in this process, and return the query's result as panes."""
    bundles = {name: _bundles(name, table) for name, table in tables.items()}
    times: list[int | None] = []
    if bundle_by is not None:
        replayed: Any = list(replayed_bundles(tables, bundle_by, every, clock))
        bundles = {name: [frames[name] for frames, _ in replayed] for name in tables}
        times = [now for _, now in replayed]
    query, frames = _bound(statements, bundles)
    with with_excerpt(statements.text):
        rows = {
            name: [stream_rows.apply_polars(frame) for frame in frames[name]]
            for name, stream_rows in query.inputs.items()
        }
        source: Any = rows if query.pipelines[0].plan.inputs else next(iter(rows.values()))
        with locate_runtime_errors(statements), query.locate_union_errors():
            if None in times or not times:
                result = query.pipeline.local(source, clock=clock, drain=drain, every=None if times else every)
            else:
                result = _replayed(query.pipeline, source, times, drain)
        return replace(result, steps=_selected(result, query), _chain=result.operators)


def _replayed(pipeline: Pipeline, rows: Any, times: Iterable[int | None], drain: bool) -> LocalResult:
    """Run over bundles at their times. Deadlines between them pass, as in a running query."""
    query = LocalQuery(pipeline)
    for number, now in enumerate(times):
        assert now is not None
        query.pass_deadlines(now)
        bundle = {name: frames[number] for name, frames in rows.items()} if isinstance(rows, dict) else rows[number]
        query.push(bundle, now=now)
    if drain:
        query.drain()
    return query.result


def _selected(result: LocalResult, query: CompiledQuery) -> list[Output]:
    """Return the steps of a result with the query's columns, and with the counts of the rows of its tables.

    Of several pipelines the first one reads the tables. So its counts, late rows and dead letters are those of the
    query, as on Spark; ``operators`` has those of the others.
    """
    first = result.operators[0].steps
    steps = []
    for number, step in enumerate(result.steps):
        # The last pipeline may be drained in a step of its own, which reads no rows.
        read = first[number] if number < len(first) else _without_rows(first[-1])
        counts = replace(read.counts, panes=step.counts.panes, retractions=step.counts.retractions)
        panes = query.projection.apply_polars(step.panes)
        steps.append(replace(step, panes=panes, late=read.late, dead=read.dead, counts=counts))
    return steps


def _without_rows(step: Output) -> Output:
    return replace(step, late=step.late.clear(), dead=step.dead.clear(), counts=Counts())


def is_spark(name: str, table: Table) -> bool:
    """Whether a table is a DataFrame of Spark. Rejects values that are not tables."""
    if hasattr(table, "isStreaming") and hasattr(table, "sparkSession"):
        return True
    frame = isinstance(table, pl.DataFrame | pa.Table | pa.RecordBatch)
    if not frame and (isinstance(table, str | bytes | dict) or not isinstance(table, Iterable)):
        raise _not_a_table(name, table)
    return False


def columns_of(table: Table) -> tuple[str, ...]:
    """Return the names of a table's columns."""
    if hasattr(table, "isStreaming"):
        return tuple(field.name for field in table.schema.fields)
    frame = table if isinstance(table, pl.DataFrame | pa.Table | pa.RecordBatch) else next(iter(table), pl.DataFrame())
    return tuple(as_frame(frame).columns)


def _bound(statements: SqlScript, tables: Mapping[str, Table]) -> tuple[CompiledQuery, dict[str, Table]]:
    """Return the query compiled for the columns of its tables, and the table of each input."""
    query = compile_query(statements, {name: columns_of(table) for name, table in tables.items()})
    by_name = {name.lower(): table for name, table in tables.items()}
    read = {rows.stream.name.lower() for rows in query.inputs.values()}
    for name in tables:
        if name.lower() not in read:
            raise PlanError(
                f"The table {name!r} is given, but the query does not read it. {did_you_mean(name, sorted(read))}"
            )
    return query, {
        name: tables.get(rows.stream.name, by_name[rows.stream.name.lower()]) for name, rows in query.inputs.items()
    }


def _bundles(name: str, table: Table) -> list[pl.DataFrame]:
    if is_spark(name, table):
        raise _not_a_table(name, table)
    frames = [table] if isinstance(table, pl.DataFrame | pa.Table | pa.RecordBatch) else list(table)
    return [as_frame(frame) for frame in frames]


def _not_a_table(name: str, value: object) -> PlanError:
    """Something that holds no rows."""
    return PlanError(
        f"The table {name!r} is a {type(value).__name__}. Give a Polars or Arrow frame, or a list of frames, one a "
        "bundle. DataFrames of Spark are for .run(rows, …) and rows.transform(query)."
    )
