"""How long a row takes from its file to its on-time pane in the sink, at ten thousand rows per second.

The parent process writes a small file every tenth of a second, with rows whose event time is the clock's, and looks for
complete directories in the sink. A row waits in any case for the file whose rows complete its window: ``floor`` is the
latency of a query that takes no time. The line also has the phases of the slowest batches, and of those that delivered
the slowest rows, next to those of the median batch: they explain the 99th percentile.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from bench.bounds import with_bounds
from bench.measure import Line
from bench.spark import settings
from bench.spark.batch_phases import BatchPhases, average, phases_of_query, slowest, typical, with_numbers
from bench.spark.contestant import ContestantProcess, answer_requests
from bench.spark.machine import Watch

RATE, EVERY = 10_000, 0.1  # rows per second, seconds between two files
KEYS = 100
WINDOW, LAG = 1, 0.1  # seconds
WARM_UP, COUNTED = 20.0, 40.0  # seconds; for the first ones the JVM compiles
ROUNDS = min(settings.ROUNDS, 2)
CONTESTANTS = ("spark", "spark_in_memory", "eventide")


def latency_end_to_end() -> Line:
    """Windows of a second over files that arrive: the median and the 99th percentile over all rows."""
    runs: dict[str, list[dict[str, Any]]] = {who: [] for who in CONTESTANTS}
    with Watch() as watch:
        for number in range(ROUNDS):
            for who, done in runs.items():
                done.append(_measured(who))
                print(f"{who}, round {number + 1}: {done[-1]}", file=sys.stderr, flush=True)
    best = {who: min(done, key=lambda run: run["p50"]) for who, done in runs.items()}
    peer = min(CONTESTANTS[:-1], key=lambda who: best[who]["p50"])
    ours, theirs = best["eventide"], best[peer]
    return Line(
        "latency_end_to_end",
        round(ours["p50"], 1),
        round(theirs["p50"], 1),
        "Spark's own" if peer == "spark" else "Spark's own, state in the heap",
        round(ours["p50"] / theirs["p50"], 3),
        "ms",
        watch.total_mb,
        all(run["equal"] for done in runs.values() for run in done),
        {
            "p99": round(ours["p99"], 1),
            "peer_p99": round(theirs["p99"], 1),
            "p99_ratio": round(ours["p99"] / theirs["p99"], 3),
            "floor": round(ours["floor_p50"], 1),
            "floor_p99": round(ours["floor_p99"], 1),
            "phases_ms": ours["phases"],
            "peer_phases_ms": theirs["phases"],
            "rows": ours["rows"],
            "rounds": ROUNDS,
            "load_before": watch.load_before,
        },
    )


def _measured(who: str) -> dict[str, Any]:
    from bench.spark.queries import scratch

    with scratch("latency") as place, ContestantProcess("bench.spark.latency", who) as process:
        (place / "source").mkdir()
        _write(place, 0, time.time())  # the schema
        process.ask(place=str(place), act="start")
        sink = _SinkTimes(place / "out", complete="" if who == "eventide" else "_SUCCESS")
        written = _feed(place)
        time.sleep(3)
        times = sink.stop()
        batches = [BatchPhases(**batch) for batch in process.ask(place=str(place), act="stop")["batches"]]
        return _latencies(place, written, times, batches)


def _feed(place: Path) -> pl.DataFrame:
    """Write files at the pace of the clock. Return what was written, and when each file appeared."""
    begin = time.time()
    rows = []
    for number in range(1, int((WARM_UP + COUNTED) / EVERY) + 1):
        due = begin + number * EVERY
        time.sleep(max(0.0, due - time.time()))
        rows.append(_write(place, number, due))
    first = rows[0]["written"][0] + WARM_UP
    return pl.concat(rows).filter(pl.col("written") >= first)


def _write(place: Path, number: int, due: float) -> pl.DataFrame:
    """Write the rows of the last moment into a file that appears at once. Return them with the time of that."""
    count = int(RATE * EVERY)
    micros = int(due * 1e6) - np.arange(count, 0, -1) * int(1e6 / RATE)
    key = np.random.default_rng([7, number]).integers(0, KEYS, count)
    rows = pl.DataFrame({"ts": pl.Series(micros).cast(pl.Datetime("us", "UTC")), "key": key})
    unfinished = place / f"{number}.parquet"
    rows.write_parquet(unfinished, compression="snappy")
    shutil.move(unfinished, place / "source" / f"{number:06d}.parquet")
    return rows.with_columns(written=pl.lit(time.time()))


class _SinkTimes(threading.Thread):
    """Notes when the directory of each batch is complete in the sink."""

    def __init__(self, folder: Path, complete: str) -> None:
        super().__init__(daemon=True)
        self._folder = folder
        self._complete = complete  # the file that says so, or the directory itself
        self._times: dict[str, float] = {}
        self._ended = threading.Event()
        self.start()

    def run(self) -> None:
        while not self._ended.wait(0.005):
            for batch in self._folder.glob("batch=*"):
                if batch.name not in self._times and (batch / self._complete).exists():
                    self._times[batch.name] = time.time()

    def stop(self) -> dict[str, float]:
        self._ended.set()
        self.join()
        return self._times


def _latencies(
    place: Path, written: pl.DataFrame, times: dict[str, float], batches: Sequence[BatchPhases]
) -> dict[str, Any]:
    panes = [
        with_bounds(pl.read_parquet(str(place / "out" / name / "*.parquet"), hive_partitioning=False)).select(
            pl.col("start").dt.timestamp("us"), "key", "n", at=pl.lit(at), batch=pl.lit(_number(name))
        )
        for name, at in times.items()
    ]
    emitted = pl.concat([frame for frame in panes if frame.height])
    start = pl.col("ts").dt.truncate(f"{WINDOW}s").dt.timestamp("us").alias("start")
    rows = written.with_columns(start).join(emitted, on=["start", "key"], how="inner")
    counts = rows.group_by("start", "key").agg(n=pl.col("n").first(), rows=pl.len())
    inner = pl.col("start").is_between(counts["start"].min(), counts["start"].max(), closed="none")
    last = written["ts"].dt.timestamp("us").max()
    assert isinstance(last, int)
    due = written.with_columns(start).filter(pl.col("start") + (WINDOW + LAG) * 1e6 < last - 1e6)
    waited = (rows["at"] - rows["written"]) * 1000
    floor = _floor(written, rows)
    p99 = waited.quantile(0.99)
    assert p99 is not None
    warm = with_numbers(batches, range(rows["batch"].min(), rows["batch"].max() + 1))  # type: ignore[operator,arg-type]
    late = with_numbers(warm, rows.filter(waited >= p99)["batch"].unique().to_list())
    return {
        "p50": waited.quantile(0.5),
        "p99": p99,
        "floor_p50": floor.quantile(0.5),
        "floor_p99": floor.quantile(0.99),
        "rows": rows.height,
        "phases": {
            "batches": len(warm),
            "median_batch": typical(warm),
            "slowest_hundredth": average(slowest(warm)),
            "batches_of_slowest_rows": average(late),
        },
        # Every window that is over has its pane, once, with all of its rows.
        "equal": rows.height >= due.height
        and not emitted.select("start", "key").is_duplicated().any()
        and counts.filter(inner & (pl.col("n") != pl.col("rows"))).is_empty(),
    }


def _floor(written: pl.DataFrame, rows: pl.DataFrame) -> pl.Series:
    """Return the milliseconds from each row to the file whose newest row completes the window of the row."""
    files = written.group_by("written").agg(newest=pl.col("ts").dt.timestamp("us").max()).sort("newest")
    complete = rows.select("written", newest=pl.col("start") + int((WINDOW + LAG) * 1e6)).sort("newest")
    passed = complete.join_asof(files.rename({"written": "passed"}), on="newest", strategy="forward").drop_nulls()
    return (passed["passed"] - passed["written"]) * 1000


def _number(directory: str) -> int:
    return int(directory.partition("=")[2])


_queries: dict[str, Any] = {}


def _answer(place: str, act: str) -> dict[str, Any]:
    if act == "start":
        _queries[place] = _start(Path(place))
        return {}
    query = _queries.pop(place)
    spark = getattr(query, "spark", query)
    spark.processAllAvailable()  # Spark fills the log with errors if it stops within a batch
    spark.stop()
    batches = phases_of_query(spark.recentProgress, getattr(query, "history", ()))
    return {"batches": [{"batch": batch.batch, "phases": dict(batch.phases)} for batch in batches]}


def _start(place: Path) -> Any:
    from contextlib import nullcontext

    from pyspark.sql import functions as F  # noqa: N812

    import eventide as ev
    from bench.spark.queries import in_memory_state, start_session
    from bench.spark.sinks import run_in_driver, run_in_spark

    spark = start_session()
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "10000")  # of all batches
    rows = spark.readStream.schema("ts timestamp, key bigint").parquet(str(place / "source"))
    if sys.argv[1] == "eventide":
        windows = ev.stream(time="ts", key="key", watermark=ev.bounded_delay(f"{LAG * 1000:.0f} milliseconds"))
        pipeline = windows.window(ev.tumbling(f"{WINDOW} second")).agg(n=ev.count())
        return run_in_driver(pipeline, rows, place, interval="0 seconds")
    windowed = rows.withWatermark("ts", f"{LAG * 1000:.0f} milliseconds")
    groups = windowed.groupBy(F.window("ts", f"{WINDOW} second").alias("window"), "key")
    with in_memory_state(spark) if sys.argv[1] == "spark_in_memory" else nullcontext():
        return run_in_spark(groups.agg(F.count("*").alias("n")), place, interval="0 seconds")


if __name__ == "__main__":
    answer_requests(_answer)
