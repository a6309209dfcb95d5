"""A pipeline on Spark: stamp, stateful, unpack. Streaming in, streaming out; batch in, batch out."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eventide.columns import expressions
from eventide.errors import spark as errors
from eventide.operators.windowed import WindowedAggregate
from eventide.plan.plan import Plan
from eventide.spark import page
from eventide.spark.control import commands
from eventide.spark.metrics import observation, observed_columns
from eventide.spark.scanning import Scan, stamp_files
from eventide.spark.stage import Stage
from eventide.spark.stamping import NOW, stamp_needs_now, stamp_pages, stamp_rows
from eventide.spark.ticks import needs_ticks, ticks
from eventide.spark.types import polars_schema, spark_schema
from eventide.spark.unpacking import unpack
from eventide.windows import Sessions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from eventide.plan.pipeline import Pipeline

_OUTPUT = "_eventide_output"


@dataclass(frozen=True)
class Applied:
    """A pipeline that was applied to a DataFrame: its output as pages, and how to read them."""

    pages: DataFrame
    stages: tuple[Stage, ...]
    ticking: bool

    @property
    def stage(self) -> Stage:
        """The last operator."""
        return self.stages[-1]

    def rows(self, kind: str, pages: DataFrame | None = None, depth: int | None = None) -> DataFrame:
        """Panes, late rows or dead letters as ordinary rows."""
        stage = self.stages[-1 if depth is None else depth]
        bodies = (self.pages if pages is None else pages).where(f"kind = '{page.at_depth(kind, stage.depth)}'")
        schema = stage.operator().output_schemas()[kind]
        rows = bodies.select("body").mapInArrow(unpack, spark_schema(schema))
        return rows if kind == page.PANES else rows.drop(*stage.derived)


def transform(pipeline: Pipeline, rows: DataFrame | Scan) -> DataFrame:
    """The panes of a pipeline over a DataFrame."""
    applied = apply(pipeline, rows)
    panes = applied.rows(page.PANES, observed(applied))
    setattr(panes, _OUTPUT, applied)  # so that a pipeline applied to the panes also hears of their progress
    return panes


def apply(
    pipeline: Pipeline, rows: DataFrame | Scan, *, everything: bool = False, control: str | None = None
) -> Applied:
    """A pipeline over a DataFrame. With ``everything`` late rows and dead letters have all of the row's columns."""
    if isinstance(rows, Scan):
        return _scanned(pipeline, rows, everything=everything, control=control)
    before: Applied | None = getattr(rows, _OUTPUT, None)
    if before is not None and not expressions(pipeline.plan):
        return follow(pipeline, before)
    from pyspark.sql import functions as F  # noqa: N812

    plan = pipeline.plan
    derived = expressions(plan)
    own = {name.lower() for name in rows.columns}
    rows = rows.withColumns(derived) if derived else rows
    schema = polars_schema(rows.schema)
    if not everything:
        needed = WindowedAggregate(plan, schema).reads() or {rows.columns[0]}
        rows = rows.select(*[f"`{name}`" for name in rows.columns if name in needed])
        schema = {name: schema[name] for name in rows.columns}
    spark = rows.sparkSession
    stage = Stage(
        uuid.uuid4().hex,
        plan,
        schema,
        _buckets(plan, spark),
        streaming=rows.isStreaming,
        derived=tuple(name for name in derived if name.lower() not in own),
    )
    stage.operator()  # a plan that does not fit its rows is refused here, not in a task
    now = F.unix_micros(F.current_timestamp())
    timed = rows.withColumn(NOW, now) if stamp_needs_now(plan) else rows
    pages = timed.mapInArrow(stamp_rows(stage), page.SCHEMA)
    return _begun(pages.withColumn("now", now), stage, control)


def _scanned(pipeline: Pipeline, scan: Scan, *, everything: bool, control: str | None) -> Applied:
    plan = pipeline.plan
    if expressions(plan):
        raise errors.expression_in_scan(next(iter(expressions(plan))))
    schema = polars_schema(scan.schema)
    needed = set(schema) if everything else WindowedAggregate(plan, schema).reads() or {next(iter(schema))}
    schema = {name: dtype for name, dtype in schema.items() if name in needed}
    stage = Stage(uuid.uuid4().hex, plan, schema, _buckets(plan, scan.spark))
    stage.operator()
    return _begun(scan.files().mapInArrow(stamp_files(stage, scan.parts), page.SCHEMA), stage, control)


def _begun(pages: DataFrame, stage: Stage, control: str | None) -> Applied:
    """The first operator of a query."""
    if control is not None:
        pages = pages.union(commands(pages.sparkSession, control, stage))
    return _operated(pages, (stage,), ticking=False)


def follow(pipeline: Pipeline, before: Applied) -> Applied:
    """A pipeline over the panes of another, with their progress."""
    plan = pipeline.plan
    schema = polars_schema(before.rows(page.PANES).schema)
    stage = Stage(
        uuid.uuid4().hex,
        plan,
        schema,
        _buckets(plan, before.pages.sparkSession),
        depth=before.stage.depth + 1,
        sources=before.stage.buckets,
        streaming=before.stage.streaming,
    )
    stage.operator()
    pages = before.pages.mapInArrow(stamp_pages(stage), page.SCHEMA)
    return _operated(pages, (*before.stages, stage), ticking=before.ticking)


def _operated(pages: DataFrame, stages: tuple[Stage, ...], *, ticking: bool) -> Applied:
    stage = stages[-1]
    if not stage.streaming:
        from eventide.spark.batch import operate_once

        return Applied(pages.groupBy("bucket").applyInArrow(operate_once(stage), page.SCHEMA), stages, False)
    from eventide.spark.processor import Operate

    if not ticking and needs_ticks(stage.plan):
        pages, ticking = pages.union(ticks(pages.sparkSession, stage)), True
    operated = pages.groupBy("bucket").transformWithState(Operate(stage), page.SCHEMA, "Append", "None")
    return Applied(operated, stages, ticking)


def observed(applied: Applied) -> DataFrame:
    """The pages, with the counts of each operator for Spark's progress and its listeners to show."""
    pages = applied.pages
    if applied.stage.streaming:
        for stage in applied.stages:
            pages = pages.observe(observation(stage), *observed_columns(stage.depth))
    return pages


def _buckets(plan: Plan, spark: SparkSession) -> int:
    """As many as there are state partitions: each then has one, and a batch has as few calls as it can."""
    whole = isinstance(plan.window, Sessions) and plan.window.axis == "rows"  # the rows of all keys count
    if not plan.key or whole:
        return 1
    chosen = spark.conf.get("spark.eventide.buckets", None) or spark.conf.get("spark.sql.shuffle.partitions", "200")
    return int(chosen or 200)
