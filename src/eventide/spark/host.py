"""A pipeline on Spark: stamp, stateful, unpack. Streaming in, streaming out; batch in, batch out."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from eventide.columns import expressions
from eventide.errors import joins as join_errors
from eventide.operators.binding import operator_of
from eventide.spark import page
from eventide.spark.control import commands, marks_of
from eventide.spark.feeding import Source, feed, sources
from eventide.spark.metrics import observation, observed_columns
from eventide.spark.stage import Stage
from eventide.spark.stamping import stamp_pages
from eventide.spark.ticks import needs_ticks, ticks
from eventide.spark.types import polars_schema, spark_schema
from eventide.spark.unpacking import unpack

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


def transform(pipeline: Pipeline, rows: Source) -> DataFrame:
    """The panes of a pipeline over a DataFrame."""
    applied = apply(pipeline, rows)
    panes = applied.rows(page.PANES, observed(applied))
    setattr(panes, _OUTPUT, applied)  # so that a pipeline applied to the panes also hears of their progress
    return panes


def apply(pipeline: Pipeline, rows: Source, *, everything: bool = False, control: str | None = None) -> Applied:
    """A pipeline over its inputs. With ``everything`` late rows and dead letters have all of the row's columns."""
    plan = pipeline.plan
    before: Applied | None = getattr(rows, _OUTPUT, None)
    if before is not None and not expressions(plan):
        return follow(pipeline, before)
    feeds = []
    for edge, one in enumerate(sources(plan, rows)):
        with join_errors.naming_input(plan.edges[edge].name if plan.inputs else None):
            feeds.append(feed(plan.at(edge), one))
    operator = operator_of(plan, *(one.schema for one in feeds))  # refused here, not in a task
    if not everything:
        feeds = [one.narrowed(operator.reads(edge)) for edge, one in enumerate(feeds)]
    spark = feeds[0].spark
    stage = Stage(
        uuid.uuid4().hex,
        plan,
        tuple(one.schema for one in feeds),
        _buckets(plan, spark),
        streaming=feeds[0].streaming,
        derived=() if plan.inputs else feeds[0].derived,
    )
    pages = reduce(lambda one, other: one.union(other), (one.stamped(stage, i) for i, one in enumerate(feeds)))
    return _begun(pages, stage, control)


def _begun(pages: DataFrame, stage: Stage, control: str | None) -> Applied:
    """The first operator of a query."""
    if control is not None:
        pages = pages.union(commands(pages.sparkSession, control, stage))
    if stage.streaming:
        for marks in marks_of(pages.sparkSession, stage):
            pages = pages.union(marks)
    return _operated(pages, (stage,), ticking=False)


def follow(pipeline: Pipeline, before: Applied) -> Applied:
    """A pipeline over the panes of another, with their progress."""
    plan = pipeline.plan
    if plan.inputs:
        raise join_errors.in_a_chain([one.name for one in plan.inputs])
    schema = polars_schema(before.rows(page.PANES).schema)
    stage = Stage(
        uuid.uuid4().hex,
        plan,
        (schema,),
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


def _buckets(plan: Any, spark: SparkSession) -> int:
    """As many as there are state partitions: each then has one, and a batch has as few calls as it can."""
    if not plan.key or plan.counts_all_keys:
        return 1
    chosen = spark.conf.get("spark.eventide.buckets", None) or spark.conf.get("spark.sql.shuffle.partitions", "200")
    return int(chosen or 200)
