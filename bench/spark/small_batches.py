"""Time per batch of ten thousand rows when five million keys are open, against the same when fifty thousand are."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

import polars as pl

from bench.measure import Line
from bench.spark import data
from bench.spark.contestant import Answer, ContestantProcess, answer_requests
from bench.spark.machine import Watch
from bench.spark.settings import KEY, ROUNDS, scaled

BATCHES = 30
BATCH = 10_000
COUNTED = BATCHES - 5  # the first small batches pay for what the large ones before them left behind
MANY, FEW = 5_000_000, 50_000


def small_batches() -> Line:
    """Early panes on each batch, retracting, windows of an hour: every batch reads, changes and emits panes."""
    rounds = min(ROUNDS, 2)  # thirty batches each are enough for a mean
    runs: dict[int, list[Answer]] = {MANY: [], FEW: []}
    with Watch() as watch, ContestantProcess("bench.spark.small_batches") as process:
        process.ask(keys=FEW)  # warms up
        for number in range(rounds):
            for keys, answers in runs.items():
                answers.append(process.ask(keys=keys))
                print(f"{keys:,} keys, round {number + 1}: {answers[-1]}", file=sys.stderr, flush=True)
    ours, theirs = (min(run["mean"] for run in runs[keys]) for keys in (MANY, FEW))
    medians = [min(run["median"] for run in runs[keys]) for keys in (MANY, FEW)]
    return Line(
        "small_batches",
        round(ours, 1),
        round(theirs, 1),
        "itself on 50 thousand open keys",
        round(ours / theirs, 3),
        "ms/batch",
        watch.total_mb,
        all(run["equal"] for answers in runs.values() for run in answers),
        {
            "median": medians[0],
            "peer_median": medians[1],
            "rounds": rounds,
            "python_peak_rss_mb": watch.python_mb,
            "load_before": watch.load_before,
        },
    )


def _run(keys: int) -> Answer:
    import eventide as ev
    from bench.spark.queries import scratch, start_session, stream
    from bench.spark.sinks import batch_seconds, run_in_driver

    windows = ev.stream(time="ts", key=KEY, watermark=ev.bounded_delay("30 seconds")).window(ev.tumbling("1 hour"))
    early = windows.trigger(ev.after_watermark(early=ev.on_update(), late=ev.on_update()), mode="retracting")
    files = data.open_keys(scaled(keys), BATCHES, BATCH)
    with scratch("small-batches") as place:
        query = run_in_driver(early.agg(n=ev.count()), stream(start_session(), files), place)
        small = [1000 * seconds for seconds in batch_seconds(query.spark)[-COUNTED:]]
        # A mean as well: what a batch leaves to a later one must be paid for, too.
        return {
            "mean": statistics.mean(small),
            "median": statistics.median(small),
            "worst": max(small),
            "equal": _right(place / "out", files),
        }


def _right(out: Path, files: Path) -> bool:
    """Whether the panes sum to what is in the files."""
    panes = pl.scan_parquet(str(out / "**/*.parquet"), hive_partitioning=False)
    panes = panes.group_by(KEY, "n").agg(pl.col("diff").cast(pl.Int64).sum()).filter(pl.col("diff") != 0)
    truth = pl.scan_parquet(files / "*.parquet").group_by(KEY).agg(n=pl.len().cast(pl.Int64))
    expected = truth.with_columns(diff=pl.lit(1, pl.Int64))
    return panes.select(KEY, "n", "diff").sort(KEY).collect().equals(expected.sort(KEY).collect())


if __name__ == "__main__":
    answer_requests(_run)
