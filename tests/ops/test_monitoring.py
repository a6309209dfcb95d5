"""The dashboard and the alerts in ops/ use metrics that exist; promtool accepts the rules and their tests."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from prometheus_client import CollectorRegistry

import eventide as ev
from eventide.spark.metrics_export import INSTRUMENTS, samples
from eventide.time import as_datetime
from tests.services import unavailable

OPS = Path(__file__).parents[2] / "ops"
ALERTS = OPS / "prometheus" / "alerts.yml"
CASES = OPS / "prometheus" / "alerts.test.yml"
RULES = yaml.safe_load(ALERTS.read_text())["groups"]
DASHBOARD = OPS / "grafana" / "eventide.json"
BATCH = ev.BatchMetrics(
    batch=0,
    depth=0,
    at=as_datetime(5_000_000),
    watermark=as_datetime(2_000_000),
    rows=6,
    kept=4,
    late=1,
    dead={"null_time": 1},
    panes={"ON_TIME": 2},
    seconds=0.5,
    phases={"compute": 0.1, "read": 0.15, "latestOffset": 0.1, "addBatch": 0.3, "commitOffsets": 0.05},
)


def exported_names() -> set[str]:
    registry = CollectorRegistry()
    ev.PrometheusMetrics(registry)("orders", BATCH)
    return {sample.name for family in registry.collect() for sample in family.samples}


def used_names(expressions: list[str]) -> set[str]:
    return {name for expression in expressions for name in re.findall(r"\beventide_\w+", expression)}


def test_every_alert_uses_metrics_that_exist() -> None:
    rules = [rule for group in RULES for rule in group["rules"]]
    assert used_names([rule["expr"] for rule in rules]) <= exported_names()
    assert all(rule["annotations"].keys() == {"summary", "action"} for rule in rules)


def test_every_panel_of_the_dashboard_uses_metrics_that_exist() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    queries = [variable["query"] for variable in dashboard["templating"]["list"]]
    assert len(expressions) > 10
    assert used_names(expressions + queries) <= exported_names()


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    cells: set[tuple[int, int]] = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        place = panel["gridPos"]
        columns, rows = range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        area = {(x, y) for x in columns for y in rows}
        assert not area & cells and max(columns) < 24
        cells |= area


def test_every_alert_is_documented() -> None:
    page = (OPS.parent / "docs" / "howto" / "monitoring.md").read_text()
    for group in RULES:
        assert all(f"`{rule['alert']}`" in page for rule in group["rules"])


@pytest.mark.parametrize("alert", [rule["alert"] for group in RULES for rule in group["rules"]])
def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not(alert: str) -> None:
    cases = [case for test in yaml.safe_load(CASES.read_text())["tests"] for case in test["alert_rule_test"]]
    assert {bool(case["exp_alerts"]) for case in cases if case["alertname"] == alert} == {True, False}


@pytest.mark.parametrize("command", [("check", "alerts.yml"), ("test", "alerts.test.yml")], ids=lambda words: words[0])
def test_promtool_accepts_the_alerts(command: tuple[str, str]) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        unavailable("promtool is not installed: apt-get install prometheus", needs="promtool")
    verb, file = command
    result = subprocess.run(
        [promtool, verb, "rules", file], cwd=ALERTS.parent, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_promtool_parses_every_query_of_the_dashboard(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        unavailable("promtool is not installed: apt-get install prometheus", needs="promtool")
    panels = json.loads(DASHBOARD.read_text())["panels"]
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    rules = [
        {"record": f"panel:query:{number}", "expr": expression.replace("$__rate_interval", "1m").replace("$query", "q")}
        for number, expression in enumerate(expressions)
    ]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    result = subprocess.run([promtool, "check", "rules", file], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{len(expressions)} rules found" in result.stdout


def test_every_instrument_has_a_sample() -> None:
    assert {sample.name for sample in samples(BATCH)} == INSTRUMENTS.keys()


def test_the_lag_of_an_alert_grows_while_no_batch_ends_and_ends_with_a_drain() -> None:
    registry = CollectorRegistry()
    gather = ev.PrometheusMetrics(registry)
    labels = {"query": "orders", "operator": "0", "watermark_key": "0"}
    gather("orders", BATCH)
    assert registry.get_sample_value("eventide_watermark_seconds", labels) == 2.0
    gather("orders", replace(BATCH, drained=True, watermark=None))
    assert registry.get_sample_value("eventide_watermark_seconds", labels) == math.inf
    (rule,) = (rule for group in RULES for rule in group["rules"] if rule["alert"] == "EventideLagGrows")
    assert "time() - eventide_watermark_seconds" in rule["expr"] and "eventide_lag_seconds" not in rule["expr"]


def test_every_sample_has_the_label_of_its_instrument() -> None:
    for sample in samples(BATCH):
        assert (sample.label is None) == (INSTRUMENTS[sample.name].label is None)


def test_opentelemetry_exports_the_same_metrics_as_prometheus() -> None:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    record = ev.OpenTelemetryMetrics(MeterProvider([reader]))
    registry = CollectorRegistry()
    gather = ev.PrometheusMetrics(registry)
    for query in ("orders", "orders", "returns"):
        record(query, BATCH)
        gather(query, BATCH)
    expected = {
        (sample.name.removesuffix("_total"), *sorted(sample.labels.items())): sample.value
        for family in registry.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    }
    data: Any = reader.get_metrics_data()
    exported = {
        (metric.name, *sorted(point.attributes.items())): float(point.value)
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
        for point in metric.data.data_points
    }
    assert exported == expected


def test_a_batch_is_a_span_with_its_phases_in_the_order_of_spark() -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer("job").start_as_current_span("unrelated"):
        ev.OpenTelemetryMetrics(tracer_provider=provider)("orders", BATCH)
    spans = {span.name.removeprefix("eventide."): span for span in exporter.get_finished_spans()}
    batch = spans["batch"]
    assert batch.parent is None
    counts = {"batch": 0, "rows": 6, "late": 1, "dead": 1}
    assert dict(batch.attributes or {}) == {"query": "orders", "operator": "0", **counts}
    add = spans["batch.addBatch"]
    parents = {name: span.parent.span_id for name, span in spans.items() if span.parent}
    assert batch.context and add.context
    assert [name for name, parent in parents.items() if parent == batch.context.span_id] == [
        "batch.latestOffset",
        "batch.addBatch",
        "batch.commitOffsets",
    ]
    assert [name for name, parent in parents.items() if parent == add.context.span_id] == [
        "batch.read",
        "batch.compute",
    ]
    seconds = {name: ((span.end_time or 0) - (span.start_time or 0)) / 1e9 for name, span in spans.items()}
    assert seconds["batch"] == pytest.approx(0.5) and seconds["batch.compute"] == pytest.approx(0.1)
    assert spans["batch.latestOffset"].start_time == batch.start_time
    assert add.start_time == spans["batch.latestOffset"].end_time == spans["batch.read"].start_time
    assert spans["batch.compute"].start_time == spans["batch.read"].end_time


def test_counters_of_several_batches_add_up_to_all_rows() -> None:
    registry = CollectorRegistry()
    gather = ev.PrometheusMetrics(registry)
    for _ in range(3):
        gather("orders", BATCH)
    totals = pl.DataFrame(
        [(sample.name, sample.value) for family in registry.collect() for sample in family.samples],
        schema=["name", "value"],
        orient="row",
    )
    total = {row["name"]: row["value"] for row in totals.group_by("name").agg(pl.col("value").sum()).to_dicts()}
    parts = [total[f"eventide_{name}_total"] for name in ("kept", "late", "dead")]
    assert total["eventide_rows_total"] == sum(parts) == 18
