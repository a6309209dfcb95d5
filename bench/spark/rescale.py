"""The state of five million open panes on its way through buckets, against one pass of reading and writing it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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

    from eventide.operators.redistribution import BucketSnapshot
    from eventide.spark.query_record import Placement

PANES = 5_000_000
PATH: tuple[int | str, ...] = (2, 4, 3, 8, "driver")


def rescale() -> Line:
    """Seconds of the slowest step of a path of buckets, against those to read the state and write its bytes unchanged.

    Then the query is drained, and its table is compared with that of a query that was never rescaled.
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
        counts = windows.agg(n=ev.count())

        def run(name: str, *, drain: bool = False) -> None:
            rows, sink = stream(spark, place / "source"), ev.sinks.files(place / name / "out")
            checkpoint = place / name / "checkpoint"
            counts.run(rows, sink=sink, checkpoint=checkpoint, available_now=True, state="driver", drain=drain)

        run("rescaled")
        checkpoint = place / "rescaled" / "checkpoint"
        details: dict[str, float] = {}
        before: int | str = "driver"
        panes, ratios, rates, once = [], [], [], 0.0
        for number, target in enumerate(PATH):
            begin = time.perf_counter()
            to: Placement | None = "driver" if target == "driver" else None
            buckets = None if isinstance(target, str) else target
            result = ev.rescale(checkpoint, buckets=buckets, to=to, spark=spark, on_progress=_show(begin))
            seconds = time.perf_counter() - begin
            if not number:  # the state is on the executors now
                once = _timed(lambda: _copy(spark, checkpoint, place / "copy"))
            rates.append(result.bytes / 1e6 / seconds)
            ratios.append(seconds / once)
            step = f"{before}_to_{target}"
            details |= {
                f"{step}_seconds": round(seconds, 2),
                f"{step}_mb_s": round(rates[-1], 2),
                f"{step}_ratio": round(ratios[-1], 2),
            }
            print(f"{step}: {seconds:.1f} s, {rates[-1]:.1f} MB/s", file=sys.stderr, flush=True)
            opened = [state.windows for state in ev.inspect(checkpoint, pipeline=counts, spark=spark)]
            panes.append(sum(int(state["keys"].sum()) for state in opened if state is not None))
            before = target
        run("rescaled", drain=True)
        run("stayed", drain=True)
        rescaled, stayed = (_bytes(_table(place / name / "out")) for name in ("rescaled", "stayed"))
        equal = rescaled == stayed == _bytes(_expected(place / "source"))
    size = result.bytes / 1e6
    return Line(
        "rescale",
        round(min(rates), 2),
        round(size / once, 2),
        "a copy of the state",
        round(max(ratios), 2),
        "MB/s",
        watch.total_mb,
        equal and set(panes) == {scaled(PANES)},
        {
            **details,
            "copy_seconds": round(once, 2),
            "state_mb": round(size, 1),
            "panes": scaled(PANES),
            "load_before": watch.load_before,
        },
    )


def _bytes(table: pl.DataFrame) -> bytes:
    """Return the table as bytes that are the same for equal tables."""
    return table.rechunk().write_ipc(None, compression="uncompressed").getvalue()


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


@dataclass(frozen=True)
class _Copied:
    """The state of an operator as it was read."""

    buckets: Sequence[BucketSnapshot]
    count: int
    tracker: BucketSnapshot | None


def _copy(spark: SparkSession, checkpoint: Path, target: Path) -> None:
    """Read the state of all buckets, and write it once as it is: into a state store of as many buckets."""
    from eventide.operators.redistribution import BucketSnapshot
    from eventide.spark.inspection import read_executor_state
    from eventide.spark.state_import import StateImport
    from eventide.spark.storage import LocalStorage

    copied = StateImport(spark, 0, LocalStorage(target))
    for operator in read_executor_state(spark, str(checkpoint)):
        buckets = [BucketSnapshot(head, operator.pages[bucket]) for bucket, head in sorted(operator.heads.items())]
        copied.add(_Copied(buckets, len(buckets), operator.tracker))
    copied.run()


def _timed(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def _show(begin: float) -> Callable[[str], None]:
    def show(step: str) -> None:
        print(f"{time.perf_counter() - begin:6.1f} s  {step}", file=sys.stderr, flush=True)

    return show
