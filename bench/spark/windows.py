"""Eventide's windows against Spark's own, on the same files, in the same session, into the same sink."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import eventide as ev
from bench.measure import Line
from bench.spark import data
from bench.spark.contest import Peer, Query, Table, contest
from bench.spark.queries import Run, in_memory_state, stream
from bench.spark.settings import KEY
from bench.spark.sinks import run_in_driver, run_in_spark, timed


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


def in_driver(pipeline: ev.Pipeline) -> Query:
    """``pipeline.run`` with state in the driver, on rows that Spark reads."""
    return lambda spark, files, place: timed(lambda: run_in_driver(pipeline, stream(spark, files), place).spark, place)


def in_driver_fused(pipeline: ev.Pipeline) -> Query:
    """The same on a fused scan: files are read and stamped in one step, in Python, and rows never cross the JVM."""

    def query(spark: SparkSession, files: Path, place: Path) -> Run:
        scan = ev.scan_parquet(str(files), files_per_batch=1, spark=spark)
        return timed(lambda: run_in_driver(pipeline, scan, place).spark, place)

    return query


def on_executors(pipeline: ev.Pipeline) -> Query:
    """``df.transform(pipeline)``, with state on the executors."""
    return in_spark(lambda spark, files: _panes(stream(spark, files).transform(pipeline)))


def on_executors_fused(pipeline: ev.Pipeline) -> Query:
    """The same on a fused scan."""
    return in_spark(lambda spark, files: _panes(ev.scan_parquet(str(files), files_per_batch=1).transform(pipeline)))


def in_spark(result: Callable[[SparkSession, Path], DataFrame], *, in_memory: bool = False) -> Query:
    """A streaming DataFrame, whose state is in RocksDB or in the JVM's heap."""

    def query(spark: SparkSession, files: Path, place: Path) -> Run:
        with in_memory_state(spark) if in_memory else nullcontext():
            panes = result(spark, files)
            return timed(lambda: run_in_spark(panes, place), place)

    return query


# What the end of a name says of where the state is and how rows are read; the first that fits.
_PLACEMENTS = {
    "_transform_fused": on_executors_fused,
    "_transform": on_executors,
    "_fused": in_driver_fused,
    "": in_driver,
}


def queries_of(names: Sequence[str], pipeline: ev.Pipeline) -> dict[str, Query]:
    """The pipeline in the placements that the names say."""
    chosen = {name: next(end for end in _PLACEMENTS if name.endswith(end)) for name in names}
    return {name: _PLACEMENTS[end](pipeline) for name, end in chosen.items()}


def _windows(names: Sequence[str], keys: int, pipeline: ev.Pipeline, window: Callable[[], Column]) -> list[Line]:
    table = own(window)

    def result(spark: SparkSession, files: Path) -> DataFrame:
        return table(stream(spark, files))

    # State in the heap is Spark's default. It is quicker as long as all of it fits.
    ways = {"rocksdb": in_spark(result), "in_memory": in_spark(result, in_memory=True)}
    return contest(data.events(keys), queries_of(names, pipeline), Peer("Spark's own", ways), table=table)


def _panes(panes: DataFrame) -> DataFrame:
    return panes.select("window_start", "window_end", KEY, "n", "total", "diff")


def _stream() -> ev.Stream:
    return ev.stream(time="ts", key=KEY, watermark=ev.bounded_delay("30 seconds"))
