"""Operators hear of each edge at once, and of all edges when all have come that far."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventide.errors import DataError
from eventide.operators.protocol import Delivery, Forward
from eventide.time import MAX, MIN
from eventide.watermarks import Done, Idle, Watermark


def wm(time, key=0):
    return Watermark(key, time)


class Recorder(Forward):
    """Forwards, and remembers what it heard in which order."""

    def __init__(self):
        self.heard = []

    def on_edge_watermark(self, edge, watermark):
        self.heard.append((edge, watermark))
        return ()

    def on_watermark(self, watermark):
        self.heard.append(watermark)
        return (watermark,)


def test_an_edge_is_heard_at_once_and_all_edges_when_they_agree():
    recorder = Recorder()
    join = Delivery(recorder, inputs=[1, 1])
    assert join.watermark(0, 0, wm(10)) == []
    assert join.watermark(1, 0, wm(12)) == [wm(10)]
    assert recorder.heard == [(0, wm(10)), (1, wm(12)), wm(10)]


def test_edges_with_keys_of_their_own_are_heard_per_edge_only():
    recorder = Recorder()
    join = Delivery(recorder, inputs=[1, 1])
    assert join.watermark(0, 0, wm(10, key=1)) == []
    assert join.watermark(1, 0, wm(12, key=2)) == []
    assert recorder.heard == [(0, wm(10, key=1)), (1, wm(12, key=2))]


def test_inputs_of_an_edge_are_joined_first():
    recorder = Recorder()
    one = Delivery(recorder, inputs=[2])
    assert one.watermark(0, 0, wm(10)) == []
    assert recorder.heard == []
    assert one.watermark(0, 1, wm(8)) == [wm(8)]


def test_what_the_operator_returns_is_what_is_sent_on():
    class Delays(Forward):
        def on_watermark(self, watermark):
            return (wm(watermark.time - 5, watermark.key),)

    assert Delivery(Delays(), inputs=[1]).watermark(0, 0, wm(10)) == [wm(5)]


def test_an_operator_may_send_what_one_edge_says():
    class Join(Forward):
        def on_edge_watermark(self, edge, watermark):
            return (watermark,)

    assert Delivery(Join(), inputs=[1, 1]).watermark(0, 0, wm(10, key=7)) == [wm(10, key=7)]


def test_an_edge_is_idle_when_all_of_its_inputs_are():
    join = Delivery(Forward(), inputs=[2, 1])
    join.watermark(1, 0, wm(10))
    assert join.idle(0, 0) == []
    assert join.idle(0, 1) == [wm(10)]
    assert join.idle(1, 0) == [Idle()]


def test_an_idle_edge_is_waited_for_again_after_a_row_of_any_of_its_inputs():
    join = Delivery(Forward(), inputs=[2, 1])
    join.idle(0, 0)
    join.idle(0, 1)
    join.event(0, 1)
    assert join.watermark(1, 0, wm(10)) == []


def test_an_idle_edge_is_waited_for_again_after_a_watermark_behind_its_own():
    join = Delivery(Forward(), inputs=[2, 1])
    join.watermark(0, 0, wm(10))
    join.watermark(0, 1, wm(2))
    join.idle(0, 0)
    join.idle(0, 1)
    assert join.time(0, edge=0) == 10
    join.watermark(0, 1, wm(5))
    assert join.watermark(1, 0, wm(20)) == [wm(10)]


def test_a_repeated_watermark_does_not_wake_an_idle_edge():
    join = Delivery(Forward(), inputs=[1, 1])
    join.watermark(0, 0, wm(10))
    join.idle(0, 0)
    join.watermark(0, 0, wm(10))
    assert join.watermark(1, 0, wm(20)) == [wm(20)]


def test_the_end_of_an_edge_is_heard_as_the_end_of_its_time():
    recorder = Recorder()
    join = Delivery(recorder, inputs=[1, 1])
    join.watermark(0, 0, wm(10))
    join.watermark(1, 0, wm(12))
    assert join.done(0) == [wm(12)]
    assert recorder.heard[-2:] == [(0, wm(MAX)), wm(12)]
    assert join.done(1) == [wm(MAX), Done()]


def test_the_end_of_an_edge_does_not_end_one_that_is_idle():
    join = Delivery(Forward(), inputs=[1, 1])
    join.watermark(0, 0, wm(10))
    join.idle(1)
    assert join.done(0) == [Idle()]
    assert join.time(0) == 10
    assert join.watermark(1, 0, wm(15)) == [wm(15)]


def test_times_of_edges_and_of_all():
    join = Delivery(Forward(), inputs=[1, 1])
    join.watermark(0, 0, wm(10))
    assert (join.time(0), join.time(0, edge=0), join.time(0, edge=1)) == (MIN, 10, MIN)


def test_a_watermark_that_goes_back_names_the_input_and_the_edge():
    join = Delivery(Forward(), inputs=[1, 2], names=["orders", "{deliveries}"])
    join.watermark(1, 1, wm(10))
    with pytest.raises(DataError, match=r"went back on input 1 of {deliveries}"):
        join.watermark(1, 1, wm(9))


def test_copies_and_snapshots_are_independent():
    join = Delivery(Forward(), inputs=[1, 1])
    join.watermark(0, 0, wm(10))
    twin, later = join.copy(), Delivery(Forward(), inputs=[1, 1]).restored(join.snapshot())
    assert twin.watermark(1, 0, wm(20)) == later.watermark(1, 0, wm(20)) == [wm(10)]
    assert join.time(0) == MIN


STEPS = st.lists(
    st.tuples(st.sampled_from(["event", "watermark", "idle"]), st.integers(0, 1), st.integers(0, 1), st.integers(0, 1)),
    max_size=25,
)


@settings(deadline=None)
@given(STEPS)
def test_whatever_happens_every_key_only_ever_grows_per_edge_and_over_all(steps):
    recorder = Recorder()
    join = Delivery(recorder, inputs=[2, 2], on_back="clamp")
    for number, (what, edge, source, key) in enumerate(steps):
        if what == "watermark":
            join.watermark(edge, source, wm(number * 7 % 30, key))
        else:
            getattr(join, what)(edge, source)
    reached = {}
    for heard in recorder.heard:
        edge, mark = heard if isinstance(heard, tuple) else (None, heard)
        assert mark.time > reached.get((edge, mark.key), MIN)
        reached[edge, mark.key] = mark.time
