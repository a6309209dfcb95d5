"""The watermark of many inputs is the least of those that are active."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventide.errors import DataError, PlanError
from eventide.time import MAX, MIN
from eventide.watermarks import Coalescer, Done, Idle, InputWatermarks, Watermark


class OneByOne(Coalescer):
    """A coalescer that hears one thing at a time."""

    def event(self, source):
        return self.step(events=ids(source))

    def watermark(self, source, mark):
        return self.step(marks=[InputWatermarks(mark.key, ids(source), ids(mark.time))])

    def idle(self, source):
        return self.step(idle=ids(source))

    def done(self, source):
        return self.step(done=ids(source))


def wm(time, key=0):
    return Watermark(key, time)


def at(coalescer, *times, key=0):
    """Bring input i to times[i]."""
    for source, time in enumerate(times):
        coalescer.watermark(source, wm(time, key))
    return coalescer


def ids(*numbers):
    return np.array(numbers, np.int64)


def test_the_example_of_hazelcast_jet():
    both = OneByOne(2)
    assert both.watermark(0, wm(10)) == []
    assert both.watermark(1, wm(12)) == [wm(10)]
    assert both.watermark(0, wm(11)) == [wm(11)]
    assert both.watermark(1, wm(13)) == []
    assert both.watermark(0, wm(14)) == [wm(13)]


def test_an_input_without_a_watermark_holds_the_output():
    assert OneByOne(2).watermark(0, wm(10)) == []


def test_equal_values_are_ignored():
    coalescer = at(OneByOne(1), 10)
    assert coalescer.watermark(0, wm(10)) == []


def test_a_value_that_decreases_is_an_error():
    coalescer = at(OneByOne(2, name="edge {}".format), 0, 2_000_000, key=3)
    with pytest.raises(
        DataError, match="key 3 went back on edge 1: it was 1970-01-01T00:00:02Z and is now 1970-01-01T00:00:01Z"
    ):
        coalescer.watermark(1, wm(1_000_000, key=3))


def test_a_derived_value_that_decreases_is_clamped():
    coalescer = at(OneByOne(1, on_back="clamp"), 10)
    assert coalescer.watermark(0, wm(5)) == []
    assert coalescer.watermark(0, wm(11)) == [wm(11)]


def test_keys_are_independent():
    both = at(OneByOne(2), 10, 20, key=1)
    assert both.watermark(0, wm(5, key=2)) == []
    assert both.watermark(1, wm(3, key=2)) == [wm(3, key=2)]
    assert (both.time(1), both.time(2), both.time(7)) == (10, 3, MIN)


def test_a_key_outside_a_byte_is_rejected():
    with pytest.raises(PlanError, match="from 0 to 255"):
        OneByOne(1).step(marks=[InputWatermarks(256, ids(0), ids(1))])


# Idle


def test_an_idle_input_leaves_the_minimum():
    assert at(OneByOne(2), 10, 20).idle(0) == [wm(20)]


def test_an_event_makes_an_input_active_again():
    both = at(OneByOne(2), 10, 20)
    both.idle(0)
    assert both.event(0) == []
    assert both.watermark(1, wm(30)) == []
    assert both.watermark(0, wm(25)) == [wm(25)]


def test_a_watermark_of_any_key_makes_an_input_active_for_all_keys():
    both = at(at(OneByOne(2), 10, 20, key=0), 10, 20, key=1)
    both.idle(0)
    both.watermark(0, wm(15, key=1))
    assert both.watermark(1, wm(30, key=0)) == []


def test_a_repeated_watermark_emits_nothing():
    both = at(OneByOne(2), 10, 20)
    both.idle(0)
    both.watermark(0, wm(10))
    assert both.watermark(1, wm(30)) == [wm(30)]


def test_inside_a_bundle_events_precede_idleness():
    both = at(OneByOne(2), 10, 20)
    assert both.step(events=ids(0), idle=ids(0)) == [wm(20)]


def test_when_all_are_idle_the_highest_is_flushed_and_idle_follows_once():
    both = at(OneByOne(2), 10, 20)
    assert both.idle(1) == []
    assert both.idle(0) == [wm(20), Idle()]
    assert both.idle(0) == []
    assert both.all_idle()


def test_idle_is_emitted_again_after_an_input_was_active():
    coalescer = at(OneByOne(1), 10)
    assert coalescer.idle(0) == [Idle()]
    coalescer.event(0)
    assert not coalescer.all_idle()
    assert coalescer.idle(0) == [Idle()]


def test_all_keys_are_flushed_before_idle():
    both = at(at(OneByOne(2), 10, 20, key=0), 5, 4, key=1)
    assert both.step(idle=ids(0, 1)) == [wm(20, key=0), wm(5, key=1), Idle()]


def test_inputs_that_never_had_a_watermark_may_be_idle():
    assert OneByOne(2).step(idle=ids(0, 1)) == [Idle()]


# Done


def test_a_done_input_leaves_the_minimum():
    assert at(OneByOne(2), 10, 20).done(0) == [wm(20)]


def test_done_beats_idle():
    both = at(OneByOne(2), 10, 20)
    both.done(0)
    both.idle(0)
    assert both.done(1) == [wm(MAX), Done()]


def test_done_beats_idle_inside_a_bundle():
    coalescer = at(OneByOne(1), 10)
    assert coalescer.step(idle=ids(0), done=ids(0)) == [wm(MAX), Done()]


def test_when_all_are_done_the_output_is_drained_once():
    both = at(at(OneByOne(2), 10, 20, key=0), 1, key=1)
    both.done(0)
    assert both.done(1) == [wm(MAX, key=0), wm(MAX, key=1), Done()]
    assert both.step() == []


def test_idle_is_forwarded_when_the_last_active_input_ends():
    both = at(OneByOne(2), 10, 20)
    both.idle(0)
    assert both.done(1) == [Idle()]


def test_what_a_done_input_had_reached_is_flushed_with_the_idle_ones():
    both = at(OneByOne(2), 10, 5)
    both.idle(1)
    assert both.time(0) == 10
    at(both, 30)
    assert both.done(0) == [Idle()]
    assert both.time(0) == 30


def test_an_input_at_the_end_of_time_does_not_end_the_idle_ones():
    both = at(OneByOne(2), 10, 5)
    both.idle(1)
    assert both.watermark(0, wm(MAX)) == []
    assert both.done(0) == [Idle()]
    assert both.time(0) == 10


def test_inputs_all_at_the_end_of_time_end_the_output():
    both = at(OneByOne(2), MAX)
    assert both.watermark(1, wm(MAX)) == [wm(MAX)]


@pytest.mark.parametrize("speak", [lambda c: c.event(0), lambda c: c.watermark(0, wm(99))])
def test_an_input_that_speaks_after_its_end_is_an_error(speak):
    both = at(OneByOne(2), 10, 20)
    both.done(0)
    with pytest.raises(DataError, match="input 0 after it was done"):
        speak(both)


# Inputs that return


def test_the_output_holds_for_an_input_that_returns_behind_it():
    both = at(OneByOne(2), 10, 20)
    both.idle(0)
    both.watermark(0, wm(12))
    assert both.watermark(1, wm(30)) == []
    assert both.time(0) == 20
    assert both.watermark(0, wm(21)) == [wm(21)]


def test_with_catch_up_it_is_left_out_until_it_has_caught_up():
    both = at(OneByOne(2, on_return="catch_up"), 10, 20)
    both.idle(0)
    both.watermark(0, wm(12))
    assert both.watermark(1, wm(30)) == [wm(30)]
    assert both.watermark(0, wm(29)) == []
    assert both.watermark(1, wm(31)) == [wm(31)]
    assert both.watermark(0, wm(31)) == []
    assert both.watermark(1, wm(40)) == []
    assert both.watermark(0, wm(35)) == [wm(35)]


def test_with_catch_up_an_input_that_is_not_behind_counts_at_once():
    both = at(OneByOne(2, on_return="catch_up"), 10, 20)
    both.idle(0)
    both.watermark(0, wm(25))
    assert both.watermark(1, wm(30)) == [wm(25)]


def test_an_input_left_out_is_not_idle():
    both = at(OneByOne(2, on_return="catch_up"), 10, 20)
    both.idle(0)
    both.event(0)
    assert both.idle(1) == []
    assert not both.all_idle()


def test_catch_up_is_per_key():
    both = at(at(OneByOne(2, on_return="catch_up"), 10, 20, key=0), 20, 20, key=1)
    both.idle(0)
    both.event(0)
    assert both.watermark(1, wm(30, key=0)) == [wm(30, key=0)]
    assert both.watermark(1, wm(30, key=1)) == []


# Keys that not all inputs carry


def test_a_key_that_one_input_does_not_carry_is_not_forwarded():
    assert at(OneByOne(2), 10, key=1).time(1) == MIN


@pytest.mark.parametrize("gone", [OneByOne.idle, OneByOne.done])
def test_unless_the_others_are_idle_or_done(gone):
    assert gone(at(OneByOne(2), 10, key=1), 1) == [wm(10, key=1)]


# Inputs that join and leave


def test_an_input_joins_with_its_first_event_and_the_output_does_not_go_back():
    some = at(OneByOne(1), 10)
    some.grow(2)
    assert some.watermark(0, wm(20)) == [wm(20)]
    assert some.event(1) == []
    assert some.watermark(0, wm(30)) == []
    assert some.watermark(1, wm(5)) == []
    assert some.time(0) == 20
    assert some.watermark(1, wm(25)) == [wm(25)]


def test_an_input_that_joins_behind_is_waited_for_also_with_catch_up():
    some = at(OneByOne(1, on_return="catch_up"), 10)
    some.grow(2)
    some.watermark(1, wm(5))
    assert some.watermark(0, wm(30)) == []


def test_an_input_that_leaves_is_not_waited_for():
    both = at(OneByOne(2), 10, 20)
    both.leave(0)
    assert both.step() == [wm(20)]


def test_an_input_that_left_is_not_idle_and_not_done():
    both = at(OneByOne(2), 10, 20)
    both.leave(0)
    assert both.idle(1) == [wm(20), Idle()]
    assert both.done(1) == [wm(MAX), Done()]


def test_where_all_have_left_nothing_more_is_emitted():
    coalescer = at(OneByOne(1), 10)
    coalescer.leave(0)
    assert coalescer.step() == []
    assert (coalescer.time(0), coalescer.all_idle()) == (10, False)


def test_nothing_is_emitted_while_held():
    both = OneByOne(2)
    both.step(marks=[InputWatermarks(0, ids(0, 1), ids(10, 20))], held=True)
    assert both.step(idle=ids(0, 1), held=True) == []
    assert both.time(0) == MIN
    assert both.step() == [wm(20), Idle()]


def test_the_output_can_be_raised_from_outside():
    both = at(OneByOne(2), 10, 20)
    assert both.raise_to(wm(15)) == [wm(15)]
    assert both.raise_to(wm(12)) == []
    assert both.watermark(0, wm(14)) == []
    assert both.watermark(0, wm(16)) == [wm(16)]


def test_all_watermarks_of_a_bundle_are_compared_with_what_was_before_it():
    coalescer = at(OneByOne(1), 10)
    assert coalescer.step(marks=[InputWatermarks(0, ids(0, 0), ids(30, 20))]) == [wm(30)]


def test_a_copy_is_independent():
    both = at(OneByOne(2), 10, 20)
    twin = both.copy()
    twin.step(marks=[InputWatermarks(0, ids(0), ids(15))])
    twin.step(idle=ids(1))
    assert (both.time(0), twin.time(0)) == (10, 15)
    assert both.watermark(0, wm(30)) == [wm(20)]


def test_a_snapshot_restores_everything():
    both = at(at(OneByOne(2, on_return="catch_up"), 10, 20, key=0), 1, 2, key=9)
    both.idle(0)
    both.event(0)
    twin = OneByOne(2, on_return="catch_up")
    twin.restore(both.snapshot())
    for coalescer in (both, twin):
        assert coalescer.watermark(1, wm(30)) == [wm(30)]
        assert coalescer.idle(1) == []
        assert coalescer.idle(0) == [Idle()]


def test_a_hundred_thousand_inputs():
    many = OneByOne(100_000)
    inputs = np.arange(100_000)
    assert many.step(marks=[InputWatermarks(0, inputs, inputs + 5)]) == [wm(5)]
    assert many.step(idle=inputs[:50_000]) == [wm(50_005)]


# Against a model of one input at a time


class Model:
    """The rules in dictionaries."""

    def __init__(self, inputs, on_return):
        self.standing = dict.fromkeys(range(inputs), "active")
        self.on_return = on_return
        self.times, self.output, self.highest, self.left_out = {}, {}, {}, set()
        self.idle_sent = self.done_sent = False

    def step(self, events, marks, idle, done):
        awake, before = set(events), dict(self.times)
        for key, source, time in marks:
            self.output.setdefault(key, MIN)
            self.highest.setdefault(key, MIN)
            if time > before.get((key, source), MIN):
                awake.add(source)
                self.times[key, source] = max(time, self.times.get((key, source), MIN))
                if time != MAX:
                    self.highest[key] = max(self.highest[key], time)
        for source in awake:
            if self.standing[source] == "idle":
                self.idle_sent = False
                self.left_out |= {(key, source) for key in self.output if self.on_return == "catch_up"}
            self.standing[source] = "active"
        self.left_out = {(k, i) for k, i in self.left_out if self.times.get((k, i), MIN) < self.output[k]}
        for source in idle:
            if self.standing[source] == "active":
                self.standing[source] = "idle"
        self.standing |= dict.fromkeys(done, "done")
        return self.say()

    def say(self):
        text = []
        for key in sorted(self.output):
            going = [i for i in self.standing if self.times.get((key, i), MIN) != MAX and self.standing[i] != "done"]
            active = [i for i in going if self.standing[i] == "active"]
            counted = [self.times.get((key, i), MIN) for i in active if (key, i) not in self.left_out]
            time = min(counted, default=MIN) if active else self.highest[key] if going else MAX
            if time > self.output[key]:
                self.output[key] = time
                text.append(Watermark(key, time))
        standings = set(self.standing.values())
        if "active" not in standings:
            if "idle" in standings and not self.idle_sent:
                self.idle_sent = True
                text.append(Idle())
            elif "idle" not in standings and not self.done_sent:
                self.done_sent = True
                text.append(Done())
        return text


INPUTS = st.integers(0, 2)
TIMES = st.one_of(st.integers(0, 20), st.just(MAX))
BUNDLES = st.lists(
    st.tuples(
        st.lists(INPUTS, max_size=2),
        st.lists(st.tuples(st.integers(0, 1), INPUTS, TIMES), max_size=4),
        st.lists(INPUTS, max_size=3),
        st.one_of(st.just([]), st.just([]), st.lists(INPUTS, max_size=1)),
    ),
    max_size=12,
)


@settings(deadline=None)
@given(BUNDLES, st.sampled_from(["hold", "catch_up"]))
def test_the_coalescer_does_what_the_model_does(bundles, on_return):
    coalescer, model = OneByOne(3, on_back="clamp", on_return=on_return), Model(3, on_return)
    ended, heard = set(), {}
    for events, marks, idle, done in bundles:
        events = [i for i in events if i not in ended]
        marks = [mark for mark in marks if mark[1] not in ended]
        ended |= set(done)
        text = coalescer.step(
            events=ids(*events),
            marks=[InputWatermarks(key, ids(source), ids(time)) for key, source, time in marks],
            idle=ids(*idle),
            done=ids(*done),
        )
        assert text == model.step(events, marks, idle, done)
        for message in text:
            if isinstance(message, Watermark):
                assert message.time > heard.get(message.key, MIN)
                heard[message.key] = message.time
