"""Rows that wait for an answer, and watermarks that do not overtake them."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventide.operators.call_queue import IDLE, NUMBER, CallQueue

SCHEMA = {"v": pl.Int64()}
BOTH = pytest.mark.parametrize("ordered", [True, False])


class Flow:
    """A queue, and what has left it."""

    def __init__(self, *, ordered: bool) -> None:
        self.queue = CallQueue.empty(SCHEMA, SCHEMA)
        self.ordered = ordered

    def arrive(self, *values: int) -> None:
        self.queue = self.queue.arrive(pl.DataFrame({"v": list(values)}, schema=SCHEMA))

    def mark(self, time: int, key: int = 0) -> None:
        self.queue = self.queue.mark(key, time)

    def answer(self, *values: int, times: int = 1) -> None:
        for value in values:
            row = self.queue.waiting.filter(pl.col("v") == value)
            self.queue = self.queue.settle(row[NUMBER].to_list(), pl.concat([row] * times) if times else row.clear())

    def leave(self) -> list[int]:
        """The rows that leave; a queue that was saved and restored goes on in the same way."""
        self.queue, rows = CallQueue.restore(self.queue.saved()).leave(ordered=self.ordered)
        return rows["v"].to_list()

    @property
    def time(self) -> int | None:
        return self.queue.released.get(0)


def test_ordered_rows_leave_in_the_order_of_their_arrival() -> None:
    flow = Flow(ordered=True)
    flow.arrive(1, 2)
    flow.answer(2)
    assert flow.leave() == []
    flow.answer(1)
    assert flow.leave() == [1, 2]


def test_unordered_rows_leave_as_they_are_answered() -> None:
    flow = Flow(ordered=False)
    flow.arrive(1, 2, 3)
    flow.answer(3, 2)
    assert flow.leave() == [3, 2]
    flow.answer(1)
    assert flow.leave() == [1]


@BOTH
def test_a_watermark_waits_for_all_rows_before_it_and_for_none_behind_it(ordered: bool) -> None:
    flow = Flow(ordered=ordered)
    flow.arrive(1, 2)
    flow.mark(5)
    flow.arrive(3)
    flow.answer(3, 1)
    flow.leave()
    assert flow.time is None
    flow.answer(2)
    flow.leave()
    assert flow.time == 5


@BOTH
def test_watermarks_are_released_up_to_the_first_that_still_waits(ordered: bool) -> None:
    flow = Flow(ordered=ordered)
    flow.arrive(1)
    flow.mark(5)
    flow.arrive(2)
    flow.mark(6, key=1)
    flow.arrive(3)
    flow.mark(7)
    flow.answer(2)
    flow.leave()
    assert flow.queue.released == {}
    flow.answer(1)
    flow.leave()
    assert flow.queue.released == {0: 5, 1: 6}
    flow.answer(3)
    flow.leave()
    assert flow.queue.released == {0: 7, 1: 6}


def test_a_waiting_watermark_is_replaced_by_the_next_of_its_key_only() -> None:
    flow = Flow(ordered=True)
    flow.arrive(1)
    for time, key in ((5, 0), (5, 1), (6, 0)):
        flow.mark(time, key)
    assert flow.queue.marks == ((1, 1, 5), (1, 0, 6))


def test_a_watermark_before_a_row_is_not_replaced_by_one_behind_it() -> None:
    flow = Flow(ordered=True)
    flow.arrive(1)
    flow.mark(5)
    flow.arrive(2)
    flow.mark(6)
    flow.answer(1)
    assert flow.leave() == [1]
    assert flow.time == 5


def test_a_watermark_never_goes_back_but_silence_ends() -> None:
    flow = Flow(ordered=True)
    for time in (5, 4, 5):
        flow.mark(time)
    assert flow.queue.marks == ((0, 0, 5),)
    for silent in (1, 0):
        flow.mark(silent, IDLE)
        flow.leave()
        assert flow.queue.released[IDLE] == silent
    flow.mark(3)
    assert flow.queue.marks == ()


def test_rows_that_cannot_leave_yet_are_in_flight_once_however_many_rows_they_become() -> None:
    flow = Flow(ordered=True)
    flow.arrive(1, 2, 3)
    flow.answer(2, times=2)
    assert flow.leave() == [] and flow.queue.in_flight == 3
    flow.answer(3, times=0)
    assert flow.leave() == [] and flow.queue.in_flight == 2
    flow.answer(1)
    assert flow.leave() == [1, 2, 2] and flow.queue.in_flight == 0


STEPS = st.lists(
    st.one_of(
        st.just(("arrive", 0)),
        st.tuples(st.just("mark"), st.integers(0, 1)),
        st.tuples(st.sampled_from(["answer", "fail"]), st.integers(0, 8)),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(STEPS, st.booleans())
def test_every_row_leaves_once_and_no_watermark_overtakes_or_lags(steps: list[tuple[str, int]], ordered: bool) -> None:
    flow = Flow(ordered=ordered)
    came: list[int | tuple[int, int]] = []  # rows by their values, watermarks as (key, time)
    left: list[int] = []
    waiting: list[int] = []
    failed: set[int] = set()
    for time, (step, number) in enumerate(steps):
        if step == "arrive":
            flow.arrive(time)
            waiting.append(time)
            came.append(time)
        elif step == "mark":
            flow.mark(time, number)
            came.append((number, time))
        elif waiting:
            value = waiting.pop(number % len(waiting))
            flow.answer(value, times=int(step == "answer"))
            failed |= {value} if step == "fail" else set()
        left += flow.leave()
        held_from = min(map(came.index, waiting), default=len(came))
        rows = [row for row in came if isinstance(row, int) and row not in failed]
        if ordered:
            assert left == [row for row in came[:held_from] if row in rows]
        else:
            assert sorted(left) == [row for row in rows if row not in waiting]
        free = dict(mark for mark in came[:held_from] if isinstance(mark, tuple))
        assert flow.queue.released == free  # as far as they may go, and no further
