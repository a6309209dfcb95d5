"""What every trigger and every combination of two promises, over all small histories."""

from __future__ import annotations

import pickle

import polars as pl
import pytest

import eventide as ev
from eventide.triggers import Finish, Repeatedly, Trigger
from eventide.triggers.trigger import COMPLETE
from tests.triggers.harness import FINISHED, FIRES, TRIGGERS, Bench, ran

each_trigger = pytest.mark.parametrize("trigger", TRIGGERS, ids=lambda trigger: trigger.describe())


@each_trigger
def test_a_trigger_never_finishes_sooner_than_it_says(trigger: Trigger) -> None:
    for step in ran(trigger)[1]:
        if trigger.finish() is Finish.NEVER:
            assert not step[FINISHED].any()
        if trigger.finish() is Finish.AT_END:
            assert step.filter(pl.col(FINISHED) & ~COMPLETE).is_empty()


@each_trigger
def test_a_trigger_that_says_it_finishes_does_so_in_some_history(trigger: Trigger) -> None:
    finished = [step for step in ran(trigger)[1] if step[FINISHED].any()]
    if trigger.finish() is Finish.ANY_TIME:
        assert any(step.filter(pl.col(FINISHED) & ~COMPLETE).height for step in finished)
    if trigger.finish() is Finish.AT_END:
        assert finished


@each_trigger
def test_a_trigger_that_has_finished_stays_so_and_is_silent(trigger: Trigger) -> None:
    bench, steps = ran(trigger)
    before = pl.repeat(False, len(bench.histories), eager=True)
    for step in steps:
        assert not (step[FIRES] & before).any()
        assert (step[FINISHED] | ~before).all()
        before = step[FINISHED]


@each_trigger
def test_a_trigger_finishes_only_by_firing(trigger: Trigger) -> None:
    before: pl.Series | None = None
    for step in ran(trigger)[1]:
        newly = step[FINISHED] if before is None else step[FINISHED] & ~before
        assert (step[FIRES] | ~newly).all()
        before = step[FINISHED]


@pytest.mark.parametrize("trigger", TRIGGERS[::4], ids=lambda trigger: trigger.describe())
def test_repeated_it_never_finishes(trigger: Trigger) -> None:
    again = ev.repeatedly(trigger)
    assert again.finish() is Finish.NEVER
    assert not any(step[FINISHED].any() for step in ran(again)[1])


@each_trigger
def test_reset_gives_the_state_of_the_beginning(trigger: Trigger) -> None:
    assert ran(trigger)[0].reset(True).equals(Bench(trigger).state())


def test_reset_changes_only_the_selected_rows() -> None:
    for trigger in TRIGGERS:
        bench, _ = ran(trigger)
        assert bench.reset(False).equals(bench.state()), trigger


def test_columns_have_names_and_types_of_their_own() -> None:
    for trigger in TRIGGERS:
        bench, _ = ran(trigger)
        names = [column.name for column in bench.columns]
        assert len(set(names)) == len(names) and all(name.startswith("t.") for name in names), trigger
        assert dict(bench.state().schema) == {column.name: column.dtype for column in bench.columns}, trigger


def test_state_is_never_null_but_for_deadlines() -> None:
    for trigger in TRIGGERS:
        bench, _ = ran(trigger)
        assert all(c.due or not bench.state()[c.name].null_count() for c in bench.columns), trigger


def test_a_trigger_is_an_immutable_value_that_travels() -> None:
    for trigger in TRIGGERS:
        assert pickle.loads(pickle.dumps(trigger)) == trigger
        assert hash(trigger) == hash(pickle.loads(pickle.dumps(trigger)))


def test_a_trigger_describes_itself_in_one_line() -> None:
    for trigger in TRIGGERS:
        assert trigger.describe() and "\n" not in trigger.describe(), trigger


@pytest.mark.parametrize("trigger", [ev.on_update(), ev.every("1s"), ev.repeatedly(ev.after_count(3))])
def test_repeatedly_of_what_repeats_is_a_trigger_like_any_other(trigger: Repeatedly) -> None:
    assert ev.repeatedly(trigger).finish() is Finish.NEVER


N, END, ANY = Finish.NEVER, Finish.AT_END, Finish.ANY_TIME
OF = {N: ev.on_update(), END: ev.after_watermark(), ANY: ev.after_count(2)}


@pytest.mark.parametrize(
    ("first", "other", "any_of", "all_of"),
    [
        (N, N, N, N),
        (N, END, END, N),
        (N, ANY, ANY, N),
        (END, END, END, END),
        (END, ANY, ANY, END),
        (ANY, ANY, ANY, ANY),
    ],
)
def test_the_lattice_of_finishing(first: Finish, other: Finish, any_of: Finish, all_of: Finish) -> None:
    pair = OF[first], OF[other]
    assert ev.any_of(*pair).finish() is ev.or_finally(*pair).finish() is any_of
    assert ev.all_of(*pair).finish() is ev.in_order(*pair).finish() is ev.in_order(*pair[::-1]).finish() is all_of


@pytest.mark.parametrize(
    ("trigger", "merges"),
    [
        (ev.after_count(3), ["sum"]),
        (ev.after_processing_time("1s"), ["min"]),
        (ev.in_order(ev.after_count(1), ev.after_processing_time("1s")), ["max", "sum", "min"]),
        (ev.after_watermark(), []),
        (ev.never(), []),
    ],
)
def test_how_state_merges_when_sessions_do(trigger: Trigger, merges: list[str]) -> None:
    assert [column.merge for column in trigger.compile("t").columns()] == merges


def test_only_deadlines_make_a_pane_due_on_the_clock() -> None:
    both = ev.any_of(ev.after_count(3), ev.every("1s")).compile("t").columns()
    assert [column.due for column in both] == [False, True]
