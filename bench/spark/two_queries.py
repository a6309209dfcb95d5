"""Time per batch of a query while another query of the same driver computes in Python, against the same query alone."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.measure import Line
from bench.spark import data
from bench.spark.contestant import Answer, ContestantProcess, answer_requests
from bench.spark.machine import Watch
from bench.spark.settings import KEY, ROUNDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCHES, WARM_UP = 40, 15
BATCH = 1_000
BUSY_SECONDS = 2.0


def two_queries() -> Line:
    """Milliseconds of the median batch of a thousand rows."""
    rounds = min(ROUNDS, 2)
    runs: dict[bool, list[Answer]] = {True: [], False: []}
    with Watch() as watch, ContestantProcess("bench.spark.two_queries") as process:
        process.ask(beside=False)  # warms up
        for number in range(rounds):
            for beside, answers in runs.items():
                answers.append(process.ask(beside=beside))
                print(f"beside another: {beside}, round {number + 1}: {answers[-1]}", file=sys.stderr, flush=True)
    median, alone = (min(run["median"] for run in runs[with_other]) for with_other in (True, False))
    return Line(
        "two_queries",
        round(median, 1),
        round(alone, 1),
        "itself alone",
        round(median / alone, 3),
        "ms/batch",
        watch.total_mb,
        all(run["rows"] == runs[False][0]["rows"] for answers in runs.values() for run in answers),
        {"rounds": rounds, "load_before": watch.load_before},
    )


def _run(beside: bool) -> Answer:
    from bench.spark.queries import scratch, start_session, stream
    from bench.spark.sinks import batch_seconds, run_in_driver

    spark = start_session()
    files = data.batches(BATCH, 1_000, BATCHES)
    with scratch("two-queries") as place, busy_query(spark, files, place) if beside else nullcontext():
        query = run_in_driver(_pipeline(), stream(spark, files), place)
        times = [1000 * seconds for seconds in batch_seconds(query.spark)[WARM_UP:]]
        return {"median": statistics.median(times), "worst": max(times), "rows": data.rows_in(place / "out")}


def _pipeline() -> Any:
    import eventide as ev

    windows = ev.stream(time="ts", key=KEY, watermark=ev.bounded_delay("10 seconds")).window(ev.tumbling("1 minute"))
    return windows.agg(n=ev.count(), total=ev.sum("value"))


@contextmanager
def busy_query(spark: SparkSession, files: Path, place: Path) -> Iterator[None]:
    """A query whose sink computes in Python, without a pause, in every batch."""
    from bench.spark.queries import stream

    def compute(batch: Any, number: int) -> None:
        until = time.perf_counter() + BUSY_SECONDS
        while time.perf_counter() < until:
            sum(range(1000))

    query = _pipeline().run(stream(spark, files), sink=compute, checkpoint=place / "busy", interval="0 seconds")
    try:
        yield
    finally:
        query.stop()


if __name__ == "__main__":
    answer_requests(_run)
