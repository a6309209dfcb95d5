"""Panes and batches of the live demo, a line each."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from eventide.spark.batch_report import idle_text, lag_text
from eventide.spark.metrics import BatchMetrics
from eventide.time import format_instant

COLOURS = {"EARLY": "yellow", "ON_TIME": "green", "LATE": "red"}


def pane_line(row: dict[str, Any]) -> Text:
    """Return the line of a pane, or of a retraction.

    >>> from datetime import datetime
    >>> window = {"start": datetime(2026, 3, 1, 12, 0, 5), "end": datetime(2026, 3, 1, 12, 0, 10)}
    >>> print(pane_line({"window": window, "revenue": 7, "sales": 2, "diff": 1, "pane": {"timing": "EARLY"}}))
          [12:00:05, 12:00:10)       7 of   2 sales  EARLY
    """
    start, end = (row["window"][name].strftime("%H:%M:%S") for name in ("start", "end"))
    retracted = row["diff"] < 0
    amount = f"−{row['revenue']}" if retracted else str(row["revenue"])
    timing = "retracted" if retracted else row["pane"]["timing"].replace("_", " ")
    style = "dim" if retracted else COLOURS[row["pane"]["timing"]]
    return Text(f"      [{start}, {end})  {amount:>6} of {row['sales']:>3} sales  {timing}", style=style)


def progress_line(metrics: BatchMetrics, total: int, rate: float, *, what: str = "rows") -> Text:
    """Return how far the demo is; ``what`` its rows are, ``total`` and ``rate`` those since its start."""
    known = None if metrics.watermark is None else format_instant(metrics.watermark).split("T")[-1][:10].rstrip("Z")
    watermark = "drained" if metrics.drained else known or "unknown"
    lag = f", {lag_text(metrics)}" if metrics.lag else ""
    idle = f", not waiting for {idle_text(metrics)}" if metrics.idle_origins else ""
    return Text(f"      {total:,} {what} ({rate:,.0f}/s)  watermark {watermark}{lag}{idle}", style="cyan")
