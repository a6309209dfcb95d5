"""Calls that span bundles: rows in flight are state, and watermarks wait behind them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eventide as ev
from eventide.local import LocalQuery
from eventide.local.background_calls import BackgroundCalls, attach_background_calls
from eventide.operators.factory import operator_of
from eventide.operators.operator import Bundle, Output
from eventide.testing import TestStream, pane
from eventide.time import MAX, MIN
from eventide.watermarks import Watermark
from tests.driver.harness import Checkpoint, Driver, DriverHost
from tests.effort import examples
from tests.local.harness import Service
from tests.state.harness import Paged

S = 1_000_000
SCHEMA = {"t": pl.Int64, "k": pl.String, "v": pl.Int64}
STREAM = ev.stream(time="t", key="k", watermark=ev.ascending())
OUTPUT = {"w": pl.Int64}


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    yield service
    service.close()


def rows(*of: tuple[int, int]) -> pl.DataFrame:
    """Rows by their second and their value."""
    return pl.DataFrame([(t * S, "a", v) for t, v in of], schema=SCHEMA, orient="row")


class AsTheyCome(ev.Processor):
    """Emits rows as they are, in their order."""

    def process(self, edge: str, rows: pl.DataFrame) -> None:
        self.emit(rows.select("w"))


def spanning(service: Any, stream: Any = STREAM, **options: Any) -> Any:
    fn = service.call if isinstance(service, Service) else service
    return stream.map_async(fn, output=OUTPUT, across_bundles=True, **{"retries": 0, **options})


def passing(service: Any, stream: Any = STREAM, **options: Any) -> ev.Pipeline:
    """Rows leave as their calls end."""
    return spanning(service, stream, **options).process(AsTheyCome(), output=OUTPUT)


def windowed(service: Any, stream: Any = STREAM, **options: Any) -> ev.Pipeline:
    return spanning(service, stream, **options).window(ev.tumbling("10 s")).agg(w=ev.collect_list("w"))


def take(query: LocalQuery, answers: int, *, now: int) -> Output:
    """A bundle without rows, once so many answers have arrived."""
    query.wait_for_calls(answers)
    return query.push(now=now)


def emitted(output: Output) -> list[int]:
    observed: list[int] = output.panes["w"].to_list()
    return observed


# Rows and watermarks


def test_a_bundle_does_not_wait_for_its_calls(service: Service) -> None:
    query = passing(service).start_local()
    assert query.push(rows((1, 1)), now=0).in_flight == 1
    service.answer(1)
    output = take(query, 1, now=1)
    assert emitted(output) == [2] and output.in_flight == 0 and output.watermark_us == S


def test_ordered_rows_and_watermarks_leave_in_the_order_of_their_arrival(service: Service) -> None:
    query = passing(service).start_local()
    query.push(rows((1, 1)), now=0)
    query.push(rows((2, 2)), now=1)
    service.answer(2)
    output = take(query, 1, now=2)
    assert emitted(output) == [] and output.watermark_us == MIN and output.in_flight == 2
    service.answer(1)
    output = take(query, 1, now=3)
    assert emitted(output) == [2, 4] and output.watermark_us == 2 * S


def test_unordered_rows_overtake_each_other_and_no_watermark_overtakes_a_row(service: Service) -> None:
    query = passing(service, ordered=False).start_local()
    query.push(rows((1, 1), (2, 2)), now=0)
    query.push(rows((3, 3)), now=1)
    service.answer(3)
    output = take(query, 1, now=2)
    assert emitted(output) == [6] and output.watermark_us == MIN
    service.answer(1)
    output = take(query, 1, now=3)
    assert emitted(output) == [2] and output.watermark_us == MIN
    service.answer(2)
    output = take(query, 1, now=4)
    assert emitted(output) == [4] and output.watermark_us == 3 * S


def test_a_watermark_leaves_as_soon_as_the_rows_before_it_have_left(service: Service) -> None:
    query = passing(service).start_local()
    query.push(rows((1, 1)), now=0)
    query.push(rows((5, 2)), now=1)
    service.answer(1)
    assert take(query, 1, now=2).watermark_us == S


@pytest.mark.parametrize("ordered", [True, False])
def test_a_row_that_is_not_late_when_it_arrives_is_not_late_when_it_leaves(service: Service, ordered: bool) -> None:
    query = windowed(service, ordered=ordered).start_local()
    query.push(rows((1, 1)), now=0)
    query.push(rows((60, 2)), now=1)
    service.answer(2)
    assert take(query, 1, now=2).panes.is_empty()
    service.answer(1)
    output = take(query, 1, now=3)
    assert emitted(output) == [[2]] and output.late.is_empty()


def test_a_row_that_arrives_behind_a_released_watermark_is_late(service: Service) -> None:
    query = windowed(service).start_local()
    query.push(rows((60, 1)), now=0)
    service.answer(1)
    take(query, 1, now=1)
    query.push(rows((1, 2)), now=2)
    service.answer(2)
    output = take(query, 1, now=3)
    assert output.late.select("v", "w").rows() == [(2, 4)]


def test_a_silent_origin_does_not_make_its_row_in_flight_late(service: Service) -> None:
    """Its silence lets the watermark go on, but only behind the row."""
    stream = ev.stream(time="t", key="k", watermark=ev.ascending(origin="k", idle_timeout="10 s"))
    query = windowed(service, stream).start_local()
    query.push(rows((1, 1)), now=0)
    query.push(rows((100, 2)).with_columns(k=pl.lit("b")), now=1)
    service.answer(1, 2)
    take(query, 2, now=2)
    query.push(rows((2, 3)), now=3)  # of 'a', which is silent from here on
    query.push(rows((101, 4)).with_columns(k=pl.lit("b")), now=9 * S)
    assert query.push(now=15 * S).watermark_us == S
    service.answer(3, 4)
    output = take(query, 2, now=16 * S)
    assert output.late.is_empty() and output.watermark_us == 101 * S


def test_watermarks_from_outside_wait_behind_the_rows(service: Service) -> None:
    query = passing(service, ev.stream(time="t", key="k")).start_local()
    query.push(rows((1, 1)), now=0, watermark=50)
    assert query.push(now=1, watermark=60).watermark_us == MIN
    service.answer(1)
    assert take(query, 1, now=2).watermark_us == 60


def test_watermarks_of_other_keys_wait_behind_the_rows_each_by_itself(service: Service) -> None:
    plan = passing(service).plan
    operator = operator_of(plan, SCHEMA)
    calls = attach_background_calls(operator)
    assert calls is not None
    stamp = operator.stamp(rows((1, 1)), 0, MIN)
    step = operator.apply(operator.initial(), [stamp], 0, notes=[Watermark(0, 5), Watermark(7, 9)])
    nothing = operator.stamp(operator.no_rows(), 1, MIN)
    step = operator.apply(step.state, [nothing], 1, notes=[Watermark(7, 11)])
    assert dict(step.output.promises) == {}
    service.answer(1)
    calls.wait_for_answers()
    step = operator.apply(step.state, [nothing], 2)
    assert dict(step.output.promises) == {0: S, 7: 11}


def test_a_later_pipeline_of_a_chain_may_have_calls_that_span_bundles(service: Service) -> None:
    counts = STREAM.window(ev.tumbling("10 s")).agg(v=ev.count())
    later = ev.stream(time="window_time", key="k").map_async(service.call, output=OUTPUT, across_bundles=True)
    query = counts.then(later.window(ev.tumbling("1 minute")).agg(w=ev.sum("w"))).start_local()
    output = query.push(rows((1, 1), (2, 2), (70, 3)), now=0)
    assert output.in_flight == 1 and output.watermark_us == MIN
    service.answer(2)
    query.wait_for_calls()
    output = query.push(now=1)
    assert emitted(output) == [4] and output.in_flight == 0


# Several inputs


def both(first: int | None = None, other: int | None = None, *, t: int = 1) -> dict[str, pl.DataFrame]:
    named = {"left": first, "right": other}
    return {name: rows() if value is None else rows((t, value)) for name, value in named.items()}


def test_calls_of_one_side_hold_back_the_watermark_of_that_side_alone(service: Service) -> None:
    left = ev.stream(time="t", key="k", watermark=ev.ascending())
    right = ev.stream(time="t", key="k", watermark=ev.ascending(watermark_key=1))
    query = ev.join(spanning(service, left), right, within="10 s").start_local()
    query.push(both(1, 2), now=0)
    output = query.push(both(None, 3, t=30), now=1)
    assert output.promises.get(0, MIN) == MIN
    service.answer(1)
    output = take(query, 1, now=2)
    assert output.panes.select("v", "w", "v_right").rows() == [(1, 2, 2)]
    assert output.promise_of(0) == S


def test_an_idle_input_is_not_waited_for_once_its_rows_have_left(service: Service) -> None:
    stream = ev.stream(time="t", key="k", watermark=ev.ascending(idle_timeout="10 s"))
    query = ev.union(left=spanning(service, stream), right=spanning(service, stream))
    running = query.window(ev.tumbling("10 s")).agg(w=ev.collect_list("w")).start_local()
    running.push(both(1, 2), now=0)
    service.answer(2)
    take(running, 1, now=1)
    running.push(both(None, 3, t=50), now=9 * S)
    service.answer(3)
    assert take(running, 1, now=15 * S).watermark_us == MIN  # 'left' is silent, but has a row in flight
    service.answer(1)
    output = take(running, 1, now=16 * S)
    assert sorted(emitted(output)[0]) == [2, 4] and output.watermark_us == 50 * S


def test_an_input_ends_behind_its_rows(service: Service) -> None:
    query = ev.union(left=spanning(service), right=spanning(service))
    running = query.window(ev.tumbling("10 s")).agg(w=ev.collect_list("w")).start_local()
    running.push(both(1, 2, t=50), now=0)
    ended = threading.Timer(0.05, service.answer, [1])
    ended.start()
    assert running.end("left", now=1).in_flight == 1  # it waits for the calls of this input only
    service.answer(2)
    assert take(running, 1, now=2).watermark_us == 50 * S


def test_calls_within_a_bundle_and_across_bundles_can_be_mixed(service: Service) -> None:
    async def double(row: dict[str, Any]) -> dict[str, Any]:
        return {"w": 2 * row["v"]}

    within = STREAM.map_async(double, output=OUTPUT)
    query = (
        ev.union(left=spanning(service), right=within)
        .window(ev.global_window())
        .agg(w=ev.collect_list("w"))
        .start_local()
    )
    assert query.push(both(1, 2), now=0).in_flight == 1
    saved = query.save()
    service.answer(1)
    later = ev.union(left=spanning(service), right=within).window(ev.global_window()).agg(w=ev.collect_list("w"))
    query = later.start_local(saved=saved)
    query.push(now=1)
    service.answer(1)
    assert emitted(query.drain()) == [[2, 4]]


# Capacity and ends


def test_a_bundle_waits_while_more_rows_are_in_flight_than_the_capacity(service: Service) -> None:
    query = passing(service, capacity=2).start_local()
    query.push(rows((1, 1), (2, 2)), now=0)
    service.wait_for(1, 2)
    room = threading.Timer(0.05, service.answer, [1])
    room.start()
    output = query.push(rows((3, 3)), now=1)
    assert emitted(output) == [2] and output.in_flight == 2
    service.answer(2, 3)
    assert emitted(take(query, 2, now=2)) == [4, 6]


def test_rows_that_wait_for_their_turn_take_room(service: Service) -> None:
    query = passing(service, capacity=2).start_local()
    query.push(rows((1, 1), (2, 2)), now=0)
    service.answer(2)
    query.wait_for_calls(1)
    room = threading.Timer(0.05, service.answer, [1])
    room.start()
    output = query.push(rows((3, 3)), now=1)
    assert emitted(output) == [2, 4] and output.in_flight == 1


def test_so_many_calls_run_at_a_time_and_not_more() -> None:
    running, most = 0, 0

    async def counted(row: dict[str, Any]) -> dict[str, Any]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(row["v"]):
            await asyncio.sleep(0)
        running -= 1
        return {"w": row["v"]}

    result = passing(counted, capacity=4).local([rows(*((i, i % 5) for i in range(30))) for _ in range(3)])
    assert most == 4 and result.panes.height == 90


def test_the_end_of_the_stream_waits_for_all_calls(service: Service) -> None:
    query = windowed(service).start_local()
    query.push(rows((1, 1), (20, 2)), now=0)
    answers = threading.Timer(0.05, service.answer, [2, 1])
    answers.start()
    output = query.drain()
    assert emitted(output) == [[2], [4]] and output.watermark_us == MAX and output.in_flight == 0


def test_a_run_in_process_gives_all_rows() -> None:
    async def slow(row: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0.001 * (row["v"] % 3))
        return {"w": row["v"]}

    bundles = [rows(*((10 * b + i, 10 * b + i) for i in range(10))) for b in range(5)]
    result = windowed(slow, ordered=False).local(bundles)
    assert sorted(w for ws in result.panes["w"] for w in ws) == list(range(50))
    assert result.late.is_empty() and result.metrics.rows == 50 and result.metrics.balanced


# Failures


def test_a_row_whose_call_fails_is_a_dead_letter_and_holds_nothing_back(service: Service) -> None:
    query = passing(service).start_local()
    query.push(rows((1, 1), (2, 2)), now=0)
    service.fail(2)
    output = take(query, 1, now=1)
    assert output.dead.select("v", "w", "ev_reason", "ev_detail").rows() == [
        (2, None, "failed", "ValueError: no (in call, attempt 1)")
    ]
    service.answer(1)
    output = take(query, 1, now=2)
    assert emitted(output) == [2] and output.watermark_us == 2 * S


def test_a_row_without_a_usable_time_is_a_dead_letter_at_once_and_not_called_for(service: Service) -> None:
    query = passing(service).start_local()
    output = query.push(rows((1, 1)).with_columns(t=pl.lit(None, pl.Int64)), now=0)
    assert output.dead["ev_reason"].to_list() == ["null_time"] and output.in_flight == 0
    assert service.calls == []


def test_a_repeated_number_is_a_dead_letter_although_the_first_row_is_in_flight(service: Service) -> None:
    stream = ev.stream(time="t", key="k", watermark=ev.ascending(sequence="v")).deduplicate()
    query = passing(service, stream).start_local()
    query.push(rows((1, 1)), now=0)
    output = query.push(rows((1, 1), (2, 2)), now=1)
    assert output.dead["ev_reason"].to_list() == ["duplicate"] and output.in_flight == 2
    service.answer(1, 2)
    assert emitted(take(query, 2, now=2)) == [2, 4]


def test_a_bundle_that_fails_leaves_no_calls_behind_for_the_numbers_of_its_rows(service: Service) -> None:
    class Picky(ev.Processor):
        def process(self, edge: str, rows: pl.DataFrame) -> None:
            if 2 in rows["v"]:
                service.wait_for(3)  # or the failure may cancel the call before it begins
                raise RuntimeError("picky")
            self.emit(rows.select("w"))

    query = spanning(service, ordered=False).process(Picky(), output=OUTPUT).start_local()
    query.push(rows((1, 1), (2, 2)), now=0)
    service.answer(2)
    query.wait_for_calls(1)
    with pytest.raises(ev.DataError, match="picky"):
        query.push(rows((3, 3)), now=1)
    query.retire(None)

    def answer() -> None:
        service.wait_for(1, 2, times=2)  # the first calls may still be open
        service.answer(1, 2, 4)

    with pytest.raises(ev.DataError, match="picky"):
        threading.Thread(target=answer).start()
        query.push(rows((3, 4)), now=1, watermark=MAX)
    assert service.calls == [1, 2, 3, 1, 2, 4]


# Restarts


def test_a_restart_calls_again_for_the_rows_in_flight(service: Service) -> None:
    pipeline = windowed(service)
    query = pipeline.start_local()
    query.push(rows((1, 1), (2, 2), (20, 3)), now=0)
    service.answer(2)
    take(query, 1, now=1)
    later = pipeline.start_local(saved=query.save())
    assert later.push(now=2).in_flight == 3
    service.wait_for(1, 3, times=2)  # the calls of the first query are still open
    service.answer(1, 3)
    assert emitted(later.drain()) == [[2, 4], [6]]
    assert sorted(service.calls) == [1, 1, 2, 3, 3]  # the answer for 2 was in state


def test_state_in_pages_has_the_rows_in_flight(service: Service) -> None:
    operator = operator_of(windowed(service, capacity=9000).plan, SCHEMA)
    calls = attach_background_calls(operator)
    assert calls is not None
    paged = Paged(operator)  # type: ignore[arg-type]
    many = rows(*((1, v) for v in range(5000)))
    paged.step(lambda state: operator.step(state, Bundle(many, 0)))
    paged.restart()
    assert paged.state.store.queues[0].waiting["v"].to_list() == list(range(5000))
    calls.cancel()


def test_rows_in_flight_have_nulls_in_columns_that_the_source_has_since(service: Service) -> None:
    operator = operator_of(passing(service).plan, SCHEMA)
    attach_background_calls(operator)
    paged = Paged(operator)  # type: ignore[arg-type]
    paged.step(lambda state: operator.step(state, Bundle(rows((1, 1)), 0)))
    paged.operator = wider = operator_of(passing(service).plan, {**SCHEMA, "x": pl.Int64()})  # type: ignore[assignment]
    attach_background_calls(wider)
    paged.restart()
    paged.step(lambda state: wider.step(state, Bundle(rows((2, 2)).with_columns(x=pl.lit(7, pl.Int64)), 1)))
    assert paged.state.store.queues[0].waiting.select("v", "x").rows() == [(1, None), (2, 7)]
    service.wait_for(1, 2)


def test_the_option_cannot_change_under_a_state(service: Service) -> None:
    within = STREAM.map_async(service.call, output=OUTPUT).window(ev.tumbling("10 s")).agg(w=ev.collect_list("w"))
    across = windowed(service)
    plain = STREAM.window(ev.tumbling("10 s")).agg(w=ev.collect_list("v"))
    for pipeline in (within, plain):
        with pytest.raises(ev.PlanError, match="saved with it, and this plan is without"):
            pipeline.start_local(saved=across.start_local(SCHEMA).save())
        with pytest.raises(ev.PlanError, match="without across_bundles=True, and this plan has it"):
            across.start_local(saved=pipeline.start_local(SCHEMA).save())


def test_a_repeated_batch_delivers_what_had_been_answered_and_a_restart_continues(
    service: Service, tmp_path: Path
) -> None:
    checkpoint, pipeline = Checkpoint(tmp_path), windowed(service)

    def started() -> tuple[Driver, BackgroundCalls]:
        driver = Driver(checkpoint, pipeline, [{name: dtype() for name, dtype in SCHEMA.items()}])
        calls = attach_background_calls(driver.chain.operators[0])
        assert calls is not None
        return driver, calls

    first, calls = started()
    checkpoint.log_offsets(0, 0)
    assert first.batch(0, [rows((1, 1), (15, 2), (30, 3))]).operators[0]["counts"]["in_flight"] == 3
    service.answer(1, 2)
    calls.wait_for_answers(2)
    checkpoint.log_offsets(1, S)
    delivered = first.batch(1, [rows((31, 4))], finish=False)
    assert not delivered.tables  # the watermark waits for the third row
    again, calls = started()
    repeated = again.batch(1, [rows()])
    assert repeated.restored and repeated.operators == delivered.operators
    checkpoint.log_offsets(2, 2 * S)
    assert again.batch(2, [rows()]).operators[0]["counts"]["in_flight"] == 2
    service.wait_for(3, 4)
    service.answer(3, 4)
    calls.wait_for_answers()
    checkpoint.log_offsets(3, 3 * S)
    panes = again.batch(3, [rows()]).tables["panes", 0]
    assert panes.column("w").to_pylist() == [[2], [4]]
    assert sorted(service.calls) == [1, 2, 3, 3, 4, 4]


def test_state_with_calls_across_bundles_cannot_move_to_the_executors(service: Service, tmp_path: Path) -> None:
    host = DriverHost(tmp_path, windowed(service), {name: dtype() for name, dtype in SCHEMA.items()})
    host.bundle(rows(), now=0, watermark=None)
    with pytest.raises(ev.PlanError, match="so remove the option"):
        host.stored(2)


# Row identity


@settings(max_examples=examples(30), deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 90), st.sampled_from(["keep", "drop", "fail"])), max_size=6), max_size=6
    ),
    st.booleans(),
    st.integers(1, 5),
    st.data(),
)
def test_rows_in_are_rows_out_late_dead_and_in_flight(
    bundles: list[list[tuple[int, str]]], ordered: bool, capacity: int, data: st.DataObject
) -> None:
    fates = [fate for bundle in bundles for _, fate in bundle]

    async def fated(row: dict[str, Any]) -> Any:
        await asyncio.sleep(0.0005 * (row["v"] % 3))
        if fates[row["v"]] == "fail":
            raise ValueError
        return {"w": row["v"]} if fates[row["v"]] == "keep" else None

    pipeline = windowed(fated, ordered=ordered, capacity=capacity)
    query = pipeline.start_local(SCHEMA)
    pushed, outputs = 0, []
    for now, bundle in enumerate(bundles):
        frame = rows(*((t, pushed + i) for i, (t, _) in enumerate(bundle)))
        pushed += len(bundle)
        outputs.append(query.push(frame, now=now))
        if data.draw(st.booleans()):
            query.wait_for_calls(data.draw(st.integers(0, 3)))
        if data.draw(st.booleans()):
            query = pipeline.start_local(saved=query.save())
        counts = [output.counts for output in outputs]
        assert all(count.balanced for count in counts)
        known = sum(count.rows for count in counts) + outputs[-1].in_flight
        assert pushed - fates[:pushed].count("drop") <= known <= pushed
    outputs.append(query.drain(now=len(bundles)))
    kept = sorted(w for output in outputs for ws in output.panes["w"] for w in ws)
    late = [v for output in outputs for v in output.late["v"]]
    dead = sorted(v for output in outputs for v in output.dead["v"])
    assert sorted([*kept, *late]) == [v for v, fate in enumerate(fates) if fate == "keep"]
    assert dead == [v for v, fate in enumerate(fates) if fate == "fail"]
    assert outputs[-1].in_flight == 0 and outputs[-1].watermark_us == MAX


# Tests and plans


def test_a_host_that_makes_no_calls_between_bundles_waits_for_them() -> None:
    async def double(row: dict[str, Any]) -> dict[str, Any]:
        return {"w": 2 * row["v"]}

    operator = operator_of(passing(double).plan, SCHEMA)
    step = operator.step(operator.initial(), Bundle(rows((1, 1), (2, 2)), 0))
    assert emitted(step.output) == [2, 4] and step.output.in_flight == 0


def test_a_test_stream_waits_for_answers() -> None:
    async def double(row: dict[str, Any]) -> dict[str, Any]:
        return {"w": 2 * row["v"]}

    (
        TestStream(windowed(double), schema=SCHEMA)
        .add({"t": "00:00:01", "k": "a", "v": 1}, {"t": "00:00:20", "k": "a", "v": 2})
        .wait_for_calls()
        .expect(pane(k="a", w=[2]))
        .expect_watermark("00:00:20")
        .end()
        .expect(pane(k="a", w=[4]))
    )


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda s: spanning(s).map_async(s.call, output=OUTPUT), "one .map_async per input"),
        (lambda s: spanning(s, STREAM.map_async(s.call, output=OUTPUT)), "make both calls in one function"),
        (lambda s: STREAM.map_async(s.call, output=OUTPUT, across_bundles=1), "across_bundles=1 must be True or False"),
    ],
)
def test_a_plan_that_cannot_work_is_rejected_when_it_is_built(service: Service, build: Any, message: str) -> None:
    with pytest.raises(ev.PlanError, match=message):
        build(service)


def test_time_must_be_known_when_rows_arrive(service: Service) -> None:
    stream = ev.stream(time="w", key="k", watermark=ev.ascending())
    with pytest.raises(ev.PlanError, match="the time or the watermark reads 'w', which the calls give"):
        windowed(service, stream).start_local(SCHEMA)


def test_windows_by_offset_are_rejected(service: Service) -> None:
    stream = ev.stream(time="t", watermark=ev.ascending(sequence="v"))
    pipeline = spanning(service, stream).window(ev.rows(2, by="v")).agg(n=ev.count())
    with pytest.raises(ev.PlanError, match="windows by= an offset"):
        pipeline.start_local(SCHEMA)


def test_the_watermark_cannot_be_lowered(service: Service) -> None:
    query = windowed(service).start_local(SCHEMA)
    query.push(rows(), now=0, watermark=100)
    with pytest.raises(ev.PlanError, match="calls span bundles"):
        query.lower_watermark(50)
