"""The time of a batch as Spark has logged it: a batch that is run again has the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import Column, SparkSession

BATCH_TIME = "eventide.batchTime"
"""A local property of jobs: the time of the batch in microseconds."""


def batch_time() -> Column:
    """In microseconds: for rows that are few (pages, names of files), and where ``set_batch_time`` cannot be used.

    Spark writes the time into the Java code that it generates, so every batch would have code of its own to compile, in
    the driver and in the tasks. It generates none for what is sorted, which takes longer for each row.
    """
    from pyspark.sql import functions as F  # noqa: N812

    return F.element_at(F.array_sort(F.array(F.unix_micros(F.current_timestamp()))), 1)


def set_batch_time(spark: SparkSession, checkpoint: Path, batch: int) -> None:
    """Hand the time of a batch to the tasks of the jobs that this thread starts, from Spark's log of offsets.

    For ``foreachBatch``, which runs the batch: a column with the time would cost more than the columns of a row.
    """
    _, metadata, *_ = (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").split("\n")
    spark.sparkContext.setLocalProperty(BATCH_TIME, str(json.loads(metadata)["batchTimestampMs"] * 1000))
