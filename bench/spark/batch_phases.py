"""Where the slowest batches of a query spend their time, by phase, next to the median batch."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

_TOTAL = "triggerExecution"
_SLOWEST = 0.01
_LEAST = 0.5  # milliseconds that a phase must take to be shown


@dataclass(frozen=True)
class BatchPhases:
    """The milliseconds of a batch by phase: those of Spark, and those of state in the driver within ``addBatch``."""

    batch: int
    phases: Mapping[str, float]

    @property
    def total(self) -> float:
        return self.phases.get(_TOTAL, 0.0)


def phases_of_query(progress: Iterable[Mapping[str, Any]], history: Iterable[Any] = ()) -> list[BatchPhases]:
    """Return the phases of each batch, from Spark's progress reports and from the metrics of Eventide."""
    ours = {metrics.batch: {name: 1000 * seconds for name, seconds in metrics.phases.items()} for metrics in history}
    return [
        BatchPhases(report["batchId"], {**report["durationMs"], **ours.get(report["batchId"], {})})
        for report in progress
        if "addBatch" in report["durationMs"]
    ]


def slowest(batches: Sequence[BatchPhases], share: float = _SLOWEST) -> list[BatchPhases]:
    """Return the slowest part of the batches, slowest first; at least one."""
    return sorted(batches, key=lambda batch: -batch.total)[: math.ceil(len(batches) * share)]


def with_numbers(batches: Iterable[BatchPhases], numbers: Collection[int]) -> list[BatchPhases]:
    """Return the batches with these numbers."""
    return [batch for batch in batches if batch.batch in numbers]


def average(batches: Sequence[BatchPhases]) -> dict[str, float]:
    """Return the mean milliseconds of each phase, longest first."""
    return _rounded(batches, mean)


def typical(batches: Sequence[BatchPhases]) -> dict[str, float]:
    """Return the median milliseconds of each phase, longest first."""
    return _rounded(batches, median)


def _rounded(batches: Sequence[BatchPhases], middle: Any) -> dict[str, float]:
    names = {name for batch in batches for name in batch.phases}
    times = {name: float(middle([batch.phases.get(name, 0.0) for batch in batches])) for name in names}
    return {name: round(time, 1) for name, time in sorted(times.items(), key=lambda item: -item[1]) if time >= _LEAST}
