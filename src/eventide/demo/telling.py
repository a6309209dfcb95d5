"""What is said of panes and batches, a line each: in the live demo, and where a query runs without a terminal."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from eventide.spark.metrics import BatchMetrics
from eventide.time import format_duration, format_instant

COLOURS = {"EARLY": "yellow", "ON_TIME": "green", "LATE": "red"}


def pane_line(row: dict[str, Any]) -> Text:
    """A pane, or that one is taken back.

    >>> from datetime import datetime
    >>> window = {"start": datetime(2026, 3, 1, 12, 0, 5), "end": datetime(2026, 3, 1, 12, 0, 10)}
    >>> print(pane_line({"window": window, "revenue": 7, "sales": 2, "diff": 1, "pane": {"timing": "EARLY"}}))
          [12:00:05, 12:00:10)       7 of   2 sales  EARLY
    """
    start, end = (row["window"][name].strftime("%H:%M:%S") for name in ("start", "end"))
    taken_back = row["diff"] < 0
    amount = f"−{row['revenue']}" if taken_back else str(row["revenue"])
    timing = "taken back" if taken_back else row["pane"]["timing"].replace("_", " ")
    style = "dim" if taken_back else COLOURS[row["pane"]["timing"]]
    return Text(f"      [{start}, {end})  {amount:>6} of {row['sales']:>3} sales  {timing}", style=style)


def progress_line(one: BatchMetrics, total: int, rate: float, *, what: str = "rows") -> Text:
    """How far a query has come; ``what`` its rows are."""
    known = None if one.watermark is None else format_instant(one.watermark).split("T")[-1][:10].rstrip("Z")
    mark = "drained" if one.drained else known or "nothing yet"
    lag = f", {behind(one)} behind the clock" if one.lag else ""
    idle = f", not waiting for {', '.join(map(str, one.idle_origins))}" if one.idle_origins else ""
    return Text(f"      {total:,} {what} ({rate:,.0f}/s)  watermark {mark}{lag}{idle}", style="cyan")


def behind(one: BatchMetrics) -> str:
    """How far the watermark is behind the batch's time, as exactly as it matters.

    >>> behind(BatchMetrics(batch=0, depth=0, at=5_120_000, watermark=2_000_000))
    '3.1 s'
    >>> behind(BatchMetrics(batch=0, depth=0, at=7_200_000_000, watermark=1_500_000))
    '1h 59m 58s'
    """
    lag = 0 if one.watermark is None else one.at - one.watermark
    return f"{lag / 1e6:.1f} s" if abs(lag) < 60_000_000 else format_duration(lag // 1_000_000 * 1_000_000)
