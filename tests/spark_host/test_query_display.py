"""A query shows its status and the metrics of its last batch, without a session."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import eventide as ev
from eventide.spark.query import Query

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def query(*batches: ev.BatchMetrics) -> Query:
    stopped: Any = SimpleNamespace(isActive=False, name="<revenue>")
    return Query(stopped, SimpleNamespace(), batches, lambda: None)  # type: ignore[arg-type]


def test_a_notebook_shows_the_status_of_a_query() -> None:
    html = query()._repr_html_()
    assert html.startswith("<table") and "&lt;revenue&gt;" in html and ">stopped</td>" in html


def test_a_notebook_shows_the_metrics_of_the_last_batch() -> None:
    batches = [ev.BatchMetrics(batch=number, depth=0, at=NOON, rows=1000 + number, kept=1000) for number in (7, 8)]
    html = query(*batches)._repr_html_()
    assert "BatchMetrics" in html and "1,008" in html.replace("1008", "1,008") and "1007" not in html
