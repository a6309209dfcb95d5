"""Calls with attempts, and the calls of a bundle, on a clock that does not wait."""

import asyncio
import selectors

import pytest

from eventide.errors import PlanError
from eventide.operators import async_calls as async_map
from eventide.operators.async_calls import Failure, Result, attempt, call_rows
from eventide.plan.async_call import async_options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capacity": 0}, "capacity=0 must be an integer of at least 1"),
        ({"capacity": True}, "capacity=True must be"),
        ({"retries": -1}, "retries=-1 must be an integer of at least 0"),
        ({"across_bundles": "yes"}, "across_bundles='yes' must be True or False"),
        ({"timeout": 5}, "timeout of map_async.*has no unit"),
        ({"timeout": "0s"}, "timeout of map_async.*longer than zero"),
        ({"backoff": ["-1s"]}, "backoff of map_async.*negative"),
    ],
)
def test_a_mistake_in_the_options_is_rejected(options, message):
    with pytest.raises(PlanError, match=message):
        async_options(**options)


def test_one_backoff_is_for_all_attempts():
    assert async_options(backoff="1s").backoff == (1_000_000,)


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


@pytest.fixture
def loop(monkeypatch):
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        monkeypatch.setattr(async_map, "_runner", lambda: runner)
        yield runner.get_loop()


async def after(row):
    """A row is how many seconds its call takes."""
    await asyncio.sleep(row)
    return -row


def test_many_calls_run_at_a_time_and_answers_come_as_calls_end(loop):
    answers = call_rows(after, [3, 2, 1], async_options())
    assert answers == [(2, Result(-1)), (1, Result(-2)), (0, Result(-3))]
    assert loop.time() == pytest.approx(3)


def test_no_more_calls_at_a_time_than_the_capacity(loop):
    assert len(call_rows(after, [1, 1, 1, 1], async_options(capacity=2))) == 4
    assert loop.time() == pytest.approx(2)


def test_a_call_that_takes_too_long_has_failed(loop):
    (_, first), (_, second) = call_rows(after, [1, 99], async_options(timeout="5s"))
    assert first == Result(-1)
    assert isinstance(second, Failure) and isinstance(second.error, TimeoutError)
    assert loop.time() == pytest.approx(5)


def test_a_failing_call_is_tried_again_after_its_backoff(loop):
    tried = []

    async def flaky(row):
        tried.append(loop.time())
        if len(tried) < 3:
            raise ValueError(row)
        return "answer"

    options = async_options(retries=5, backoff=["1s", "10s"])
    assert loop.run_until_complete(attempt(flaky, "x", options)) == Result("answer")
    assert tried == pytest.approx([0, 1, 11])


def test_a_call_that_always_fails_ends_with_its_last_error_and_the_others_continue(loop):
    async def fails(row):
        if row == 1:
            raise ValueError("one")
        return row

    answers = dict(call_rows(fails, [1, 2], async_options(retries=2)))
    assert (answers[0].attempts, str(answers[0].error)) == (3, "one")
    assert answers[1] == Result(2)


def test_nothing_in_nothing_out():
    assert call_rows(after, [], async_options()) == []
