"""A pipeline on Spark: stamp, stateful, unpack. Streaming in, streaming out; batch in, batch out."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from eventide.operators.windowed import WindowedAggregate
from eventide.plan.plan import Plan
from eventide.spark import page
from eventide.spark.stage import Stage
from eventide.spark.stamping import NOW, StampRows
from eventide.spark.types import polars_schema, spark_schema
from eventide.spark.unpacking import unpack
from eventide.windows import Sessions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from eventide.plan.pipeline import Pipeline

_OUTPUT = "_eventide_output"


@dataclass(frozen=True)
class Applied:
    """A pipeline that was applied to a DataFrame: its output as pages, and how to read them."""

    pages: DataFrame
    stage: Stage
    schemas: dict[str, dict[str, pl.DataType]]

    def rows(self, kind: str) -> DataFrame:
        """Panes, late rows or dead letters as ordinary rows."""
        bodies = self.pages.where(f"kind = '{kind}'").select("body")
        return bodies.mapInArrow(unpack, spark_schema(self.schemas[kind]))


def transform(pipeline: Pipeline, rows: DataFrame) -> DataFrame:
    """The panes of a pipeline over a DataFrame."""
    applied = apply(pipeline, rows)
    panes = applied.rows(page.PANES)
    setattr(panes, _OUTPUT, applied)  # so that a pipeline applied to the panes also hears of their progress
    return panes


def apply(pipeline: Pipeline, rows: DataFrame, *, everything: bool = False) -> Applied:
    """A pipeline over a DataFrame. With ``everything`` late rows and dead letters have all of the row's columns."""
    from pyspark.sql import functions as F  # noqa: N812

    plan = pipeline.plan
    if not everything:
        rows = rows.select(*_needed(plan, rows))
    stage = _stage(plan, polars_schema(rows.schema), rows)
    operator = stage.operator()
    timed = rows.withColumn(NOW, F.unix_micros(F.current_timestamp()))
    stamped = timed.mapInArrow(StampRows(stage), page.SCHEMA)
    return Applied(_operated(stamped, stage), stage, operator.output_schemas())


def _operated(stamped: DataFrame, stage: Stage) -> DataFrame:
    if not stage.streaming:
        from eventide.spark.batch import operate_once

        return stamped.groupBy("bucket").applyInArrow(operate_once(stage), page.SCHEMA)
    from eventide.spark.stateful import Operate

    return stamped.groupBy("bucket").transformWithState(Operate(stage), page.SCHEMA, "Append", "None")


def _stage(plan: Plan, schema: dict[str, pl.DataType], rows: DataFrame) -> Stage:
    return Stage(
        name=uuid.uuid4().hex,
        plan=plan,
        schema=schema,
        buckets=_buckets(plan, rows),
        streaming=rows.isStreaming,
    )


def _buckets(plan: Plan, rows: DataFrame) -> int:
    """As many as there are state partitions: each then has one, and a batch has as few calls as it can."""
    whole = isinstance(plan.window, Sessions) and plan.window.axis == "rows"  # the rows of all keys count
    if not plan.key or whole:
        return 1
    conf = rows.sparkSession.conf
    return int(conf.get("spark.eventide.buckets", None) or conf.get("spark.sql.shuffle.partitions", "200") or 200)


def _needed(plan: Plan, rows: DataFrame) -> list[str]:
    """The columns that the plan reads: only they go to Python."""
    read = WindowedAggregate(plan, polars_schema(rows.schema)).reads()
    return [f"`{name}`" for name in rows.columns if name in read] or [f"`{rows.columns[0]}`"]
