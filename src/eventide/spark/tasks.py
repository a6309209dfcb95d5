"""What a task knows of itself, told by Spark."""

from __future__ import annotations

from dataclasses import dataclass

from eventide.spark.clock import BATCH_TIME
from eventide.time import MIN

WATERMARK = "eventide.watermark"
"""The local property by which the driver sends the watermark to the tasks of a batch."""


@dataclass(frozen=True)
class Task:
    """A task of a micro-batch; outside of a streaming query there is no batch."""

    number: int
    attempt: int
    batch: int | None
    run: str
    watermark: int | None = None  # of the first operator when the batch began, where the driver keeps the state
    now: int = MIN  # the batch's time, where the host hands it to its tasks


def this_task() -> Task:
    """The task that this code runs in."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    batch = context.getLocalProperty("streaming.sql.batchId")
    run = context.getLocalProperty("spark.jobGroup.id") or ""
    watermark = context.getLocalProperty(WATERMARK)
    now = context.getLocalProperty(BATCH_TIME)
    return Task(
        context.partitionId(),
        context.taskAttemptId(),
        None if batch is None else int(batch),
        run,
        None if watermark is None else int(watermark),
        MIN if now is None else int(now),
    )
