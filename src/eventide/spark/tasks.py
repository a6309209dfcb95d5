"""What a task knows of itself, told by Spark."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """A task of a micro-batch; outside of a streaming query there is no batch."""

    number: int
    attempt: int
    batch: int | None
    run: str


def this_task() -> Task:
    """The task that this code runs in."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    batch = context.getLocalProperty("streaming.sql.batchId")
    run = context.getLocalProperty("spark.jobGroup.id") or ""
    return Task(context.partitionId(), context.taskAttemptId(), None if batch is None else int(batch), run)
