"""The state of five million open panes, divided into other buckets, against one pass of reading and writing it."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from bench.bounds import with_bounds
from bench.measure import Line
from bench.spark import data
from bench.spark.machine import Watch
from bench.spark.settings import KEY, scaled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from eventide.spark.query_record import Placement

PANES = 5_000_000
BEFORE, AFTER = 2, 4


def rescale() -> Line:
    """Seconds to rescale from two buckets to four, against those to read the state and write its bytes unchanged.

    Then the query is drained, and its table is compared with one that Polars computes from the rows.
    """
    import eventide as ev
    from bench.spark.queries import scratch, start_session, stream
    from eventide.spark.buckets import BUCKETS

    files = sorted(data.open_keys(scaled(PANES), 1, 1).glob("*.parquet"))[:-1]
    with Watch() as watch, scratch("rescale") as place:
        spark = start_session()
        spark.conf.unset(BUCKETS)
        (place / "source").mkdir(parents=True)
        for file in files:
            os.link(file, place / "source" / file.name)
        windows = ev.stream(time="ts", key=KEY, watermark=ev.bounded_delay("30 seconds")).window(ev.tumbling("1 hour"))
        counts, checkpoint = windows.agg(n=ev.count()), place / "checkpoint"

        def run(state: Placement, *, drain: bool = False) -> None:
            rows, sink = stream(spark, place / "source"), ev.sinks.files(place / "out")
            counts.run(rows, sink=sink, checkpoint=checkpoint, available_now=True, state=state, drain=drain)

        run("driver")
        first = _timed(lambda: ev.rescale(checkpoint, buckets=BEFORE, spark=spark))
        print(f"from the driver to {BEFORE} buckets: {first:.1f} s", file=sys.stderr, flush=True)
        once = _timed(lambda: _copy(spark, checkpoint, place / "copy"))
        begin = time.perf_counter()
        result = ev.rescale(checkpoint, buckets=AFTER, spark=spark, on_progress=_show(begin))
        seconds = time.perf_counter() - begin
        opened = [state.windows for state in ev.inspect(checkpoint, pipeline=counts, spark=spark)]
        panes = sum(int(state["keys"].sum()) for state in opened if state is not None)
        run("executors", drain=True)
        equal = _table(place / "out").equals(_expected(place / "source"))
    size = result.bytes / 1e6
    return Line(
        "rescale",
        round(size / seconds, 2),
        round(size / once, 2),
        "a copy of the state",
        round(seconds / once, 2),
        "MB/s",
        watch.total_mb,
        equal and panes == scaled(PANES) and list(result.buckets) == [AFTER],
        {
            "seconds": round(seconds, 2),
            "copy_seconds": round(once, 2),
            "state_mb": round(size, 1),
            "panes": panes,
            "load_before": watch.load_before,
        },
    )


def _table(place: Path) -> pl.DataFrame:
    """Return the table that the rescaled query has written."""
    panes = with_bounds(pl.read_parquet(str(place / "**/*.parquet"), hive_partitioning=False))
    start = pl.col("start").dt.timestamp("us")
    table = panes.group_by(KEY, start, "n").agg(pl.col("diff").cast(pl.Int64).sum()).filter(pl.col("diff") != 0)
    return table.select(KEY, "start", "n").cast({"n": pl.Int64}).sort(KEY, "start")


def _expected(source: Path) -> pl.DataFrame:
    """Return the table of a query that never moved, computed from its rows without Eventide."""
    rows = pl.scan_parquet(source / "*.parquet")
    start = pl.col("ts").dt.truncate("1h").dt.timestamp("us").alias("start")
    return rows.group_by(KEY, start).agg(pl.len().cast(pl.Int64).alias("n")).sort(KEY, "start").collect()


def _copy(spark: SparkSession, checkpoint: Path, target: Path) -> None:
    """Read the state of all buckets, and write it once as it is: into a state store of as many buckets."""
    from eventide.operators.redistribution import BucketSnapshot, DividedState
    from eventide.spark.inspection import read_executor_state
    from eventide.spark.state_import import import_state

    stored = read_executor_state(spark, str(checkpoint))
    operators = [
        DividedState(
            [BucketSnapshot(head, dict(operator.pages[bucket])) for bucket, head in sorted(operator.heads.items())],
            operator.tracker,
        )
        for operator in stored
    ]
    shutil.rmtree(target, ignore_errors=True)
    import_state(spark, operators, 0, work=target)


def _timed(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def _show(begin: float) -> Callable[[str], None]:
    def show(step: str) -> None:
        print(f"{time.perf_counter() - begin:6.1f} s  {step}", file=sys.stderr, flush=True)

    return show
