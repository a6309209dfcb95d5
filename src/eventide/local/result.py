"""The result of an in-process query: the outputs of its bundles, and metrics over them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import polars as pl

from eventide._hints import with_attribute_hints
from eventide.errors import PlanError
from eventide.metrics import Gap, Metrics, Operation, counted, gaps_of, metrics_of
from eventide.operators.operator import Counts, Output
from eventide.watermarks import AnyTracker, WatermarkMetrics

_NOTEBOOK_PANES = 10


@with_attribute_hints
@dataclass(repr=False)
class LocalResult:
    """All outputs of a run. ``steps`` has the output of each bundle.

    ``operators`` has the results of all pipelines of a chain, in order. Each has its late rows, dead letters and
    metrics.
    """

    steps: list[Output] = field(default_factory=list)
    clock: list[int] = field(default_factory=list)
    tracker: AnyTracker | None = None
    _operation: Operation = field(default="window", compare=False)
    _chain: Sequence[LocalResult] = field(default=(), compare=False)

    @property
    def operators(self) -> Sequence[LocalResult]:
        """The result of each pipeline of a chain; for a single pipeline, only this one."""
        return self._chain or (self,)

    @property
    def panes(self) -> pl.DataFrame:
        """All panes, in the order in which they were emitted."""
        return _concat(step.panes for step in self.steps)

    @property
    def late(self) -> pl.DataFrame:
        """The rows that arrived too late for all of their windows."""
        return _concat(step.late for step in self.steps)

    @property
    def dead(self) -> pl.DataFrame:
        """The rows that could not be used, with the reason."""
        return _concat(step.dead for step in self.steps)

    @property
    def metrics(self) -> Metrics:
        """Row counts, and the progress of event time: what holds the watermark back, idle origins."""
        counts = sum((step.counts for step in self.steps), Counts())
        last = self.steps[-1] if self.steps else None
        sizes = {} if last is None else {"open_windows": last.open_panes, "in_flight": last.in_flight}
        return metrics_of(counts, self._progress, operation=self._operation, **sizes)

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """The sequence numbers that are missing, and since when."""
        return gaps_of(self._progress)

    @property
    def _progress(self) -> WatermarkMetrics | None:
        return None if self.tracker is None else self.tracker.metrics()

    def __repr__(self) -> str:
        if not self.steps:
            return "<LocalResult: no bundles>"
        frames = {"pane": self.panes, "late row": self.late, "dead letter": self.dead}
        totals = ", ".join(counted(frame.height, noun) for noun, frame in frames.items())
        bundles = sum(step.counts.rows > 0 for step in self.steps)  # without those that only advance the clock
        return f"<LocalResult: {totals} of {counted(bundles, 'bundle')}>"

    def _repr_html_(self) -> str:
        """Return the metrics and the first panes, for notebooks."""
        panes = self.panes.head(_NOTEBOOK_PANES)._repr_html_() if self.steps else ""
        return self.metrics._repr_html_() + panes


def no_schema() -> PlanError:
    """Return the error for a bundle without rows before the columns are known."""
    return PlanError(
        "No rows have been seen yet, so the columns are not known. Push a frame first, or start_local(schema=…)."
    )


def _concat(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    parts = list(frames)
    if not parts:
        raise no_schema()
    return pl.concat(parts)
