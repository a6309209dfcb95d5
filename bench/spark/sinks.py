"""Whole queries into Parquet files, a directory for each batch: the same sink on both sides."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

import eventide as ev
from bench.spark.data import rows_in
from bench.spark.machine import cpu_seconds
from bench.spark.queries import Run


def run_in_driver(pipeline: ev.Pipeline, rows: Any, place: Path, *, interval: str | None = None) -> ev.Query:
    """Run Eventide with state in the driver: panes go to ``out``, the state to ``checkpoint``.

    Without ``interval``, the query ends with the data.
    """
    return pipeline.run(
        rows,
        sink=ev.sinks.files(place / "out"),
        checkpoint=place / "checkpoint",
        interval=interval,
        available_now=interval is None,
        state="driver",
    )


def run_in_spark(
    result: DataFrame, place: Path, *, mode: str = "append", interval: str | None = None
) -> StreamingQuery:
    """Run Spark's own operators, with ``foreachBatch`` into the same places."""

    def write(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(str(place / "out" / f"batch={number}"))

    writer = result.writeStream.foreachBatch(write).outputMode(mode)
    writer = writer.option("checkpointLocation", str(place / "checkpoint"))
    if interval is not None:
        return writer.trigger(processingTime=interval).start()
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def timed(run: Callable[[], StreamingQuery], place: Path) -> Run:
    """Run a query to its end, from its start on the clock."""
    begin, used = time.perf_counter(), cpu_seconds()
    query = run()
    seconds, used = time.perf_counter() - begin, cpu_seconds() - used
    return Run(seconds, used, tuple(batch_seconds(query)), rows_in(place / "out"))


def batch_seconds(query: StreamingQuery) -> list[float]:
    """Return the seconds of each batch with rows. Where the driver reads files by itself, Spark counts no rows."""
    batches = [progress for progress in query.recentProgress if "addBatch" in progress["durationMs"]]
    with_rows = [batch for batch in batches if batch["numInputRows"]] or batches
    return [progress["durationMs"]["triggerExecution"] / 1000 for progress in with_rows]
