"""What the history, the page and the exports say about the origins of a watermark."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import polars as pl
from prometheus_client import CollectorRegistry

import eventide as ev
from eventide.cli.live_progress import had_effect
from eventide.dashboards.health import watermark_sentence
from eventide.dashboards.query_view import origins_of
from eventide.metrics import idle_text
from eventide.spark.metrics import BatchMetrics, batch_metrics, from_json, progress_detail, to_json
from eventide.watermarks import InputTracker
from tests.dashboards.histories import NOON, SECOND


def observed(names: list[str], *, active: dict[str, int], column: str = "device") -> BatchMetrics:
    """The metrics of a batch after which the named origins are idle, and those with a time are not."""
    strategy = ev.ascending(origin=column, idle_timeout=timedelta(seconds=1))
    tracker = InputTracker(strategy)
    for now, times in ((NOON, dict.fromkeys(names, NOON - SECOND) | active), (NOON + SECOND, active)):
        rows = pl.DataFrame({"t": list(times.values()), column: list(times)}, schema={"t": pl.Int64, column: pl.String})
        tracker.advance(strategy.summarise(rows, "t", now), now)
    state: Any = SimpleNamespace(tracker=tracker)
    counts = {"watermark": tracker.time, "at": NOON + SECOND, "detail": progress_detail(state, operation="window")}
    return batch_metrics(0, 0, counts)


def test_more_idle_origins_than_are_listed_are_counted() -> None:
    metrics = observed([f"device {number}" for number in range(250)], active={"a": NOON})
    assert (metrics.idle, len(metrics.idle_origins), metrics.origins) == (250, 100, 251)
    assert idle_text(metrics).endswith(" and 242 more")
    registry = CollectorRegistry()
    ev.PrometheusMetrics(registry)("orders", metrics)
    assert registry.get_sample_value("eventide_idle_origins", {"query": "orders", "operator": "0"}) == 250
    assert from_json(to_json(metrics)).idle == 250


def test_idle_origins_beyond_those_that_are_listed_are_an_effect() -> None:
    few = observed([f"device {number}" for number in range(101)], active={"a": NOON})
    assert had_effect(replace(few, idle=102), few) and not had_effect(few, few)


def test_all_origins_are_idle_even_if_not_all_are_listed() -> None:
    entry = to_json(observed([f"device {number}" for number in range(250)], active={}))
    assert watermark_sentence(entry, {}) == "All 250 origins are idle; the watermark waits for none of them."


def test_the_slowest_origins_are_known_to_be_idle_among_many_others() -> None:
    slow = {"slow": NOON - 60 * SECOND}
    strategy = ev.ascending(origin="device", idle_timeout=timedelta(seconds=1))
    tracker = InputTracker(strategy)
    times = dict.fromkeys((f"device {number}" for number in range(150)), NOON) | slow | {"a": NOON}
    for now, sent in ((NOON, times), (NOON + SECOND, {"a": NOON})):
        rows = pl.DataFrame({"t": list(sent.values()), "device": list(sent)})
        tracker.advance(strategy.summarise(rows, "t", now), now)
    state: Any = SimpleNamespace(tracker=tracker)
    counts = {"watermark": tracker.time, "at": NOON + SECOND, "detail": progress_detail(state, operation="window")}
    entry = to_json(batch_metrics(0, 0, counts))
    assert next(row["idle"] for row in origins_of(entry) if row["name"] == "slow")


def test_the_origin_that_everything_waits_for_has_the_name_of_its_column() -> None:
    entry = to_json(observed([], active={"7": NOON - 60 * SECOND, "8": NOON}, column="partition"))
    assert entry["origin_column"] == "partition"
    (held,) = (row for row in origins_of(entry) if row["holds"])
    lags = {held["name"]: held["lag"]}
    assert watermark_sentence(entry, lags) == "partition 7 is 1m 1s behind; everything waits for it."
