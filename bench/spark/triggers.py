"""Early panes on every batch, retracting, against the same written by hand as a processor of each key."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import eventide as ev
from bench.measure import Line
from bench.spark import data, per_key
from bench.spark.contest import Peer, contest
from bench.spark.queries import stream
from bench.spark.settings import KEY
from bench.spark.windows import in_spark, own, queries_of

# The peer needs a minute for one or two batches; it takes the same batches as Eventide, but only the first of them.
PEER_FILES = 2


def triggers(names: Sequence[str], keys: int) -> list[Line]:
    """One-minute windows; a retracting pane on every batch that brings rows, and one on time."""
    rows = ev.stream(time="ts", key=KEY, watermark=ev.bounded_delay("30 seconds")).window(ev.tumbling("1 minute"))
    early = rows.trigger(ev.after_watermark(early=ev.on_update(), late=ev.on_update()), mode="retracting")
    pipeline = early.agg(n=ev.count(), total=ev.sum("value"))
    ways = {"by_frames": in_spark(by_frames), "by_rows": in_spark(by_rows)}
    peer = Peer("per-key transformWithState", ways, files=PEER_FILES)
    windows = own(lambda: F.window("ts", "1 minute"))
    return contest(data.events(keys), queries_of(names, pipeline), peer, table=windows)


def by_frames(spark: SparkSession, files: Path) -> DataFrame:
    groups = _events(spark, files).groupBy(KEY)
    return _panes(groups.transformWithStateInPandas(per_key.ByFrames(), per_key.schema(KEY), "Append", "EventTime"))


def by_rows(spark: SparkSession, files: Path) -> DataFrame:
    groups = _events(spark, files).groupBy(KEY)
    return _panes(groups.transformWithState(per_key.ByRows(), per_key.schema(KEY), "Append", "EventTime"))


def _events(spark: SparkSession, files: Path) -> DataFrame:
    rows = stream(spark, files).withWatermark("ts", "30 seconds")
    return rows.select("ts", F.unix_micros("ts").alias("us"), KEY, "value")


def _panes(observed: DataFrame) -> DataFrame:
    start = F.timestamp_micros("start")
    window = F.struct(start.alias("start"), (start + F.expr("interval 1 minute")).alias("end"))
    return observed.select(window.alias("window"), F.col("key").alias(KEY), "n", "total", "diff")
