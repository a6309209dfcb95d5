"""Lower the watermark of a stopped query: the check of its state, and the command that its next run applies."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
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
_PURGED_WHEN_COMPLETE = ("tumbling(", "calendar(", "global_window(")  # unless late rows are allowed


@dataclass(frozen=True)
class Repair:
    """The watermark before and after a repair, and the windows that are closed (None: the job is not known)."""

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
    """Return the batch that applies the last repair; -1 if there was none.

    Up to it, tasks must not use the watermark of the previous batch: late rows are detected where the state is.
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
    if is_purged_when_complete(operator.plan):
        return None
    return "the windows in its state must be checked. Name the job: --job job.py"


def is_purged_when_complete(fingerprint: Mapping[str, str]) -> bool:
    """Whether state has no windows that are complete, and the watermark follows the rows alone.

    Then no window in state conflicts with a lower watermark. ``fingerprint`` is the plan in the checkpoint.
    """
    window, strategy = fingerprint.get("window", ""), fingerprint.get("watermark", "")
    purged = window.startswith(_PURGED_WHEN_COMPLETE) and fingerprint["lateness"] == "0s"
    follows_clock = strategy.startswith(("processing_time(", "noted(")) or "at_latest=" in strategy
    return purged and not follows_clock and "state limits" not in fingerprint


def _closed(operator: OperatorState, pipeline: Pipeline | None, to: int) -> list[tuple[int, int]] | None:
    if pipeline is None:
        return None
    kind = pipeline.plan.window
    return closed_windows(kind, after=to, until=operator.watermark_us, started_by=instant(operator.at), limit=LIMIT + 1)


def _next_batch(storage: Storage) -> int:
    """Return the number of the first batch that is not logged yet, which will have the command."""
    return max((int(name) for name in storage.list("offsets") if name.isdecimal()), default=-1) + 1


def _no_repair(checkpoint: str, reason: str) -> PlanError:
    """Return the error about a watermark that cannot be lowered."""
    return PlanError(f"The watermark of the checkpoint {checkpoint!r} cannot be lowered: {reason}.")
