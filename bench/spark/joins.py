"""Interval joins against Spark's own join of two streams, on the same files, in the same session."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import polars as pl
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import eventide as ev
from bench.measure import Line
from bench.spark import data
from bench.spark.contest import say
from bench.spark.machine import Watch
from bench.spark.queries import Run, run, scratch, start_session, stream
from bench.spark.settings import ENOUGH_SECONDS, KEY, ROUNDS, scaled

Join = Callable[[SparkSession], DataFrame]

# So near that a row matches about two others on average, for any number of keys: results do not explode.
NEAR = {100_000: 60_000, 100: 600}  # milliseconds
# Of both sides together. Spark's own looks at all rows of a key that it keeps for each row that comes, so with few keys
# it takes few rows.
ROWS = {100_000: 2_000_000, 100: 200_000}
BATCHES, BATCH = 200, 5_000


def interval_join(names: Sequence[str], keys: int) -> list[Line]:
    """Inner join of two streams with equal keys and near times; each side has ten files."""
    left, right = (data.side(side, scaled(ROWS[keys] // 2), keys) for side in ("left", "right"))
    (name,) = names
    near = NEAR[keys]
    pipeline = _pipeline(near)

    def ours(spark: SparkSession) -> DataFrame:
        return pipeline(stream(spark, left), stream(spark, right)).select(KEY, "ts", "value", "ts_right", "value_right")

    def theirs(spark: SparkSession) -> DataFrame:
        first, other = (
            stream(spark, files).withWatermark("ts", "30 seconds").select("ts", KEY, "value") for files in (left, right)
        )
        renamed = {"ts": "ts_right", KEY: "other", "value": "value_right"}
        other = other.select(*(F.col(name).alias(new) for name, new in renamed.items()))
        low, high = (F.expr(f"INTERVAL {sign}{near} MILLISECONDS") for sign in ("-", ""))
        meet = (F.col(KEY) == F.col("other")) & F.col("ts_right").between(F.col("ts") + low, F.col("ts") + high)
        return first.join(other, meet).select(KEY, "ts", "value", "ts_right", "value_right")

    runs: dict[Join, list[Run]] = {ours: [], theirs: []}
    with Watch() as watch:
        spark = start_session()
        _race(spark, {name: ours, "Spark's own": theirs}, runs)
        equal, pairs = _agree(spark, ours, theirs)
    best = {query: min(run.seconds for run in mine) for query, mine in runs.items()}
    rows = data.rows_in(left) + data.rows_in(right)
    cpu = [min(entry.cpu for entry in run) / rows * 1_000_000 for run in runs.values()]
    return [
        Line(
            name,
            round(rows / best[ours]),
            round(rows / best[theirs]),
            "Spark's join of two streams",
            round(best[theirs] / best[ours], 3),
            "rows/s",
            watch.total_mb,
            equal,
            {
                "pairs": pairs,
                "cpu_s_per_million": round(cpu[0], 2),
                "peer_cpu_s_per_million": round(cpu[1], 2),
                "rounds": len(runs[ours]),
                "python_peak_rss_mb": watch.python_mb,
                "load_before": watch.load_before,
            },
        )
    ]


def long_join() -> Line:
    """Two hundred batches: what a batch costs at the end, against what it cost at the beginning; and its state."""
    left, right = (data.side(side, BATCHES * BATCH, 10_000, files=BATCHES) for side in ("left", "right"))
    pipeline = _pipeline(10_000)
    with Watch() as watch, scratch("checkpoint") as checkpoint:
        spark = start_session()
        pairs: list[int] = []
        query = pipeline.run(
            {"left": stream(spark, left), "right": stream(spark, right)},
            sink=lambda batch, number: pairs.append(batch.count()),
            late=ev.sinks.noop(),
            dead=ev.sinks.noop(),
            checkpoint=str(checkpoint),
            available_now=True,
            drain=True,
            state="driver",
        )
        batches = [batch for batch in query.history if batch.rows]
    expected = _pairs(left, right, 10_000)
    times = [(after.at - before.at) / timedelta(milliseconds=1) for before, after in pairwise(batches)]
    early, late = (statistics.mean(times[lo : lo + 50]) for lo in (20, len(times) - 50))
    state = [batch.state_bytes for batch in batches]
    return Line(
        "long_join",
        round(late, 1),
        round(early, 1),
        "itself at the beginning",
        round(late / early, 3),
        "ms/batch",
        watch.total_mb,
        sum(pairs) == expected,
        {
            "batches": len(batches),
            "state_bytes": max(state[-50:]),
            "state_bytes_at_the_beginning": max(state[20:70]),
            "rows_kept": max(batch.open_windows for batch in batches[-50:]),
            "rows_kept_at_the_beginning": max(batch.open_windows for batch in batches[20:70]),
            "pairs": expected,
            "load_before": watch.load_before,
        },
    )


def _pipeline(near: int) -> ev.Pipeline:
    first, other = (ev.stream(time="ts", key=KEY, watermark=ev.bounded_delay("30 seconds")) for _ in range(2))
    return ev.join(first, other, within=f"{near} milliseconds")


def _race(spark: SparkSession, names: dict[str, Join], runs: dict[Join, list[Run]]) -> None:
    for name, query in names.items():
        say(f"{name}, warm-up", run(query(spark)))
    begin = time.perf_counter()
    for i in range(ROUNDS):
        for name, query in names.items():
            runs[query].append(run(query(spark)))
            say(f"{name}, round {i + 1}", runs[query][-1])
        if time.perf_counter() - begin > ENOUGH_SECONDS:
            return


def _agree(spark: SparkSession, ours: Join, theirs: Join) -> tuple[bool, int]:
    """Both once more, with results kept: the same pairs, each as often."""
    with scratch("results") as results:
        tables = []
        for name, query in (("ours", ours), ("theirs", theirs)):
            run(query(spark), to=results / name)
            rows = pl.read_parquet(results / name / "*.parquet")
            tables.append(rows.sort(rows.columns))
    return tables[0].equals(tables[1]), tables[0].height


def _pairs(left: Path, right: Path, near: int) -> int:
    """How many pairs there are, found without any streaming."""
    first, other = (pl.read_parquet(files / "*.parquet").select("ts", KEY) for files in (left, right))
    both = first.join(other, on=KEY)
    return both.filter((pl.col("ts_right") - pl.col("ts")).abs() <= pl.duration(milliseconds=near)).height
