"""Time per batch of ten thousand rows when five million keys are open, against the same when fifty thousand are."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

import polars as pl
from pyspark.sql import DataFrame

import eventide as ev
from bench.measure import Line
from bench.spark import data
from bench.spark.contest import say
from bench.spark.machine import Watch
from bench.spark.queries import Run, run, scratch, start_session, stream
from bench.spark.settings import KEY, ROUNDS, scaled

BATCHES = 30
BATCH = 10_000


def small_batches() -> Line:
    """Early panes on each batch, retracting, windows of an hour: every batch reads, changes and tells panes."""
    rows = ev.stream(time="ts", key=KEY, watermark=ev.lag("30 seconds")).window(ev.tumbling("1 hour"))
    early = rows.trigger(ev.after_watermark(early=ev.each(), late=ev.each())).retracting()
    pipeline = early.agg(n=ev.count())
    many, few = data.open_keys(scaled(5_000_000), BATCHES, BATCH), data.open_keys(scaled(50_000), BATCHES, BATCH)
    with Watch() as watch:
        spark = start_session()

        def panes(files: Path) -> DataFrame:
            return stream(spark, files).transform(pipeline).select("window", KEY, "n", "diff")

        run(panes(data.head(few, 3)))
        rounds = min(ROUNDS, 2)  # thirty batches each are enough to tell a mean
        runs: dict[Path, list[Run]] = {many: [], few: []}
        for i in range(rounds):
            for files in runs:
                runs[files].append(run(panes(files)))
                say(f"{files.name}, round {i + 1}", runs[files][-1])
        equal = all(_right(panes, files) for files in runs)
    ours, theirs = (min(_small(one) for one in runs[files]) for files in (many, few))
    medians = [min(statistics.median(one.batches[-BATCHES + 1 :]) for one in runs[files]) for files in (many, few)]
    return Line(
        "small_batches",
        round(ours * 1000, 1),
        round(theirs * 1000, 1),
        "itself on 50 thousand open keys",
        round(ours / theirs, 3),
        "ms/batch",
        watch.total_mb,
        equal,
        {
            "median": round(medians[0] * 1000, 1),
            "peer_median": round(medians[1] * 1000, 1),
            "rounds": rounds,
            "python_peak_rss_mb": watch.python_mb,
            "load_before": watch.load_before,
        },
    )


def _small(one: Run) -> float:
    """Mean seconds of the small batches; a mean, because what a batch leaves to a later one is to be paid too.

    The first is left out: it pays for what the large ones before it left behind.
    """
    return statistics.mean(one.batches[-BATCHES + 1 :])


def _right(panes: Callable[[Path], DataFrame], files: Path) -> bool:
    """Whether the panes sum to what is in the files."""
    with scratch("results") as results:
        run(panes(files), to=results / "panes")
        told = pl.scan_parquet(results / "panes" / "*.parquet")
        told = told.group_by(KEY, "n").agg(pl.col("diff").cast(pl.Int64).sum()).filter(pl.col("diff") != 0)
        truth = pl.scan_parquet(files / "*.parquet").group_by(KEY).agg(n=pl.len().cast(pl.Int64))
        expected = truth.with_columns(diff=pl.lit(1, pl.Int64))
        return told.select(KEY, "n", "diff").sort(KEY).collect().equals(expected.sort(KEY).collect())
