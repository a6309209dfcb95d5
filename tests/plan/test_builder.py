"""How a plan is said: each step gives a new value, in any order, each setting once."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from itertools import permutations
from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.plan import IngestionTime, Stream


def start() -> Stream:
    return ev.stream(time="ts", key=["shop", "till"], watermark=ev.bounded_delay("30s"))


def test_a_step_leaves_the_stream_it_began_with_as_it_was() -> None:
    stream = start()
    before = repr(stream)
    stream.window(ev.tumbling("1m"), output_time="latest")
    stream.trigger(ev.on_update(), may_lose_data=True)
    stream.lateness("1h")
    stream.retracting(skip_unchanged=True)
    assert repr(stream) == before


def test_one_stream_can_begin_several_pipelines() -> None:
    stream = start()
    minutes = stream.window(ev.tumbling("1m")).agg(n=ev.count())
    hours = stream.window(ev.tumbling("1h")).lateness("1d").agg(n=ev.count())
    assert (minutes.plan.window, minutes.plan.lateness) == (ev.tumbling("1m"), 0)
    assert (hours.plan.window, hours.plan.lateness) == (ev.tumbling("1h"), 86_400_000_000)


@pytest.mark.parametrize("attribute", ["_time", "_key", "_window", "plan"])
def test_neither_a_stream_nor_a_pipeline_can_be_changed(attribute: str) -> None:
    target: Any = start().window(ev.tumbling("1m")).agg(n=ev.count()) if attribute == "plan" else start()
    with pytest.raises(FrozenInstanceError):
        setattr(target, attribute, None)


STEPS: list[Callable[[Stream], Stream]] = [
    lambda s: s.window(ev.sliding("10m", every="1m"), output_time="earliest"),
    lambda s: s.trigger(ev.after_watermark(early=ev.every("10s"), late=ev.on_update())),
    lambda s: s.lateness("1h"),
    lambda s: s.retracting(skip_unchanged=True),
]


def test_the_order_of_the_steps_does_not_matter() -> None:
    plans = []
    for steps in permutations(STEPS):
        stream = start()
        for step in steps:
            stream = step(stream)
        plans.append(stream.agg(n=ev.count()).plan)
    assert all(plan == plans[0] for plan in plans)
    assert plans[0].skip_unchanged and plans[0].output_time == "earliest" and plans[0].mode == "retracting"


@pytest.mark.parametrize(
    ("key", "names"), [(None, ()), ("a", ("a",)), (["a", "b"], ("a", "b")), (("a",), ("a",)), ([], ())]
)
def test_a_key_is_a_column_several_or_none(key: Any, names: tuple[str, ...]) -> None:
    assert ev.stream(time="ts", key=key).window(ev.tumbling("1m")).agg(n=ev.count()).plan.key == names


def test_without_a_watermark_nothing_is_ever_late() -> None:
    assert ev.stream(time="ts").window(ev.tumbling("1m")).agg(n=ev.count()).plan.watermark == ev.no_watermark()


def test_ingestion_time_is_in_order() -> None:
    plan = ev.stream(time=ev.ingestion_time()).window(ev.tumbling("1m")).agg(n=ev.count()).plan
    assert plan.time == IngestionTime() and plan.watermark == ev.ascending()


def test_ingestion_time_is_the_batchs() -> None:
    pipeline = ev.stream(time=ev.ingestion_time()).window(ev.tumbling("1m")).agg(n=ev.count())
    panes = pipeline.local([pl.DataFrame({"v": [1, 2]})] * 2, clock=[30_000_000, 90_000_000]).panes
    assert panes["window"].struct.field("start").cast(pl.Int64).to_list() == [0, 60_000_000]


@pytest.mark.parametrize(
    "window",
    [ev.tumbling("1m"), ev.sessions("gap"), ev.rows(3), ev.calendar("day", tz="Asia/Tokyo"), ev.inherit()],
    ids=lambda window: window.describe(),
)
def test_a_pipeline_can_be_pickled(window: Any) -> None:
    stream = start().window(window).trigger(ev.after_watermark(early=ev.every("1s"), late=ev.on_update())).retracting()
    pipeline = stream.agg(n=ev.count(), p95=ev.quantile("price", 0.95), top=ev.top_n("price", 3))
    again = pickle.loads(pickle.dumps(pipeline))
    assert again == pipeline and again.explain() == pipeline.explain()


def test_a_pipeline_shows_itself_as_its_explanation() -> None:
    pipeline = start().window(ev.tumbling("1m")).agg(n=ev.count())
    assert repr(pipeline) == f"<Pipeline\n{pipeline.explain()}>"


def test_one_pipeline_runs_many_times_with_the_same_result() -> None:
    pipeline = ev.stream(time="t").window(ev.tumbling("1m")).agg(n=ev.count())
    rows = pl.DataFrame({"t": [1, 2, 70_000_000]})
    assert pipeline.local(rows, clock=[0]).panes.equals(pipeline.local(rows, clock=[0]).panes)


def test_emit_is_the_trigger_the_lateness_and_the_mode_in_one() -> None:
    windows = ev.stream("ts", key="shop", watermark="30 seconds").window(ev.sliding("10 minutes", "1 minute"))
    trigger = ev.after_watermark(early=ev.every("10 seconds"), late=ev.on_update())
    said = windows.trigger(trigger).lateness("1 hour").retracting().agg(n=ev.count())
    assert windows.emit(early="10 seconds", allowed_lateness="1 hour").agg(n=ev.count()).plan == said.plan
    assert windows.emit(early=ev.on_update(), mode="discarding").agg(n=ev.count()).plan.mode == "discarding"


def test_a_window_that_fires_once_needs_no_mode() -> None:
    windows = ev.stream("ts", watermark="30 seconds").window(ev.tumbling("1 minute"))
    assert windows.emit().agg(n=ev.count()).plan == windows.agg(n=ev.count()).plan


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"late": "10 seconds"}, "no row may be late"),
        ({"mode": "retract"}, "Did you mean 'retracting'"),
        ({"early": 10}, "needs a trigger"),
        ({"early": "10"}, "is not a duration"),
    ],
)
def test_a_wrong_emission_is_rejected(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ev.PlanError, match=reason):
        ev.stream("ts", watermark="30 seconds").window(ev.tumbling("1 minute")).emit(**options)


def test_the_diffs_of_late_corrections_sum_to_the_table_by_default() -> None:
    sums = ev.stream("t", watermark="0 seconds").window(ev.tumbling("10 seconds")).emit(allowed_lateness="1 hour")
    second = 1_000_000
    bundles = [[(1, 5), (2, 3), (20, 0)], [(3, 8)]]
    frames = [pl.DataFrame({"t": [t * second for t, _ in b], "v": [v for _, v in b]}) for b in bundles]
    panes = sums.agg(total=ev.sum("v")).local(frames, clock=[0, 1]).panes
    assert panes.filter(pl.col("total") > 0).select((pl.col("total") * pl.col("diff")).sum()).item() == 16
