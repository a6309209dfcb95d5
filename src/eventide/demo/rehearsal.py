"""The shop of the live demo without Spark and without waiting: each second of the day is a bundle of a test stream."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from rich.console import Console

from eventide.demo import live
from eventide.testing import TestStream
from eventide.time import instant

_OPENING = datetime(2026, 3, 1, 12, 0, 1, tzinfo=UTC)
_IDLE_AFTER = 5  # seconds without a sale, after which the watermark goes on without the till


def rehearse() -> live.Recorder:
    """Return what the live demo records in one cycle. It is the same each time."""
    recorder = live.Recorder(Console(file=io.StringIO()))
    stream = TestStream(live.REVENUE, day="2026-03-01", clock="12:00", schema=live.SCHEMA)
    for second in live.day(_OPENING, live.SECONDS):
        at = _OPENING + timedelta(seconds=second.number)
        recorder.sent.append((instant(at), second.sales))
        if second.news:
            recorder.headlines.append((instant(at), second.number))
        stream.add(second.sales, at=at.isoformat())
        is_idle = live.STALLS + _IDLE_AFTER <= second.number < live.RETURNS
        batch: Any = SimpleNamespace(at=at, watermark=stream.watermark, idle_origins=(live.SILENT,) if is_idle else ())
        recorder.metrics.append(batch)
    stream.advance_processing_time("3 seconds").end()
    recorder.panes = stream.panes.to_dicts()
    sales = [row for _, frame in recorder.sent for row in frame.to_dicts()]
    oldest = _OPENING - timedelta(seconds=live.OLD - 1)
    recorder.dead = [row for row in sales if row["ts"] is None]
    recorder.late = [row for row in sales if row["ts"] is not None and row["ts"] < oldest]
    assert (len(recorder.late), len(recorder.dead)) == (stream.counts.late, sum(stream.counts.dead.values()))
    return recorder
