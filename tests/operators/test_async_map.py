"""Rows that wait for an answer, and watermarks that do not overtake them."""

import asyncio
import selectors

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventide.errors import DataError, PlanError
from eventide.operators.async_map import DeadLetter, InFlight, Result, async_options, call_all, run_async
from eventide.watermarks import Watermark


def wm(time, key=0):
    return Watermark(key, time)


def flight(**options):
    return InFlight(async_options(**options))


BOTH = pytest.mark.parametrize("ordered", [True, False])


# Ordered


def test_ordered_results_leave_in_the_order_of_their_items():
    calls = flight()
    first, second = calls.submit("a"), calls.submit("b")
    calls.complete(second, 2)
    assert calls.drain() == []
    calls.complete(first, 1)
    assert calls.drain() == [Result("a", 1), Result("b", 2)]


def test_ordered_watermarks_keep_their_place():
    calls = flight()
    first = calls.submit("a")
    calls.watermark(wm(5))
    second = calls.submit("b")
    calls.complete(second, 2)
    assert calls.drain() == []
    calls.complete(first, 1)
    assert calls.drain() == [Result("a", 1), wm(5), Result("b", 2)]


def test_a_waiting_watermark_is_replaced_by_the_next_of_its_key():
    calls = flight()
    first = calls.submit("a")
    calls.watermark(wm(5))
    calls.watermark(wm(6))
    calls.complete(first, 1)
    assert calls.drain() == [Result("a", 1), wm(6)]


def test_a_waiting_watermark_of_another_key_is_not_replaced():
    calls = flight()
    first = calls.submit("a")
    for mark in (wm(5, key=0), wm(5, key=1), wm(6, key=0)):
        calls.watermark(mark)
    calls.complete(first, 1)
    assert calls.drain() == [Result("a", 1), wm(5, key=0), wm(5, key=1), wm(6, key=0)]


def test_a_watermark_before_an_item_is_not_replaced_by_one_after_it():
    calls = flight()
    first = calls.submit("a")
    calls.watermark(wm(5))
    second = calls.submit("b")
    calls.watermark(wm(6))
    calls.complete(first, 1)
    assert calls.drain() == [Result("a", 1), wm(5)]
    calls.complete(second, 2)
    assert calls.drain() == [Result("b", 2), wm(6)]


# Unordered


def test_unordered_results_leave_as_they_come():
    calls = flight(ordered=False)
    first, second = calls.submit("a"), calls.submit("b")
    calls.complete(second, 2)
    assert calls.drain() == [Result("b", 2)]
    calls.complete(first, 1)
    assert calls.drain() == [Result("a", 1)]


def test_an_unordered_watermark_waits_for_all_items_before_it():
    calls = flight(ordered=False)
    first, second = calls.submit("a"), calls.submit("b")
    calls.watermark(wm(5))
    third = calls.submit("c")
    calls.complete(third, 3)
    calls.complete(first, 1)
    assert calls.drain() == [Result("c", 3), Result("a", 1)]
    calls.complete(second, 2)
    assert calls.drain() == [Result("b", 2), wm(5)]


def test_watermarks_are_released_up_to_the_first_that_still_waits():
    calls = flight(ordered=False)
    one = calls.submit("a")
    calls.watermark(wm(5))
    two = calls.submit("b")
    calls.watermark(wm(6, key=1))
    three = calls.submit("c")
    calls.watermark(wm(7))
    calls.complete(two, 2)
    assert calls.drain() == [Result("b", 2)]
    calls.complete(one, 1)
    assert calls.drain() == [Result("a", 1), wm(5), wm(6, key=1)]
    calls.complete(three, 3)
    assert calls.drain() == [Result("c", 3), wm(7)]


def test_waiting_unordered_watermarks_are_replaced_per_key():
    calls = flight(ordered=False)
    one = calls.submit("a")
    for mark in (wm(5, key=0), wm(5, key=1), wm(6, key=0)):
        calls.watermark(mark)
    calls.complete(one, 1)
    assert calls.drain() == [Result("a", 1), wm(6, key=0), wm(5, key=1)]


