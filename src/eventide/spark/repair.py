"""Lower the watermark of a stopped query: the check of its state, and the command that its next run applies."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from eventide._paths import local_path
from eventide.errors import PlanError
from eventide.operators.watermark_reset import closed_windows, reset_problem, reset_problem_of_time
from eventide.panes import WINDOW_END, WINDOW_START
from eventide.plan.pipeline import Pipeline
from eventide.spark.control import Control
from eventide.spark.control_status import is_running
from eventide.spark.inspection import OperatorState, inspect
from eventide.spark.storage import Storage, read_text
from eventide.time import instant

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIMIT = 20
"""Closed windows that are listed."""

_NOTE = "eventide/repaired"
_KEEP_NOTHING_COMPLETE = ("tumbling", "calendar", "global")  # without lateness, what is complete leaves state


@dataclass(frozen=True)
class Repair:
    """What a repair does: the watermark before and after, and windows that closed (None: the job is not known)."""

    before: int
    after: int
    closed: Sequence[tuple[int, int]] | None


def repair(
    checkpoint: str | Path,
    watermark: int,
    *,
    pipeline: Pipeline | None = None,
    spark: SparkSession,
) -> Repair:
    """Lower the watermark of the stopped query of a checkpoint to ``watermark``, with its next run.

    With the ``pipeline`` that it runs, state is checked window by window and closed windows are listed.
    """
    address = os.fspath(checkpoint)
    local = local_path(address, spark)
    if local is not None and is_running(local / "eventide"):
        raise PlanError(f"A query is running on the checkpoint {address!r}. Stop it, then repair it.")
    operators = inspect(checkpoint, pipeline=pipeline, spark=spark)
    if len(operators) > 1:
        raise _no_repair(address, f"it belongs to a chain of {len(operators)} pipelines, which would disagree")
    (operator,) = operators
    problem = _problem(operator, pipeline, watermark)
    if problem is not None:
        raise _no_repair(address, problem)
    control = Control(checkpoint, spark)
    control.storage.replace(_NOTE, f"{_next_batch(control.storage)}\n".encode())
    control.lower_watermark(watermark)
    return Repair(operator.watermark_us, watermark, _closed(operator, pipeline, watermark))


def repaired_in(storage: Storage) -> int:
    """The batch that applies the last repair; -1 where there was none.

    Up to it, tasks must not use the watermark that they know from the batch before: rows are judged next to the state.
    """
    batch = read_text(storage, _NOTE)
    return -1 if batch is None else int(batch)


def _problem(operator: OperatorState, pipeline: Pipeline | None, to: int) -> str | None:
    if pipeline is not None:
        windows = operator.windows
        assert windows is not None
        bounds = windows.select(start=pl.col(WINDOW_START).to_physical(), end=pl.col(WINDOW_END).to_physical())
        return reset_problem(pipeline.plan, bounds, watermark=operator.watermark_us, to=to)
    problem = reset_problem_of_time(operator.watermark_us, to)
    if problem is not None:
        return problem
    window, rule = operator.plan.get("window", ""), operator.plan.get("watermark", "")
    known = window.startswith(_KEEP_NOTHING_COMPLETE) and operator.plan.get("lateness") == "0"
    clocked = rule.startswith(("processing time", "as noted")) or "behind the clock" in rule
    if known and not clocked and "state limits" not in operator.plan:
        return None
    return "the windows in its state must be looked at. Name the job: --job job.py"


def _closed(operator: OperatorState, pipeline: Pipeline | None, to: int) -> list[tuple[int, int]] | None:
    if pipeline is None:
        return None
    kind = pipeline.plan.window
    return closed_windows(kind, after=to, until=operator.watermark_us, started_by=instant(operator.at), limit=LIMIT + 1)


def _next_batch(storage: Storage) -> int:
    """The number of the first batch that is not logged yet, which will have the command."""
    return max((int(name) for name in storage.list("offsets") if name.isdecimal()), default=-1) + 1


def _no_repair(checkpoint: str, reason: str) -> PlanError:
    """A watermark that cannot be lowered."""
    return PlanError(f"The watermark of the checkpoint {checkpoint!r} cannot be lowered: {reason}.")
