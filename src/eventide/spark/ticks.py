"""Ticks: pages that come when no data does, so that processing time passes and silent origins are noticed."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from eventide.spark import page
from eventide.spark.buckets import labels
from eventide.spark.clock import batch_time
from eventide.spark.stage import Stage
from eventide.triggers import AfterProcessingTime
from eventide.watermarks.rules import ProcessingTime

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def needs_ticks(plan: Any) -> bool:
    """Whether something in the plan happens because time passes."""
    strategies = [one.watermark for one in plan.edges]
    silent = [(one.options.idle_timeout, one.options.gap_timeout, one.options.origins_timeout) for one in strategies]
    clocked = any(isinstance(one.rule, ProcessingTime) for one in strategies) or _has(plan, AfterProcessingTime)
    clocked = clocked or getattr(plan, "clocked", False)  # a processor with timers on the clock
    return clocked or any(duration is not None for durations in silent for duration in durations)


def ticks(spark: SparkSession, stage: Stage) -> DataFrame:
    """One tick in every batch for every bucket, whether or not there is data.

    Of Spark's two sources that need no data this one can end with ``availableNow``; beside the other (``rate``)
    all that is available would become one single batch.
    """
    from pyspark.sql import functions as F  # noqa: N812

    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).option("numPartitions", 1).load()
    return source.select(*for_all_buckets(stage, page.TICK, F.lit(None).cast("string")))


def for_all_buckets(stage: Stage, kind: str, detail: Column) -> list[Column]:
    """The columns of a page without a body, once for each bucket."""
    from pyspark.sql import functions as F  # noqa: N812

    return [
        F.explode(F.array(*[F.lit(label) for label in labels(stage.buckets)])).alias("bucket"),
        F.lit(kind).alias("kind"),
        F.lit(-1).cast("bigint").alias("sequence"),
        batch_time().alias("now"),
        F.lit(None).cast("binary").alias("body"),
        F.lit(None).cast("map<string,bigint>").alias("counts"),
        detail.alias("detail"),
    ]


def _has(part: Any, kind: type) -> bool:
    if isinstance(part, kind):
        return True
    if isinstance(part, (list, tuple)):
        return any(_has(one, kind) for one in part)
    return is_dataclass(part) and any(_has(getattr(part, field.name), kind) for field in fields(part))