@BOTH
def test_with_nothing_in_flight_a_watermark_leaves_at_once_and_only_once(ordered):
    calls = flight(ordered=ordered)
    calls.watermark(wm(5))
    assert calls.drain() == [wm(5)]
    assert calls.drain() == []
    number = calls.submit("a")
    calls.complete(number, 1)
    assert calls.drain() == [Result("a", 1)]


# Capacity


@BOTH
def test_no_more_calls_than_the_capacity(ordered):
    calls = flight(ordered=ordered, capacity=2)
    first = calls.submit("a")
    calls.submit("b")
    assert calls.full
    with pytest.raises(DataError, match="already holds 2 calls"):
        calls.submit("c")
    calls.complete(first, 1)
    calls.drain()
    assert not calls.full


def test_results_that_cannot_leave_yet_take_room():
    calls = flight(capacity=2)
    calls.submit("a")
    second = calls.submit("b")
    calls.complete(second, 2)
    calls.drain()
    assert calls.full


# Failures


@BOTH
def test_a_failed_call_is_a_dead_letter(ordered):
    calls = flight(ordered=ordered)
    number, error = calls.submit("a"), ValueError("no")
    calls.watermark(wm(5))
    assert calls.fail(number, error) is None
    assert calls.drain() == [DeadLetter("a", error, 1, "failed"), wm(5)]


def test_a_failed_call_is_retried_up_to_the_limit_with_growing_waits():
    calls = flight(retries=3, backoff=["1s", "2s"])
    number, error = calls.submit("a"), TimeoutError()
    assert [calls.fail(number, error) for _ in range(4)] == [1_000_000, 2_000_000, 2_000_000, None]
    assert calls.drain() == [DeadLetter("a", error, 4)]


def test_without_a_backoff_a_retry_is_immediate():
    calls = flight(retries=1)
    assert calls.fail(calls.submit("a"), ValueError()) == 0


def test_a_retried_call_still_holds_its_watermark():
    calls = flight(ordered=False, retries=1)
    number = calls.submit("a")
    calls.watermark(wm(5))
    calls.fail(number, ValueError())
    assert calls.drain() == []
    calls.complete(number, 1)
    assert calls.drain() == [Result("a", 1), wm(5)]


@BOTH
def test_an_answer_after_the_end_changes_nothing(ordered):
    calls = flight(ordered=ordered)
    number = calls.submit("a")
    calls.fail(number, TimeoutError())
    assert calls.complete(number, 1) is False
    assert calls.fail(number, TimeoutError()) is None
    assert len(calls.drain()) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capacity": 0}, "capacity=0 must be an integer of at least 1"),
        ({"capacity": True}, "capacity=True must be"),
        ({"retries": -1}, "retries=-1 must be an integer of at least 0"),
        ({"timeout": 5}, "timeout of map_async.*has no unit"),
        ({"timeout": "0s"}, "timeout of map_async.*longer than zero"),
        ({"backoff": ["-1s"]}, "backoff of map_async.*negative"),
    ],
)
def test_a_mistake_in_the_options_is_refused(options, message):
    with pytest.raises(PlanError, match=message):
        async_options(**options)


def test_one_backoff_is_for_all_attempts():
    assert async_options(backoff="1s").backoff == (1_000_000,)


# Against a model that looks at the whole history


