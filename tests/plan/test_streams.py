"""Each step of the builder returns a new value, and each setting is made once."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError
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
    windows = stream.window(ev.tumbling("1m"))
    windowed = repr(windows)
    windows.trigger(ev.on_update(), may_lose_data=True)
    windows.emit(allowed_lateness="1h", skip_unchanged=True)
    windows.limit_state(rows=5)
    assert (repr(stream), repr(windows)) == (before, windowed)


def test_one_stream_can_begin_several_pipelines() -> None:
    stream = start()
    minutes = stream.window(ev.tumbling("1m")).agg(n=ev.count())
    hours = stream.window(ev.tumbling("1h")).emit(allowed_lateness="1d").agg(n=ev.count())
    assert (minutes.plan.window, minutes.plan.allowed_lateness) == (ev.tumbling("1m"), 0)
    assert (hours.plan.window, hours.plan.allowed_lateness) == (ev.tumbling("1h"), 86_400_000_000)


@pytest.mark.parametrize("attribute", ["_time", "_key", "_window", "plan"])
def test_neither_a_stream_nor_a_pipeline_can_be_changed(attribute: str) -> None:
    windows = start().window(ev.tumbling("1m"))
    target: Any = {"_window": windows, "plan": windows.agg(n=ev.count())}.get(attribute, start())
    with pytest.raises(FrozenInstanceError):
        setattr(target, attribute, None)


def test_windows_are_a_type_of_their_own() -> None:
    windows = start().window(ev.tumbling("1m"))
    assert isinstance(windows, ev.WindowedStream) and isinstance(windows.emit().limit_state(rows=5), ev.WindowedStream)
    assert not hasattr(start(), "agg") and not hasattr(windows, "map_async")


def test_limits_and_emission_are_set_in_any_order() -> None:
    windows = start().window(ev.sliding("10m", every="1m"), output_time="earliest")
    words: dict[str, Any] = {"early": "10s", "allowed_lateness": "1h", "skip_unchanged": True}
    plans = [
        windows.emit(**words).limit_state(rows=5).agg(n=ev.count()).plan,
        windows.limit_state(rows=5).emit(**words).agg(n=ev.count()).plan,
    ]
    assert plans[0] == plans[1]
    assert plans[0].skip_unchanged and plans[0].output_time == "earliest" and plans[0].mode == "retracting"


@pytest.mark.parametrize("first", [{"emit": {}}, {"trigger": {"trigger": ev.on_update()}}])
@pytest.mark.parametrize("second", [{"emit": {}}, {"trigger": {"trigger": ev.on_update()}}])
def test_a_plan_says_once_when_panes_are_emitted(first: dict[str, Any], second: dict[str, Any]) -> None:
    windows: Any = start().window(ev.tumbling("1m"))
    for step, words in first.items():
        windows = getattr(windows, step)(**words)
    for step, words in second.items():
        with pytest.raises(ev.PlanError, match=r"Use one \.emit"):
            getattr(windows, step)(**words)


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
    assert panes["window_start"].cast(pl.Int64).to_list() == [0, 60_000_000]


@pytest.mark.parametrize(
    "window",
    [ev.tumbling("1m"), ev.sessions("gap"), ev.rows(3), ev.calendar("day", tz="Asia/Tokyo"), ev.inherit()],
    ids=lambda window: window.describe(),
)
def test_a_pipeline_can_be_pickled(window: Any) -> None:
    stream = (
        start().window(window).trigger(ev.after_watermark(early=ev.every("1s"), late=ev.on_update()), mode="retracting")
    )
    pipeline = stream.agg(n=ev.count(), p95=ev.quantile("price", 0.95), top=ev.top_n("price", 3))
    again = pickle.loads(pickle.dumps(pipeline))
    assert again == pipeline and again.explain() == pipeline.explain()


def test_a_pipeline_shows_its_windows_its_key_and_its_results_in_one_line() -> None:
    pipeline = start().window(ev.tumbling("1m")).agg(n=ev.count(), total=ev.sum("price"))
    assert repr(pipeline) == "<Pipeline: tumbling 1m by 'shop', 'till': n, total>"
    many = start().window(ev.tumbling("1m")).agg(**{f"n{i}": ev.count() for i in range(20)})
    assert repr(many).endswith("n7 and 12 more>")


def test_one_pipeline_runs_many_times_with_the_same_result() -> None:
    pipeline = ev.stream(time="t").window(ev.tumbling("1m")).agg(n=ev.count())
    rows = pl.DataFrame({"t": [1, 2, 70_000_000]})
    assert pipeline.local(rows, clock=[0]).panes.equals(pipeline.local(rows, clock=[0]).panes)


def test_emit_is_the_trigger_the_lateness_and_the_mode_in_one() -> None:
    windows = ev.stream("ts", key="shop", watermark="30 seconds").window(ev.sliding("10 minutes", "1 minute"))
    trigger = ev.after_watermark(early=ev.every("10 seconds"), late=ev.on_update())
    pipeline = windows.trigger(trigger, allowed_lateness="1 hour", mode="retracting").agg(n=ev.count())
    assert windows.emit(early="10 seconds", allowed_lateness="1 hour").agg(n=ev.count()).plan == pipeline.plan
    assert windows.emit(early=ev.on_update(), mode="discarding").agg(n=ev.count()).plan.mode == "discarding"


def test_a_window_that_fires_once_needs_no_mode() -> None:
    windows = ev.stream("ts", watermark="30 seconds").window(ev.tumbling("1 minute"))
    assert windows.emit().agg(n=ev.count()).plan == windows.agg(n=ev.count()).plan


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"late": "10 seconds"}, "no row may be late"),
        ({"mode": "retract"}, "Did you mean 'retracting'"),
        ({"early": 10}, "has no unit"),
        ({"early": "10"}, "is not a duration"),
        ({"allowed_lateness": True}, "is a bool, not a duration"),
        ({"allowed_lateness": -1}, "not a number of rows"),
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


def test_a_limit_of_bytes_is_a_size_or_an_integer() -> None:
    windows = ev.stream("ts", watermark="30 seconds").window(ev.tumbling("1 minute"))
    sized = windows.limit_state(bytes="64m").agg(n=ev.count())
    assert sized.plan == windows.limit_state(bytes=64 * 1024 * 1024).agg(n=ev.count()).plan
