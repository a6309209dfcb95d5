"""The progress of a query where there is no terminal: a line for each batch that did something."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eventide.spark.metrics import BatchMetrics


class ProgressLines:
    """Prints the line of a batch if the batch had rows or any effect. Call it with each batch."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._last: dict[int, BatchMetrics] = {}  # by operator

    def __call__(self, metrics: BatchMetrics) -> None:
        """Print the line of a batch."""
        if had_effect(metrics, self._last.get(metrics.depth)):
            self._write(f"{metrics}{commands_text(metrics)}")
        self._last[metrics.depth] = metrics


def had_effect(metrics: BatchMetrics, before: BatchMetrics | None) -> bool:
    """Return whether a batch is worth a line; ``before`` is the last one of the same operator.

    A watermark that follows the clock moves with every tick. That alone is no line.
    """
    if metrics.rows or metrics.panes or metrics.retractions or metrics.late or metrics.dead or metrics.commands:
        return True
    if before is None:
        return metrics.drained and metrics.depth == 0
    return (metrics.drained, metrics.idle_origins) != (before.drained, before.idle_origins)


def commands_text(metrics: BatchMetrics) -> str:
    """Return the commands that a batch applied, as the end of its line."""
    names = [" ".join(filter(None, (effect.action, effect.origin))) for effect in metrics.commands]
    return f" | applied {', '.join(names)}" if names else ""
