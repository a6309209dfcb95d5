"""The next deadline of an operator: until then a step without rows changes nothing, and nothing is missed after it.

A run that is stepped at every moment and a run that is stepped only at its deadlines emit the same, at the same times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest

import eventide as ev
from eventide.operators.chain import Chain
from eventide.operators.deadlines import CLOCK_STEP
from eventide.operators.factory import operator_of
from eventide.operators.operator import Bundle, Step, StreamOperator
from eventide.state.operator_state import State
from eventide.state.pane_table import CLOCK, DUE, HASH, PaneTable
from eventide.time import MAX, MIN
from eventide.watermarks import Watermark
from tests.effort import SEED, examples
from tests.oracle import join_histories
from tests.oracle.compare import bound, written
from tests.oracle.histories import FAMILIES, HOUR, History, frame_of, random_histories
from tests.processors.test_processor_histories import PUPPET, SCHEMA

PLANS = examples(2)
AFTER = 40  # moments that are looked at after the last bundle

Push = tuple[int, Callable[[State], Step[State]]]


class Run:
    """An operator whose emissions are noted with their time."""

    def __init__(self, operator: StreamOperator) -> None:
        self.operator = operator
        self.state = operator.initial()
        self.emitted: list[tuple[int, str]] = []

    def push(self, now: int, step: Callable[[State], Step[State]]) -> None:
        done = step(self.state)
        self.state = done.state
        frames = done.output.panes, done.output.late, done.output.dead
        if any(frame.height for frame in frames):
            self.emitted.append((now, repr([frame.rows() for frame in frames])))

    def tick(self, now: int) -> str:
        """A step without rows; what it emits, and what stands after it, but for a watermark that follows the clock."""
        edges = range(len(self.operator.schemas))
        stamps = [self.operator.stamp(self.operator.no_rows(edge), now, self.state.watermark, edge) for edge in edges]
        self.push(now, lambda state: self.operator.apply(state, stamps, now))
        clocked = bool(self.operator.lags())
        if self.state.watermark == MAX:  # the stream has ended, so nobody waits for an origin
            return repr(len(self.emitted))
        metrics = self.state.tracker.metrics()
        return repr((len(self.emitted), metrics.idle_origins, clocked or (metrics, self.state.watermark)))


def check(operator: StreamOperator, pushes: Sequence[Push], unit: int = 1) -> None:
    """Compare a run that is stepped every ``unit`` with one that is stepped at its deadlines."""
    always, seldom = Run(operator), Run(operator)
    last = pushes[-1][0] + AFTER * unit
    for number, (now, step) in enumerate(pushes):
        if number and operator.lags() and seldom.state.now < now - unit:
            # Rows are judged by the watermark of the last step: where it follows the clock, both must have one.
            seldom.tick(now - unit)
        always.push(now, step)
        seldom.push(now, step)
        until = pushes[number + 1][0] if number + 1 < len(pushes) else last
        before = None
        for moment in range(now + unit, until, unit):
            deadline = operator.next_deadline(always.state)
            assert deadline is None or deadline > always.state.now
            after = always.tick(moment)
            if before is not None and (deadline is None or deadline > moment):
                assert after == before, f"something happened at {moment}, before the deadline {deadline}"
            before = after
        while (deadline := operator.next_deadline(seldom.state)) is not None and deadline < until:
            assert deadline > seldom.state.now
            seldom.tick(deadline)
    assert seldom.emitted == always.emitted


def pushes_of(history: History, operator: Any) -> list[Push]:
    return [
        (
            push.now,
            lambda state, push=push: operator.step(
                state,
                Bundle(frame_of(push.rows), push.now, () if push.note is None else (Watermark(0, push.note),)),
            ),
        )
        for push in history.pushes
    ]


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_a_window_misses_nothing_between_two_deadlines(family: str) -> None:
    for number in range(PLANS):
        seed = f"{SEED}/deadlines/{family}/{number}"
        for history in random_histories(Random(seed), family, 2):
            operator = bound(history)
            try:
                check(operator, pushes_of(history, operator), HOUR if family == "calendar" else 1)
            except AssertionError as failure:
                raise AssertionError(f"seed {seed!r} {history!r}: {failure}") from None


def test_an_interval_join_misses_nothing_between_two_deadlines() -> None:
    for number in range(5 * PLANS):
        seed = f"{SEED}/deadlines/join/{number}"
        for history in join_histories.random_histories(Random(seed), 1):
            operator = operator_of(join_histories.pipeline_of(history).plan, *join_histories.SCHEMAS)
            pushes: list[Push] = [
                (
                    push.now,
                    lambda state, push=push, operator=operator: operator.step(
                        state,
                        Bundle(
                            join_histories.frames_of(push.rows),
                            push.now,
                            tuple(Watermark(key, time) for key, time in push.notes),
                        ),
                    ),
                )
                for push in history.pushes
            ]
            if pushes:
                check(operator, pushes)


@pytest.mark.long
def test_a_processor_misses_no_timer_between_two_deadlines() -> None:
    operator = operator_of(PUPPET.plan, SCHEMA)
    for number in range(5 * PLANS):
        rng = Random(f"{SEED}/deadlines/processor/{number}")
        pushes: list[Push] = []
        now = 0
        for _ in range(4):
            now += rng.randint(1, 30)
            rows = [
                (
                    rng.randint(0, 60),
                    rng.choice(["a", "b", None]),
                    rng.choice(["put", "set", "unset", "set clock", "set clock"]),
                    rng.choice(["once", "again"]),
                    rng.randint(0, 60),
                )
                for _ in range(rng.randint(0, 5))
            ]
            frame = pl.DataFrame(rows, schema=SCHEMA, orient="row")
            pushes.append(
                (now, lambda state, frame=frame, now=now: operator.step(state, Bundle(frame, now)))  # type: ignore[misc]
            )
        check(operator, pushes)


ROWS = pl.DataFrame({"t": [0, 3], "origin": ["x", "y"]})
NO_ROWS = ROWS.clear()


def opened(stream: Any, **aggregates: Any) -> tuple[StreamOperator, State]:
    """An operator that has seen both rows at 100."""
    operator = operator_of(stream.agg(n=ev.count(), **aggregates).plan, dict(ROWS.schema))
    return operator, operator.step(operator.initial(), Bundle(ROWS, 100)).state


def windows(watermark: ev.Strategy) -> Any:
    return ev.stream(time="t", watermark=watermark).window(ev.tumbling("10 microseconds"))


def test_a_plan_that_no_clock_moves_has_no_deadline() -> None:
    operator, state = opened(windows(ev.bounded_delay("5 microseconds")))
    assert operator.next_deadline(operator.initial()) is None
    assert operator.next_deadline(state) is None


def test_silence_ends_at_the_deadline_of_the_origin_that_was_active_first() -> None:
    operator, state = opened(windows(ev.ascending(origin="origin", idle_timeout="50 microseconds")))
    assert operator.next_deadline(operator.initial()) == MIN  # the first batch starts the clock
    assert operator.next_deadline(state) == 150
    spoke = operator.step(state, Bundle(ROWS[1:], 120)).state
    assert operator.next_deadline(spoke) == 150
    idle = operator.step(spoke, Bundle(NO_ROWS, 150)).state
    assert operator.next_deadline(idle) == 170
    silent = operator.step(idle, Bundle(NO_ROWS, 170)).state
    assert operator.next_deadline(silent) is None


def test_a_grace_is_a_deadline_until_the_origins_are_there() -> None:
    waiting = ev.ascending(origin="origin", expect_origins=3, origins_timeout="1 second")
    operator, state = opened(windows(waiting))
    assert operator.next_deadline(state) == 100 + 1_000_000
    later = operator.step(state, Bundle(ROWS[:1].with_columns(origin=pl.lit("z")), 200)).state
    assert operator.next_deadline(later) is None


def test_a_watermark_that_follows_the_clock_makes_the_end_of_a_window_a_deadline() -> None:
    operator, state = opened(windows(ev.processing_time("95 microseconds")))
    assert operator.next_deadline(state) == 10 + 95
    closed = operator.step(state, Bundle(NO_ROWS, 105))
    assert closed.output.panes.height == 1 and operator.next_deadline(closed.state) is None


def test_a_key_that_is_forgotten_by_the_clock_is_a_deadline() -> None:
    stream = ev.stream(time="t", key="k", watermark=ev.processing_time("2 seconds"))
    plan = stream.window(ev.rows(3, forget_after="10 seconds")).agg(n=ev.count()).plan
    operator = operator_of(plan, {"t": pl.Int64(), "k": pl.String()})
    step = operator.step(operator.initial(), Bundle(pl.DataFrame({"t": [0], "k": ["a"]}), now=1_000_000))
    assert operator.next_deadline(step.state) == 12_000_000
    stamp = operator.stamp(operator.no_rows(), 12_000_000, step.state.watermark)
    gone = operator.apply(step.state, [stamp], 12_000_000)
    assert gone.output.panes["n"].to_list() == [1] and gone.output.counts.forgotten_keys == 1
    assert operator.next_deadline(gone.state) is None


def test_a_drained_stream_has_no_deadline() -> None:
    operator, state = opened(windows(ev.ascending(idle_timeout="1 second")))
    assert operator.next_deadline(operator.step(state, Bundle(NO_ROWS, 100, (Watermark(0, MAX),))).state) is None


def test_the_operators_of_a_chain_share_the_first_deadline() -> None:
    first = windows(ev.processing_time("95 microseconds")).agg(n=ev.count())
    second = ev.stream(time="window_time").window(ev.tumbling("30 microseconds")).agg(n=ev.sum("n"))
    schema = dict(ROWS.schema)
    operators = [operator_of(first.plan, schema)]
    operators.append(operator_of(second.plan, operators[0].output_schemas()["panes"]))
    chain = Chain(operators)
    states = chain.step(chain.initial(), [operators[0].stamp(ROWS, 100, MIN)], 100).states
    assert chain.next_deadline(states) == 105
    step = chain.step(states, [], 105)
    assert step.outputs[0].panes.height == 1 and chain.next_deadline(step.states) == 30 + 95
    step = chain.step(step.states, [], 125)
    assert step.outputs[1].panes.height == 1 and chain.next_deadline(step.states) is None
    assert chain.moves_with_clock(followed=True) and not chain.moves_with_clock()


def test_a_processor_that_hears_watermarks_hears_one_that_follows_the_clock_every_second() -> None:
    class Hears(ev.Processor):
        state_schema: ClassVar = {}

        def process(self, edge: str, rows: pl.DataFrame) -> None:
            """Nothing to do."""

        def on_watermark(self, watermark: Watermark) -> Sequence[Watermark]:
            return (watermark,)

    stream = ev.stream(time="t", key="origin", watermark=ev.processing_time("1 second"))
    operator = operator_of(stream.process(Hears(), output={"origin": pl.String}).plan, dict(ROWS.schema))
    state = operator.step(operator.initial(), Bundle(ROWS, 100)).state
    assert operator.next_deadline(state) == 100 + CLOCK_STEP and Chain([operator]).moves_with_clock()


def test_the_first_deadline_of_a_table_is_that_of_a_pane_that_is_still_there() -> None:
    rng = np.random.default_rng(0)
    clock = rng.integers(0, 1000, 5000)
    panes = pl.DataFrame({"n": range(5000), HASH: range(5000), DUE: clock + 1, CLOCK: clock}).with_columns(
        pl.col(HASH).cast(pl.UInt64)
    )
    table = PaneTable().put(panes[:4000]).put(panes[4000:])
    gone = panes.filter(pl.col(CLOCK) < 700, pl.col("n") % 10 > 0)
    table, _ = table.take(gone[HASH], due=(MIN, MIN), clock=(MIN, MIN))
    left = panes.filter(~pl.col("n").is_in(gone["n"].implode()))
    for after in (-1, 100, 698, 699, 998, 999, 2000):
        assert table.next_clock(after) == left.filter(pl.col(CLOCK) > after)[CLOCK].min()
        assert table.next_due(after) == left.filter(pl.col(DUE) > after)[DUE].min()


def test_a_saved_state_has_the_same_deadline() -> None:
    stream = windows(ev.ascending(idle_timeout="1 second")).trigger(ev.every("300 microseconds"), mode="accumulating")
    operator, state = opened(stream)
    again, loaded = type(operator).load(operator.plan, operator.save(state))  # type: ignore[attr-defined]
    assert operator.next_deadline(state) == again.next_deadline(loaded) == 400
    assert written(operator.step(state, Bundle(NO_ROWS, 400)).output)
