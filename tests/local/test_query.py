"""The in-process host: bundles one by one, a clock that is given, and chains of pipelines."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest

import eventide as ev

SECOND = 1_000_000
PER_MINUTE = ev.stream(time="t", key="k", watermark=ev.bounded_delay("0s")).window(ev.tumbling("1m")).agg(n=ev.count())


def rows(*times: int, key: str = "a") -> pl.DataFrame:
    return pl.DataFrame(
        {"t": [t * SECOND for t in times], "k": [key] * len(times)}, schema={"t": pl.Int64, "k": pl.String}
    )


def test_a_frame_is_one_bundle_and_a_list_is_many() -> None:
    assert len(PER_MINUTE.local(rows(1, 2), clock=[0]).steps) == 2  # and the end
    assert len(PER_MINUTE.local([rows(1), rows(2)], clock=[0, 0]).steps) == 3


def test_a_generator_of_frames_is_many_bundles() -> None:
    assert PER_MINUTE.local((rows(i) for i in range(3)), clock=[0, 0, 0]).panes["n"].to_list() == [3]


def test_without_draining_open_windows_stay_open() -> None:
    result = PER_MINUTE.local([rows(1, 70)], clock=[0], drain=False)
    assert result.panes["n"].to_list() == [1] and result.steps[-1].open_panes == 1


def test_every_pane_has_the_batch_time() -> None:
    panes = PER_MINUTE.local(
        [rows(1), rows(70)], clock=["2024-01-01T00:00:00Z", datetime(2024, 1, 2, tzinfo=UTC)]
    ).panes
    assert panes["emitted_at"].to_list() == [datetime(2024, 1, 2, tzinfo=UTC)] * 2


def test_a_clock_shorter_than_the_bundles_is_rejected() -> None:
    with pytest.raises(ev.PlanError, match="clock= has 1 times, but there is a bundle number 2"):
        PER_MINUTE.local([rows(1), rows(2)], clock=[0])


@pytest.mark.parametrize("now", ["noon", 1.5, None])
def test_a_clock_that_shows_no_time_is_rejected(now: Any) -> None:
    if now is None:
        assert PER_MINUTE.start_local().push(rows(1)).counts.rows == 1  # the wall clock
        return
    with pytest.raises(ev.PlanError):
        PER_MINUTE.start_local().push(rows(1), now=now)


def test_without_a_single_bundle_there_are_no_columns() -> None:
    with pytest.raises(ev.PlanError, match="the columns are not known"):
        _ = PER_MINUTE.local([], clock=[]).panes


@pytest.mark.parametrize("ask", [lambda q: q.push(now=0), lambda q: q.drain(now=0), lambda q: q.scan()])
def test_before_the_first_rows_a_query_needs_a_schema(ask: Any) -> None:
    with pytest.raises(ev.PlanError, match=r"Push a frame first, or start_local\(schema=…\)"):
        ask(PER_MINUTE.start_local())


def test_with_a_schema_a_query_can_begin_with_a_tick() -> None:
    query = PER_MINUTE.start_local({"t": pl.Int64, "k": pl.String})
    assert query.push(now=0).panes.height == 0 and query.scan() == []
    assert query.push(rows(1), now=0).open_panes == 1


def test_a_schema_is_checked_before_any_row() -> None:
    with pytest.raises(ev.PlanError, match="key: there is no column 'k'"):
        PER_MINUTE.start_local({"t": pl.Int64})


def test_draining_ends_all_windows_on_the_last_clock() -> None:
    query = PER_MINUTE.start_local()
    query.push(rows(1), now=7)
    ended = query.drain()
    assert ended.panes["emitted_at"].cast(pl.Int64).to_list() == [7]
    assert ended.open_panes == 0


def test_rows_after_the_end_are_late() -> None:
    query = PER_MINUTE.start_local()
    query.push(rows(1), now=0)
    query.drain()
    assert query.push(rows(2), now=0).late.height == 1


def test_a_watermark_can_be_passed() -> None:
    pipeline = ev.stream(time="t", key="k").window(ev.tumbling("1m")).agg(n=ev.count())
    step = pipeline.start_local().push(rows(1), now=0, watermark="1970-01-01T00:01:00Z")
    assert step.panes["n"].to_list() == [1] and step.watermark_us == 60 * SECOND


def test_the_state_can_be_inspected() -> None:
    query = PER_MINUTE.start_local()
    query.push(rows(1, 2), now=0)
    assert sum(frame.height for frame in query.scan()) == 1


def test_metrics_add_up_over_all_bundles() -> None:
    counts = PER_MINUTE.local([rows(100), rows(1), rows(101)], clock=[0, 0, 0]).metrics
    assert (counts.rows, counts.kept, counts.late, counts.panes) == (3, 2, 1, {"ON_TIME": 1})
    assert counts.balanced


def test_the_same_bundles_give_the_same_bytes() -> None:
    bundles = [rows(5, 70, key="b"), rows(1, 71), rows(200, key="c")]
    state, other = (PER_MINUTE.local(bundles, clock=[0, 1, 2]) for _ in range(2))
    for name in ("panes", "late", "dead"):
        assert getattr(state, name).write_ipc(None).getvalue() == getattr(other, name).write_ipc(None).getvalue()


def test_a_pipeline_can_follow_another() -> None:
    hours = ev.stream(time="window_time", watermark=ev.no_watermark()).window(ev.tumbling("1h"))
    per_hour = hours.agg(total=ev.sum("n"))
    panes = PER_MINUTE.then(per_hour).local([rows(1, 2, 70), rows(4000)], clock=[0, 0]).panes
    assert panes["total"].to_list() == [3, 1]


def test_a_pipeline_can_inherit_the_windows_of_another_with_its_retractions() -> None:
    early = (
        ev.stream(time="t", key="k")
        .window(ev.tumbling("1m"))
        .trigger(ev.after_watermark(early=ev.on_update()), mode="retracting")
    )
    total = ev.stream(time="window_time").window(ev.inherit()).agg(total=ev.sum("n"))
    chain = early.agg(n=ev.count()).then(total)
    result = chain.local([rows(1), rows(2, key="b"), rows(3)], clock=[0, 0, 0])
    assert result.panes["total"].to_list() == [3]


def test_a_state_does_not_change_under_a_later_step() -> None:
    from eventide.operators.operator import Bundle
    from eventide.operators.windowed_aggregate import WindowedAggregate

    operator = WindowedAggregate(PER_MINUTE.plan, rows().schema)
    state = operator.step(operator.initial(), Bundle(rows(1, 70), 0)).state
    first = operator.step(state, Bundle(rows(130), 1)).output
    again = operator.step(state, Bundle(rows(130), 1)).output
    assert first.panes.equals(again.panes) and first.watermark == again.watermark
