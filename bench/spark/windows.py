"""Eventide's windows against Spark's own, on the same files, in the same session, with the same state store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import eventide as ev
from bench.measure import Line
from bench.spark import data
from bench.spark.contest import Peer, Query, Table, Variant, contest
from bench.spark.queries import stream
from bench.spark.settings import KEY


def tumbling(names: Sequence[str], keys: int) -> list[Line]:
    """Count and sum in one-minute windows."""
    pipeline = _stream().window(ev.tumbling("1 minute")).agg(n=ev.count(), total=ev.sum("value"))
    return _windows(names, keys, pipeline, lambda: F.window("ts", "1 minute"))


def sliding(names: Sequence[str], keys: int) -> list[Line]:
    """Count and sum of one minute, every five seconds."""
    kind = ev.sliding("1 minute", every="5 seconds")
    pipeline = _stream().window(kind).agg(n=ev.count(), total=ev.sum("value"))
    return _windows(names, keys, pipeline, lambda: F.window("ts", "1 minute", "5 seconds"))


def sessions(names: Sequence[str], keys: int) -> list[Line]:
    """Count and sum in sessions with a gap of ten seconds: about five rows each.

    Rows exactly the gap apart are one session on both sides.
    """
    pipeline = _stream().window(ev.sessions("10 seconds")).agg(n=ev.count(), total=ev.sum("value"))
    return _windows(names, keys, pipeline, lambda: F.session_window("ts", "10 seconds"))


def own(window: Callable[[], Column]) -> Table:
    """Spark's own aggregation: streaming rows in, windows that the watermark has passed out; or all, of a batch."""

    def table(events: DataFrame) -> DataFrame:
        groups = events.withWatermark("ts", "30 seconds").groupBy(window().alias("window"), KEY)
        return groups.agg(F.count("*").alias("n"), F.sum("value").alias("total"))

    return table


def eventide_query(pipeline: ev.Pipeline) -> Query:
    def query(spark: SparkSession, files: Path) -> DataFrame:
        return stream(spark, files).transform(pipeline).select("window", KEY, "n", "total", "diff")

    return query


def fused_query(pipeline: ev.Pipeline) -> Query:
    """The files are read and stamped in one step, in Python: rows never cross the JVM."""

    def query(spark: SparkSession, files: Path) -> DataFrame:
        panes = ev.scan_parquet(str(files), files_per_batch=1).transform(pipeline)
        return panes.select("window", KEY, "n", "total", "diff")

    return query


def queries_of(names: Sequence[str], pipeline: ev.Pipeline) -> dict[str, Query]:
    """The pipeline on rows from Spark, and where the name says so on a fused scan."""
    return {name: (fused_query if name.endswith("_fused") else eventide_query)(pipeline) for name in names}


def _windows(names: Sequence[str], keys: int, pipeline: ev.Pipeline, window: Callable[[], Column]) -> list[Line]:
    table = own(window)

    def query(spark: SparkSession, files: Path) -> DataFrame:
        return table(stream(spark, files))

    # Spark's default store, which Eventide cannot use: quicker, as long as all state fits into the JVM's heap.
    peer = Peer("Spark's own", query, Variant("peer_in_memory", query, in_memory=True))
    return contest(data.events(keys), queries_of(names, pipeline), peer, table=table)


def _stream() -> ev.Stream:
    return ev.stream(time="ts", key=KEY, watermark=ev.lag("30 seconds"))