STEPS = st.lists(
    st.one_of(
        st.just("submit"),
        st.tuples(st.just("mark"), st.integers(0, 1)),
        st.tuples(st.sampled_from(["complete", "fail"]), st.integers(0, 8)),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(STEPS, st.booleans())
def test_every_item_leaves_once_and_no_watermark_overtakes_or_lags(steps, ordered):
    calls = flight(ordered=ordered, capacity=1000)
    came, left, waiting = [], [], {}
    for time, step in enumerate(steps):
        if step == "submit":
            waiting[calls.submit(len(came))] = len(came)
            came.append(len(came))
        elif step[0] == "mark":
            calls.watermark(wm(time, step[1]))
            came.append(wm(time, step[1]))
        elif waiting:
            number = sorted(waiting)[step[1] % len(waiting)]
            del waiting[number]
            if step[0] == "complete":
                calls.complete(number, None)
            else:
                calls.fail(number, ValueError())
        left += [output if isinstance(output, Watermark) else output.item for output in calls.drain()]
        held_from = min(waiting.values(), default=len(came))
        free = [item for item in came[:held_from] if not isinstance(item, Watermark)]
        ended = [item for item in came if not isinstance(item, Watermark) and item not in waiting.values()]
        items = [item for item in left if not isinstance(item, Watermark)]
        assert items == free if ordered else sorted(items) == ended
        for key in (0, 1):
            due = [mark for mark in came[:held_from] if isinstance(mark, Watermark) and mark.key == key]
            sent = [mark for mark in left if isinstance(mark, Watermark) and mark.key == key]
            assert sent[-1:] == due[-1:]  # as far as it may go, and no further
            assert sent == [mark for mark in due if mark in sent]


# The driver, on a clock that does not wait


class VirtualLoop(asyncio.SelectorEventLoop):
    """Time passes only when everybody waits, and then at once."""

    def __init__(self):
        self.now = 0.0
        selector = selectors.DefaultSelector()
        select = selector.select

        def leap(timeout=None):
            ready = select(0)
            if not ready and timeout:
                self.now += timeout
            return ready

        selector.select = leap
        super().__init__(selector)

    def time(self):
        return self.now


def drive(fn, items, **options):
    async def collected():
        return [output async for output in run_async(fn, items, **options)]

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        outputs = runner.run(collected())
        return outputs, runner.get_loop().time()


async def after(item):
    """An item is how many seconds its call takes."""
    await asyncio.sleep(item)
    return -item


def test_many_calls_run_at_a_time():
    outputs, took = drive(after, [3, 2, 1])
    assert outputs == [Result(3, -3), Result(2, -2), Result(1, -1)]
    assert took == pytest.approx(3)


def test_unordered_calls_leave_as_they_end():
    outputs, _ = drive(after, [3, wm(5), 1, 2], ordered=False)
    assert outputs == [Result(1, -1), Result(2, -2), Result(3, -3), wm(5)]


def test_no_more_calls_at_a_time_than_the_capacity():
    outputs, took = drive(after, [1, 1, 1, 1], capacity=2)
    assert len(outputs) == 4
    assert took == pytest.approx(2)


def test_a_call_that_takes_too_long_is_a_dead_letter():
    outputs, took = drive(after, [1, 99], timeout="5s")
    assert outputs[0] == Result(1, -1)
    assert isinstance(outputs[1].error, TimeoutError)
    assert took == pytest.approx(5)


def test_a_failing_call_is_tried_again_after_its_backoff():
    tried = []

    async def flaky(item):
        tried.append(asyncio.get_running_loop().time())
        if len(tried) < 3:
            raise ValueError(item)
        return "answer"

    outputs, _ = drive(flaky, ["x"], retries=5, backoff=["1s", "10s"])
    assert outputs == [Result("x", "answer")]
    assert tried == pytest.approx([0, 1, 11])


def test_a_call_that_always_fails_is_a_dead_letter_and_the_others_go_on():
    async def fails(item):
        if item == 1:
            raise ValueError("one")
        return item

    outputs, _ = drive(fails, [1, 2], retries=2)
    assert (outputs[0].item, outputs[0].attempts, outputs[0].reason, str(outputs[0].error)) == (1, 3, "failed", "one")
    assert outputs[1] == Result(2, 2)


def test_calls_still_in_flight_are_cancelled_when_nobody_listens():
    cancelled = []

    async def slow(item):
        try:
            await asyncio.sleep(item)
        except asyncio.CancelledError:
            cancelled.append(item)
            raise
        return item

    async def first_only():
        outputs = run_async(slow, [1, 50, 60], ordered=False)
        first = await anext(outputs)
        await outputs.aclose()
        await asyncio.sleep(0)
        return first, sorted(cancelled)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(first_only()) == (Result(1, 1), [50, 60])


def test_nothing_in_nothing_out():
    assert call_all(after, []) == []


def test_a_loop_of_its_own_for_callers_without_one():
    assert call_all(after, [0, wm(1)], retries=1) == [Result(0, 0), wm(1)]
