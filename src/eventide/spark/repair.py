"""Lower the watermark of a stopped query: the check of its state, and the command that its next run applies."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eventide.errors import spark as errors
from eventide.operators.watermark_reset import closed_windows, reset_problem, reset_problem_of_time
from eventide.plan.pipeline import Pipeline
from eventide.spark.addresses import local_path
from eventide.spark.control import Control
from eventide.spark.control_status import is_running
from eventide.spark.inspecting import OperatorState, inspect
from eventide.spark.storage import Storage, read_text

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
    pipeline: Pipeline | Sequence[Pipeline] | None = None,
    spark: SparkSession,
) -> Repair:
    """Lower the watermark of the stopped query of a checkpoint to ``watermark``, with its next run.

    With the ``pipeline`` that it runs, state is checked window by window and closed windows are listed.
    """
    address = os.fspath(checkpoint)
    local = local_path(address, spark)
    if local is not None and is_running(local / "eventide"):
        raise errors.still_running(address)
    chain = [pipeline] if isinstance(pipeline, Pipeline) else list(pipeline or ())
    operators = inspect(checkpoint, pipeline=chain, spark=spark)
    if len(operators) > 1:
        raise errors.no_repair(address, f"it belongs to a chain of {len(operators)} pipelines, which would disagree")
    (operator,) = operators
    problem = _problem(operator, chain, watermark)
    if problem is not None:
        raise errors.no_repair(address, problem)
    control = Control(checkpoint, spark)
    control.storage.replace(_NOTE, f"{_next_batch(control.storage)}\n".encode())
    control.lower_watermark(watermark)
    return Repair(operator.watermark, watermark, _closed(operator, chain, watermark))


def repaired_in(storage: Storage) -> int:
    """The batch that applies the last repair; -1 where there was none.

    Up to it, tasks must not use the watermark that they know from the batch before: rows are judged next to the state.
    """
    batch = read_text(storage, _NOTE)
    return -1 if batch is None else int(batch)


def _problem(operator: OperatorState, chain: Sequence[Pipeline], to: int) -> str | None:
    if chain:
        windows = operator.windows
        assert windows is not None
        bounds = windows.select("start", "end")
        return reset_problem(chain[0].plan, bounds, watermark=operator.watermark, to=to)
    problem = reset_problem_of_time(operator.watermark, to)
    if problem is not None:
        return problem
    window, rule = operator.plan.get("window", ""), operator.plan.get("watermark", "")
    known = window.startswith(_KEEP_NOTHING_COMPLETE) and operator.plan.get("lateness") == "0"
    if known and not rule.startswith(("processing time", "as noted")) and "retention" not in operator.plan:
        return None
    return "the windows in its state must be looked at. Name the job: --job job.py"


def _closed(operator: OperatorState, chain: Sequence[Pipeline], to: int) -> list[tuple[int, int]] | None:
    if not chain:
        return None
    kind = chain[0].plan.window
    return closed_windows(kind, after=to, until=operator.watermark, started_by=operator.at, limit=LIMIT + 1)


def _next_batch(storage: Storage) -> int:
    """The number of the first batch that is not logged yet, which will have the command."""
    return max((int(name) for name in storage.list("offsets") if name.isdecimal()), default=-1) + 1
