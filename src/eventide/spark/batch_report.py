"""A batch as one line of text, for logs and for ``on_batch=print``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from eventide.time import format_duration, format_instant

if TYPE_CHECKING:
    from eventide.spark.metrics import BatchMetrics

_ZEROS = re.compile(r"(\.\d*?)0+Z$")
_MINUTE = 60_000_000
_KEPT = {"window": "in windows", "join": "in the join", "processor": "processed"}
_EMITTED = {"join": "joined", "processor": "emitted"}
_IDLE_SHOWN = 8


def batch_line(metrics: BatchMetrics) -> str:
    """Return the line of a batch: rows and their rate, watermark and lag, output, late, dead, slowest origin."""
    where = f"batch {metrics.batch}" + (f", operator {metrics.depth}" if metrics.depth else "")
    parts = [f"{where} at {instant_text(metrics.at)}", rows_text(metrics), f"watermark {watermark_text(metrics)}"]
    panes = "panes " if metrics.operation == "window" and (metrics.panes or metrics.retractions) else ""
    parts += [f"{panes}{emitted_text(metrics)}", counted(metrics.late, "late row"), dead_text(metrics.dead)]
    if (slowest := slowest_origin(metrics)) is not None:
        parts.append(f"slowest origin {slowest}")
    if metrics.idle_origins:
        parts.append(f"idle {idle_text(metrics)}")
    if metrics.gaps:
        parts.append(f"{counted(metrics.gaps, 'gap')} in sequences")
    if metrics.renumbered_origins:
        parts.append(f"numbering restarted by {', '.join(map(str, metrics.renumbered_origins))}")
    if forgotten := forgotten_text(metrics):
        parts.append(f"forgot {forgotten}")
    return " | ".join(parts)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def rows_text(metrics: BatchMetrics) -> str:
    """Return the rows of the batch, with their rate where it is known."""
    rate = "" if metrics.rate is None or not metrics.rows else f" ({metrics.rate:,.0f} rows/s)"
    return f"{counted(metrics.rows, 'row')}{rate}"


def watermark_text(metrics: BatchMetrics) -> str:
    """Return the watermark with its date and lag."""
    if metrics.drained:
        return "drained"
    if metrics.watermark is None:
        return "unknown"
    return f"{instant_text(metrics.watermark)} ({lag_text(metrics)})"


def instant_text(time: int | None) -> str:
    """Return an instant with no more digits than it needs.

    >>> instant_text(1_248_000), instant_text(None)
    ('1970-01-01T00:00:01.248Z', 'unknown')
    """
    return "unknown" if time is None else _ZEROS.sub(r"\1Z", format_instant(time))


def lag_text(metrics: BatchMetrics) -> str:
    """Return how far the watermark is behind the batch's time.

    >>> from eventide.spark.metrics import BatchMetrics
    >>> lag_text(BatchMetrics(batch=0, depth=0, at=5_120_000, watermark=2_000_000))
    '3.1 s behind'
    >>> lag_text(BatchMetrics(batch=0, depth=0, at=7_200_000_000, watermark=1_500_000))
    '1h 59m 58s behind'
    >>> lag_text(BatchMetrics(batch=0, depth=0, at=1_000_000, watermark=2_000_000))
    '1.0 s ahead'
    """
    lag = 0 if metrics.watermark is None else metrics.at - metrics.watermark
    size = f"{abs(lag) / 1e6:.1f} s" if abs(lag) < _MINUTE else format_duration(abs(lag) // 1_000_000 * 1_000_000)
    return f"{size} {'ahead' if lag < 0 else 'behind'}"


def emitted_text(metrics: BatchMetrics) -> str:
    """Return what the batch emitted: panes by timing, or the rows of a join or a processor.

    >>> from eventide.spark.metrics import BatchMetrics
    >>> emitted_text(BatchMetrics(batch=0, depth=0, at=0, panes={"EARLY": 3, "ON_TIME": 1}, retractions=2))
    '3 early, 1 on time, 2 retracted'
    >>> emitted_text(BatchMetrics(batch=0, depth=0, at=0, operation="join", panes={"ON_TIME": 1200}))
    '1,200 rows joined'
    """
    if metrics.operation in _EMITTED:
        return f"{counted(sum(metrics.panes.values()), 'row')} {_EMITTED[metrics.operation]}"
    counts = {timing.replace("_", " ").lower(): number for timing, number in metrics.panes.items()}
    if metrics.retractions:
        counts["retracted"] = metrics.retractions
    return ", ".join(f"{number:,} {name}" for name, number in counts.items()) if counts else "no panes"


def dead_text(dead: Mapping[str, int]) -> str:
    """Return the number of dead letters and their reasons.

    >>> dead_text({"null_time": 2, "future": 1})
    '3 dead (2 null_time, 1 future)'
    """
    reasons = ", ".join(f"{number:,} {reason}" for reason, number in dead.items())
    return f"{sum(dead.values()):,} dead" + (f" ({reasons})" if reasons else "")


def slowest_origin(metrics: BatchMetrics) -> str | None:
    """Return the origin that holds the watermark back; None where the watermark has no origins or does not wait."""
    if metrics.drained or not metrics.slowest or metrics.least_origin is None:
        return None
    return str(metrics.least_origin)


def idle_text(metrics: BatchMetrics) -> str:
    """Return the names of idle origins, not too many."""
    shown = ", ".join(map(str, metrics.idle_origins[:_IDLE_SHOWN]))
    more = len(metrics.idle_origins) - _IDLE_SHOWN
    return f"{shown} and {more:,} more" if more > 0 else shown


def forgotten_text(metrics: BatchMetrics) -> str:
    """Return how many idle origins and keys the batch forgot.

    >>> from eventide.spark.metrics import BatchMetrics
    >>> forgotten_text(BatchMetrics(batch=0, depth=0, at=0, forgotten_origins=2, forgotten_keys=1))
    '2 origins, 1 key'
    """
    counts = (metrics.forgotten_origins, "origin"), (metrics.forgotten_keys, "key")
    return ", ".join(counted(number, noun) for number, noun in counts if number)


def balance_text(operation: str, rows: int, kept: int, late: int, dead: Mapping[str, int]) -> str:
    """Return the account of all rows.

    >>> balance_text("processor", 10, 8, 1, {"failed": 1})
    '10 rows = 8 processed + 1 late + 1 dead (1 failed)'
    """
    return f"{counted(rows, 'row')} = {kept:,} {_KEPT[operation]} + {late:,} late + {dead_text(dead)}"
