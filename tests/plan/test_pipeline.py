"""Plans that wait for a watermark that nobody states are rejected; only pipelines import hosts."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import eventide
import eventide as ev
from eventide.plan.pipeline import check_completes, check_watermarks

PLAN = Path(eventide.__file__).parent / "plan"
HOSTS = ("local", "sinks", "spark", "standalone", "streamsql", "testing", "cli")

STREAM = ev.stream(time="ts", key="k")
STATED = ev.stream(time="ts", key="k", watermark=ev.bounded_delay("30 seconds"))
MINUTES = STREAM.window(ev.tumbling("1 minute"))


def with_trigger(trigger: Any) -> ev.Pipeline:
    return MINUTES.trigger(trigger, mode="accumulating", may_lose_data=True).agg(n=ev.count())


WAITING = {
    "windows of time": MINUTES.agg(n=ev.count()),
    "sessions": STREAM.window(ev.sessions("1 minute")).agg(n=ev.count()),
    "a global window": STREAM.window(ev.global_window()).agg(n=ev.count()),
    "only late panes": with_trigger(ev.after_watermark(late=ev.on_update())),
    "no trigger": with_trigger(ev.never()),
    "all of": with_trigger(ev.all_of(ev.after_count(2), ev.after_watermark())),
    "first the watermark": with_trigger(ev.in_order(ev.after_watermark(), ev.after_count(2))),
    "a union with one that has none": ev.union(a=STATED, b=STREAM).window(ev.tumbling("1 minute")).agg(n=ev.count()),
    "an interval join": ev.join(STATED, STREAM, within="1 minute"),
    "a window join": ev.window_join(STREAM, STATED, window=ev.tumbling("1 minute")),
    "ids": STREAM.deduplicate("id", within="1 hour").window(ev.rows(2)).agg(n=ev.count()),
}
GOING = {
    "a watermark": STATED.window(ev.tumbling("1 minute")).agg(n=ev.count()),
    "none, as is stated": ev.stream(time="ts", watermark=ev.no_watermark())
    .window(ev.tumbling("1 minute"))
    .agg(n=ev.count()),
    "by count": with_trigger(ev.repeatedly(ev.after_count(2))),
    "by the clock": with_trigger(ev.every("1 minute")),
    "early panes": with_trigger(ev.after_watermark(early=ev.on_update())),
    "any of": with_trigger(ev.any_of(ev.after_count(2), ev.after_watermark())),
    "first a count": with_trigger(ev.in_order(ev.after_count(2), ev.after_watermark())),
    "until the watermark": with_trigger(ev.or_finally(ev.repeatedly(ev.after_count(2)), ev.after_watermark())),
    "windows of rows": STREAM.window(ev.rows(2)).agg(n=ev.count()),
    "the time of the batch": ev.stream(time=ev.ingestion_time()).window(ev.tumbling("1 minute")).agg(n=ev.count()),
    "a join with the last rows": ev.join(STATED, STREAM, last=3, keep="1 hour"),
    "a join without watermarks, as is stated": ev.join(
        *[ev.stream(time="ts", key="k", watermark=ev.no_watermark())] * 2, within="1 minute"
    ),
}


@pytest.mark.parametrize("pipeline", WAITING.values(), ids=WAITING)
def test_a_plan_that_waits_for_a_watermark_is_rejected_on_a_stream(pipeline: ev.Pipeline) -> None:
    with pytest.raises(ev.PlanError, match="no watermark"):
        check_watermarks(pipeline.plan)


@pytest.mark.parametrize("pipeline", GOING.values(), ids=GOING)
def test_a_plan_that_emits_anyway_is_accepted(pipeline: ev.Pipeline) -> None:
    check_watermarks(pipeline.plan)


EVERYTHING = STATED.window(ev.global_window())


@pytest.mark.parametrize(
    "pipeline",
    [
        EVERYTHING.agg(n=ev.count()),
        EVERYTHING.trigger(ev.never()).agg(n=ev.count()),
        GOING["a watermark"].then(ev.stream("window_time").window(ev.global_window()).agg(n=ev.sum("n"))),
    ],
    ids=["no trigger", "never", "in a chain"],
)
def test_a_global_window_that_emits_only_at_the_end_is_rejected_on_a_stream(pipeline: ev.Pipeline) -> None:
    with pytest.raises(ev.PlanError, match="global window is complete when the stream ends"):
        check_completes(pipeline)


@pytest.mark.parametrize(
    "pipeline",
    [
        EVERYTHING.emit(early="10 seconds").agg(n=ev.count()),
        EVERYTHING.trigger(ev.repeatedly(ev.after_count(1000))).agg(n=ev.count()),
        ev.stream("ts", watermark=ev.no_watermark()).window(ev.global_window()).agg(n=ev.count()),
        *GOING.values(),
    ],
)
def test_a_global_window_with_a_trigger_is_accepted(pipeline: ev.Pipeline) -> None:
    check_completes(pipeline)


def test_the_advice_on_global_windows_in_sql_is_accepted() -> None:
    query = "CREATE STREAM orders WATERMARK FOR ts AS ts - INTERVAL '30' SECOND; SELECT COUNT(*) AS n FROM orders"
    with pytest.raises(ev.PlanError) as rejected:
        check_completes(ev.sql(query).pipeline)
    clause = "EMIT EARLY EVERY INTERVAL '10' SECOND"
    assert clause in str(rejected.value)
    check_completes(ev.sql(f"{query} {clause}").pipeline)


def test_the_message_has_the_three_usual_choices() -> None:
    with pytest.raises(ev.PlanError) as rejected:
        check_watermarks(WAITING["windows of time"].plan)
    for choice in ('ev.bounded_delay("30 seconds")', 'ev.processing_time("30 seconds")', "ev.no_watermark()"):
        assert choice in str(rejected.value)


def test_the_input_without_a_watermark_is_named() -> None:
    with pytest.raises(ev.PlanError, match="The input 'right' has no watermark"):
        check_watermarks(WAITING["an interval join"].plan)


def _imports(tree: ast.AST) -> set[str]:
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {(node.module or "").removeprefix("eventide.").partition(".")[0] for node in nodes}


@pytest.mark.parametrize("path", sorted(PLAN.glob("*.py")), ids=lambda path: path.name)
def test_plans_know_no_operator_and_only_pipelines_know_hosts(path: Path) -> None:
    imported = _imports(ast.parse(path.read_text(encoding="utf-8")))
    assert "operators" not in imported
    assert path.name == "pipeline.py" or not imported & set(HOSTS)
