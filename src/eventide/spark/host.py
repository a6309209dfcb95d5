"""A pipeline on Spark: stamp, stateful, unpack. Streaming in, streaming out; batch in, batch out."""

from __future__ import annotations

import json
import sys
import uuid
import warnings
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from eventide.columns import expressions
from eventide.errors import joins as join_errors
from eventide.errors import processing as processing_errors
from eventide.errors import spark as errors
from eventide.operators.binding import operator_of
from eventide.plan.calls import spans_bundles
from eventide.plan.fingerprint import fingerprint
from eventide.plan.pipeline import over_panes
from eventide.plan.stream_check import check_watermarks
from eventide.spark import page
from eventide.spark.control import commands, marks_of
from eventide.spark.feeding import Source, feed, sources
from eventide.spark.metrics import observation, observed_columns
from eventide.spark.partitions import bucket_count
from eventide.spark.session import check_session, reject_spark_connect
from eventide.spark.stage import Stage
from eventide.spark.stamping import stamp_pages
from eventide.spark.ticks import needs_ticks, ticks
from eventide.spark.types import polars_schema, spark_schema
from eventide.spark.unpacking import unpack

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from eventide.plan.pipeline import Pipeline

_OUTPUT = "_eventide_output"
_warned: set[str] = set()  # pipelines of this process


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
    """The panes of a pipeline over a DataFrame. Late rows and dead letters of a stream are counted, and not kept."""
    applied = apply(pipeline, rows)
    if applied.stage.streaming and len(applied.stages) == 1:
        warn_panes_only(pipeline)
    panes = applied.rows(page.PANES, observed(applied))
    setattr(panes, _OUTPUT, applied)  # so that a pipeline applied to the panes also hears of their progress
    return panes


def warn_panes_only(pipeline: Pipeline) -> None:
    """Warn, once for each pipeline, that the late rows and dead letters of a stream are lost."""
    known = json.dumps(fingerprint(pipeline.plan), sort_keys=True)
    if known not in _warned:
        _warned.add(known)
        warnings.warn(errors.panes_only(), stacklevel=_level_of_the_caller())


def _level_of_the_caller() -> int:
    """How many calls above a function of this module the user's own code is."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals["__name__"].partition(".")[0] in ("eventide", "pyspark"):
        frame, level = frame.f_back, level + 1
    return level


def apply(
    pipeline: Pipeline,
    rows: Source,
    *,
    everything: bool = False,
    control: str | None = None,
    tasks_know_time: bool = False,
    repaired_in: int = -1,
    buckets: int | None = None,
) -> Applied:
    """A pipeline over its inputs. With ``everything`` late rows and dead letters have all of the row's columns.

    With ``tasks_know_time`` the caller runs each batch with ``clock.set_batch_time``. ``repaired_in`` is the batch in
    which the watermark is lowered. ``buckets`` is the number of buckets that the checkpoint was started with.
    """
    reject_spark_connect(rows)
    plan = pipeline.plan
    if spans_bundles(plan):
        raise processing_errors.calls_need_driver()
    before: Applied | None = getattr(rows, _OUTPUT, None)
    if before is not None and not expressions(plan):
        return follow(pipeline, before)
    if sources(plan, rows)[0].isStreaming:
        check_watermarks(plan)
    feeds = []
    for edge, one in enumerate(sources(plan, rows)):
        with join_errors.naming_input(plan.edges[edge].name if plan.inputs else None):
            feeds.append(feed(plan.at(edge), one))
    operator = operator_of(plan, *(one.schema for one in feeds))  # refused here, not in a task
    if not everything:
        feeds = [one.narrowed(operator.reads(edge)) for edge, one in enumerate(feeds)]
    spark = feeds[0].spark
    count = bucket_count(plan, spark, buckets)
    # ev.run, which has a control stream, chooses the number of state partitions itself.
    check_session(spark, streaming=feeds[0].streaming, buckets=count if control is None else None)
    stage = Stage(
        uuid.uuid4().hex,
        plan,
        tuple(one.schema for one in feeds),
        count,
        streaming=feeds[0].streaming,
        derived=() if plan.inputs else feeds[0].derived,
        tasks_know_time=tasks_know_time,
        repaired_in=repaired_in,
    )
    pages = reduce(lambda one, other: one.union(other), (one.stamped(stage, i) for i, one in enumerate(feeds)))
    return _begun(pages, stage, control)


def _begun(pages: DataFrame, stage: Stage, control: str | None) -> Applied:
    """The first operator of a query. Its sources have the same order as with state in the driver."""
    if stage.streaming:
        for marks in marks_of(pages.sparkSession, stage):
            pages = pages.union(marks)
    if control is not None:
        pages = pages.union(commands(pages.sparkSession, control, stage))
    return _operated(pages, (stage,), ticking=False)


def follow(pipeline: Pipeline, before: Applied, *, buckets: int | None = None) -> Applied:
    """A pipeline over the panes of another, with their progress."""
    plan = over_panes(pipeline).plan
    if spans_bundles(plan):
        raise processing_errors.calls_need_driver()
    if plan.inputs:
        raise join_errors.in_a_chain([one.name for one in plan.inputs])
    schema = polars_schema(before.rows(page.PANES).schema)
    stage = Stage(
        uuid.uuid4().hex,
        plan,
        (schema,),
        bucket_count(plan, before.pages.sparkSession, buckets),
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
