"""What one micro-batch costs with state in the driver, against Spark's own windows: both into files, median batch.

Each contestant runs in a process of its own, in turns, so that one cannot warm up or disturb the other. Every batch
has one late row: Spark drops it, Eventide writes it to the late output.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from bench.bounds import with_bounds
from bench.measure import Line
from bench.spark import data, settings
from bench.spark.contestant import ContestantProcess, answer_requests
from bench.spark.machine import Watch
from bench.spark.settings import KEY

ROUNDS = min(settings.ROUNDS, 3)


@dataclass(frozen=True)
class _Size:
    """A benchmark: rows per batch, how many batches there are, and how many of them the JVM compiles in."""

    rows: int
    batches: int = 40
    warm_up: int = 15
    plain: bool = False  # a session in which nothing is configured

    @property
    def minutes(self) -> int:
        """Minutes of event time whose windows both sides close; a batch has 20 seconds."""
        return self.batches // 4


SIZES = {
    "batch_cost_1k": _Size(1_000),
    "batch_cost_10k": _Size(10_000),
    "batch_cost_100k": _Size(100_000),
    "batch_cost_1m": _Size(1_000_000, 20, 8),
    "batch_cost_plain_session_1k": _Size(1_000, 6, 1, plain=True),
    "batch_cost_plain_session": _Size(100_000, 6, 1, plain=True),
    "batch_cost_plain_session_1m": _Size(1_000_000, 6, 1, plain=True),
}


def batch_cost(names: Sequence[str]) -> list[Line]:
    """Milliseconds of the median batch."""
    return [_line(name) for name in names]


def _line(name: str) -> Line:
    # In a session that is prepared, Spark's state may be in RocksDB or in the heap; the faster of the two is the peer.
    peers = ("spark",) if SIZES[name].plain else ("spark", "spark_in_memory")
    runs: dict[str, list[dict[str, Any]]] = {who: [] for who in (*peers, "eventide")}
    with Watch() as watch:
        for _ in range(1 if SIZES[name].plain else ROUNDS):
            for who, done in runs.items():
                done.append(_in_a_process(who, name))
                print(f"{name}, {who}: {done[-1]['median']:.0f} ms, first {done[-1]['first']:.0f} ms", file=sys.stderr)
    best = {who: min(run["median"] for run in done) for who, done in runs.items()}
    peer = min(peers, key=lambda who: best[who])
    equal = len({run["digest"] for done in runs.values() for run in done}) == 1
    details = {
        "first_batch": min(run["first"] for run in runs["eventide"]),
        "peer_first_batch": min(run["first"] for run in runs[peer]),
        **{f"peer_{who}": best[who] for who in peers},
        "late_rows": runs["eventide"][0]["late"],
        "load_before": watch.load_before,
    }
    return Line(
        name,
        round(best["eventide"], 1),
        round(best[peer], 1),
        "Spark's own" if peer == "spark" else "Spark's own, state in the heap",
        round(best["eventide"] / best[peer], 3),
        "ms/batch",
        watch.total_mb,
        equal,
        details,
    )


def _in_a_process(who: str, name: str) -> dict[str, Any]:
    with ContestantProcess("bench.spark.batch_cost", who) as process:
        return process.ask(name=name)


def _measure(who: str, name: str) -> dict[str, Any]:
    from bench.spark.queries import in_memory_state, plain_session, scratch, start_session, stream
    from bench.spark.sinks import batch_seconds

    size = SIZES[name]
    spark = plain_session() if size.plain else start_session()
    files = data.batches(size.rows, 1_000, size.batches)
    with scratch("batch-cost") as place, in_memory_state(spark) if who == "spark_in_memory" else nullcontext():
        query = (_run_eventide if who == "eventide" else _run_spark)(stream(spark, files), place)
        times = [1000 * seconds for seconds in batch_seconds(query)]
        late = list((place / "checkpoint/eventide/late").glob("*/*.parquet"))
        return {
            "median": statistics.median(times[size.warm_up :]),
            "first": times[0],
            "late": sum(pl.read_parquet(file).height for file in late),
            "digest": digest(place / "out", size.minutes),
        }


def _run_eventide(rows: Any, place: Path) -> Any:
    import eventide as ev
    from bench.spark.sinks import run_in_driver

    windows = ev.stream(time="ts", key=KEY, watermark=ev.bounded_delay("10 seconds")).window(ev.tumbling("1 minute"))
    return run_in_driver(windows.agg(n=ev.count(), total=ev.sum("value")), rows, place).spark


def _run_spark(rows: Any, place: Path) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    from bench.spark.sinks import run_in_spark

    windows = rows.withWatermark("ts", "10 seconds").groupBy(F.window("ts", "1 minute").alias("window"), KEY)
    return run_in_spark(windows.agg(F.count("*").alias("n"), F.sum("value").alias("total")), place)


def digest(place: Path, minutes: int) -> str:
    """What was written of the windows that both sides have closed by then, as one line."""
    panes = with_bounds(pl.read_parquet(str(place / "**/*.parquet"), hive_partitioning=False))
    micros = [pl.col(name).dt.timestamp("us") for name in ("start", "end")]  # Spark writes nanoseconds without a zone
    # Spark drops late rows by the watermark of the batch before the last one, so it keeps the first of them.
    end = data.BASE + minutes * data.MINUTE
    closed = panes.with_columns(micros).filter((pl.col("start") >= data.BASE) & (pl.col("end") <= end))
    table = closed.select("start", KEY, "n", "total").sort("start", KEY)
    return f"{table.height} {table['n'].sum()} {table['total'].sum()} {table.hash_rows(seed=7).sum()}"


if __name__ == "__main__":
    answer_requests(lambda name: _measure(sys.argv[1], name))
