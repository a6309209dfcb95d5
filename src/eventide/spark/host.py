"""A pipeline on Spark: stamp, stateful, unpack. Streaming in, streaming out; batch in, batch out."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eventide.columns import expressions
from eventide.operators.windowed import WindowedAggregate
from eventide.plan.plan import Plan
from eventide.spark import page
from eventide.spark.control import commands
from eventide.spark.stage import Stage
from eventide.spark.stamping import NOW, stamp_pages, stamp_rows
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
        return bodies.select("body").mapInArrow(unpack, spark_schema(schema))


def transform(pipeline: Pipeline, rows: DataFrame) -> DataFrame:
    """The panes of a pipeline over a DataFrame."""
    applied = apply(pipeline, rows)
    panes = applied.rows(page.PANES)
    setattr(panes, _OUTPUT, applied)  # so that a pipeline applied to the panes also hears of their progress
    return panes


def apply(pipeline: Pipeline, rows: DataFrame, *, everything: bool = False, control: str | None = None) -> Applied:
    """A pipeline over a DataFrame. With ``everything`` late rows and dead letters have all of the row's columns."""
    before: Applied | None = getattr(rows, _OUTPUT, None)
    if before is not None and not expressions(pipeline.plan):
        return follow(pipeline, before)
    from pyspark.sql import functions as F  # noqa: N812

    plan = pipeline.plan
    rows = rows.withColumns(expressions(plan)) if expressions(plan) else rows
    schema = polars_schema(rows.schema)
    if not everything:
        needed = WindowedAggregate(plan, schema).reads() or {rows.columns[0]}
        rows = rows.select(*[f"`{name}`" for name in rows.columns if name in needed])
        schema = {name: schema[name] for name in rows.columns}
    spark = rows.sparkSession
    stage = Stage(uuid.uuid4().hex, plan, schema, _buckets(plan, spark), streaming=rows.isStreaming)
    stage.operator()  # a plan that does not fit its rows is refused here, not in a task
    timed = rows.withColumn(NOW, F.unix_micros(F.current_timestamp()))
    pages = timed.mapInArrow(stamp_rows(stage), page.SCHEMA)
    if control is not None:
        pages = pages.union(commands(spark, control, stage))
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
    from eventide.spark.stateful import Operate

    if not ticking and needs_ticks(stage.plan):
        pages, ticking = pages.union(ticks(pages.sparkSession, stage)), True
    operated = pages.groupBy("bucket").transformWithState(Operate(stage), page.SCHEMA, "Append", "None")
    return Applied(operated, stages, ticking)


def _buckets(plan: Plan, spark: SparkSession) -> int:
    """As many as there are state partitions: each then has one, and a batch has as few calls as it can."""
    whole = isinstance(plan.window, Sessions) and plan.window.axis == "rows"  # the rows of all keys count
    if not plan.key or whole:
        return 1
    chosen = spark.conf.get("spark.eventide.buckets", None) or spark.conf.get("spark.sql.shuffle.partitions", "200")
    return int(chosen or 200)
