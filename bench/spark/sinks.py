"""Whole queries into Parquet files, a directory for each batch: the same sink on both sides."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

import eventide as ev

AVAILABLE_NOW = "available_now"


def run_in_driver(
    pipeline: ev.Pipeline | Sequence[ev.Pipeline], rows: Any, place: Path, *, trigger: str = AVAILABLE_NOW
) -> ev.Query:
    """Run Eventide with state in the driver: panes go to ``out``, the state to ``checkpoint``."""
    return ev.run(
        pipeline,
        rows,
        panes=ev.sinks.files(place / "out"),
        checkpoint=place / "checkpoint",
        trigger=trigger,
        state="driver",
    )


def run_in_spark(
    result: DataFrame, place: Path, *, mode: str = "append", trigger: str = AVAILABLE_NOW
) -> StreamingQuery:
    """Run Spark's own operators, with ``foreachBatch`` into the same places."""

    def write(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(str(place / "out" / f"batch={number}"))

    writer = result.writeStream.foreachBatch(write).outputMode(mode)
    writer = writer.option("checkpointLocation", str(place / "checkpoint"))
    if trigger != AVAILABLE_NOW:
        return writer.trigger(processingTime=trigger).start()
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query
