"""The watermark of a stream, batch by batch."""

from datetime import timedelta

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventide.errors import DataError
from eventide.time import MAX, MIN
from eventide.watermarks import (
    Idle,
    InputTracker,
    OriginGap,
    Watermark,
    ascending,
    bounded_delay,
    empty_summary,
    no_watermark,
    processing_time,
    punctuated,
)


def us(micros):
    return timedelta(microseconds=micros)


class Stream:
    """A tracker that is fed rows: ``o`` origin, ``n`` sequence, ``ts`` time."""

    def __init__(self, strategy):
        self.strategy, self.tracker = strategy, InputTracker(strategy)

    def batch(self, now=0, rows=(), *, polled=True, notes=(), columns=("o", "ts")):
        summary = empty_summary()
        if rows:
            frame = pl.DataFrame(list(rows), schema=dict.fromkeys(columns), orient="row")
            summary = self.strategy.summarise(frame, "ts", now)
        return self.tracker.advance(summary, now, polled=polled, notes=notes)


def test_nothing_is_known_before_the_first_row():
    assert Stream(bounded_delay("1s")).batch() == Stream(bounded_delay("1s", origin="o")).batch()
    assert Stream(bounded_delay("1s")).batch().time == MIN


def test_the_watermark_follows_the_only_origin():
    stream = Stream(bounded_delay(us(5)))
    assert stream.batch(0, [("a", 10), ("b", 30)]).time == 25
    assert stream.batch(1, [("a", 20)]).time == 25
    assert stream.batch(2, [("a", 40)]).messages == (Watermark(0, 35),)


def test_the_watermark_is_the_least_over_origins():
    stream = Stream(ascending(origin="o"))
    assert stream.batch(0, [("a", 10), ("b", 30)]).time == 10
    assert stream.batch(1, [("a", 50)]).time == 30


def test_a_new_origin_joins_with_its_first_row_and_nothing_goes_back():
    stream = Stream(ascending(origin="o"))
    stream.batch(0, [("a", 10)])
    assert stream.batch(1, [("a", 30), ("b", 5)]).time == 10
    assert stream.batch(2, [("b", 20)]).time == 20


def test_an_origin_without_a_usable_row_does_not_join():
    stream = Stream(ascending(origin="o", max_future_skew=us(10)))
    assert stream.batch(0, [("a", 5), ("broken clock", 99)]).time == 5
    assert stream.tracker.metrics().origins == 1


def test_an_origin_whose_name_is_missing_takes_part():
    stream = Stream(ascending(origin="o"))
    assert stream.batch(0, [("a", 10), (None, 3)]).time == 3
    assert stream.tracker.metrics().origins == 2


def test_summaries_of_many_tasks_add_up():
    strategy = ascending(origin="o")
    parts = [
        strategy.summarise(pl.DataFrame({"o": [o], "ts": [ts]}), "ts", 0) for o, ts in (("a", 10), ("b", 7), ("a", 12))
    ]
    assert InputTracker(strategy).advance(pl.concat(parts), 0).time == 7


def test_the_watermark_has_the_key_of_its_strategy():
    assert Stream(ascending(watermark_key=9)).batch(0, [("a", 1)]).messages == (Watermark(9, 1),)


def test_the_slowest_origins_are_reported_with_their_times():
    stream = Stream(ascending(origin="o"))
    stream.batch(0, [("a", 30), ("b", 10)])
    assert stream.tracker.metrics().slowest == (("b", 10), ("a", 30))


def test_of_many_origins_only_the_slowest_are_reported():
    stream = Stream(ascending(origin="o"))
    stream.batch(0, [(f"o{number}", 100 - number) for number in range(40)])
    assert [time for _, time in stream.tracker.metrics().slowest] == list(range(61, 73))


def test_the_origin_that_holds_the_watermark_is_reported_even_if_many_idle_origins_are_slower():
    stream = Stream(ascending(origin="o", idle_timeout=us(100)))
    stream.batch(0, [*((f"idle {number}", number) for number in range(20)), ("a", 50), ("b", 60)])
    assert stream.batch(100, [("a", 51), ("b", 61)]).time == 51
    metrics = stream.tracker.metrics()
    assert metrics.least_origin == "a" and len(metrics.slowest) == 12
    assert metrics.slowest[-1] == ("a", 51) and metrics.slowest[0] == ("idle 0", 0)


# Idle


def test_a_silent_origin_is_not_waited_for():
    stream = Stream(ascending(origin="o", idle_timeout=us(100)))
    stream.batch(0, [("a", 10), ("b", 30)])
    assert stream.batch(99, [("b", 40)]).time == 10
    assert stream.batch(100, [("b", 50)]).time == 50
    assert stream.tracker.metrics().idle_origins == ("a",)


def test_a_row_keeps_an_origin_awake_even_if_it_is_old():
    stream = Stream(ascending(origin="o", idle_timeout=us(100)))
    stream.batch(0, [("a", 10), ("b", 30)])
    stream.batch(99, [("a", 1)])
    assert stream.batch(100, [("b", 50)]).time == 10


def test_rows_of_a_bundle_precede_idleness():
    stream = Stream(ascending(origin="o", idle_timeout=us(100)))
    stream.batch(0, [("a", 10), ("b", 30)])
    assert stream.batch(500, [("a", 20), ("b", 40)]).time == 20
    assert stream.tracker.metrics().idle_origins == ()


def test_time_without_polling_makes_no_origin_idle():
    stream = Stream(ascending(origin="o", idle_timeout=us(100)))
    stream.batch(0, [("a", 10), ("b", 30)])
    assert stream.batch(1000, [("b", 40)], polled=False).time == 10
    assert stream.batch(1099, [("b", 40)]).time == 10
    assert stream.batch(1100, [("b", 41)]).time == 41


def test_when_all_are_silent_the_stream_is_idle_and_says_so_once():
    stream = Stream(ascending(origin="o", idle_timeout=us(100)))
    stream.batch(0, [("a", 10), ("b", 30)])
    standing = stream.batch(100)
    assert (standing.time, standing.idle, standing.messages) == (30, True, (Watermark(0, 30), Idle()))
    assert stream.batch(101).messages == ()
    assert stream.batch(102, [("a", 31)]).idle is False


@pytest.mark.parametrize("origin", [None, "o"])
def test_a_stream_that_never_spoke_becomes_idle(origin):
    stream = Stream(ascending(origin=origin, idle_timeout=us(100)))
    assert not stream.batch(50).idle
    assert not stream.batch(149).idle
    standing = stream.batch(150)
    assert (standing.time, standing.idle, standing.messages) == (MIN, True, (Idle(),))
    standing = stream.batch(151, [("a", 5)])
    assert (standing.time, standing.idle) == (5, False)


def test_without_idle_timeout_no_origin_is_ever_idle():
    stream = Stream(ascending(origin="o"))
    stream.batch(0, [("a", 10)])
    assert not stream.batch(MAX // 2).idle


@pytest.mark.parametrize(("on_return", "time"), [("hold", 50), ("catch_up", 60)])
def test_an_origin_that_returns_behind_is_waited_for_or_left_out(on_return, time):
    stream = Stream(ascending(origin="o", idle_timeout=us(100), on_return=on_return))
    stream.batch(0, [("a", 10), ("b", 30)])
    stream.batch(100, [("b", 50)])
    assert stream.batch(101, [("a", 20), ("b", 60)]).time == time


# Expected origins


def test_the_watermark_waits_for_a_number_of_origins():
    stream = Stream(ascending(origin="o", expect_origins=2))
    assert stream.batch(0, [("a", 10)]).time == MIN
    assert stream.batch(1, [("b", 7)]).time == 7


def test_the_watermark_waits_for_named_origins():
    stream = Stream(ascending(origin="o", expect_origins=["a", "b"]))
    assert stream.batch(0, [("a", 10), ("c", 20)]).time == MIN
    assert stream.batch(1, [("b", 30)]).time == 10


def test_a_grace_limits_the_wait():
    stream = Stream(ascending(origin="o", expect_origins=2, origins_timeout=us(100)))
    stream.batch(1000, [("a", 10)])
    assert stream.batch(1099).time == MIN
    assert stream.batch(1100).time == 10


def test_a_stream_that_waits_is_not_idle():
    stream = Stream(ascending(origin="o", expect_origins=2, origins_timeout=us(100), idle_timeout=us(10)))
    stream.batch(0, [("a", 10)])
    assert not stream.batch(50).idle
    assert stream.batch(100).messages == (Watermark(0, 10), Idle())


def test_a_wait_that_is_over_does_not_begin_again():
    stream = Stream(ascending(origin="o", expect_origins=2))
    stream.batch(0, [("a", 10), ("b", 20)])
    stream.tracker.retire("a")
    assert stream.batch(1, [("b", 30)]).time == 30


def test_a_retired_origin_is_not_expected():
    stream = Stream(ascending(origin="o", expect_origins=["a", "b"]))
    stream.batch(0, [("a", 10)])
    assert stream.tracker.retire("b") is False
    assert stream.batch(1).time == 10


# Notes


def test_a_note_raises_the_watermark_directly():
    stream = Stream(ascending(origin="o"))
    stream.batch(0, [("a", 10)])
    assert stream.batch(1, notes=[Watermark(0, 100)]).messages == (Watermark(0, 100),)
    assert stream.batch(2, [("a", 50)], notes=[Watermark(0, 60)]).time == 100
    assert stream.batch(3, [("a", 120)]).time == 120


def test_a_note_of_another_key_is_not_for_this_stream():
    standing = Stream(no_watermark(watermark_key=1)).batch(0, notes=[Watermark(0, 100)])
    assert (standing.time, standing.messages) == (MIN, ())


def test_a_note_counts_also_while_origins_are_expected():
    assert Stream(ascending(origin="o", expect_origins=2)).batch(0, notes=[Watermark(0, 5)]).time == 5


def test_a_note_of_the_end_drains():
    stream = Stream(ascending())
    assert stream.batch(0, [("a", 10)], notes=[Watermark(0, MAX)]).time == MAX
    assert stream.batch(1, [("a", 20)]) == stream.batch(2, [("a", 20)])
    assert stream.tracker.time == MAX


def test_without_a_watermark_only_notes_move_time():
    stream = Stream(no_watermark())
    assert stream.batch(0, [("a", 10)]).time == MIN
    assert stream.batch(1, notes=[Watermark(0, 5)]).time == 5


# Clock


def test_a_clock_lag_follows_the_batches():
    stream = Stream(processing_time(us(30)))
    assert stream.batch(100, [("a", 10_000)]).time == 70
    assert stream.batch(110).time == 80


def test_a_clock_that_goes_back_moves_nothing():
    stream = Stream(processing_time(us(30)))
    stream.batch(100)
    assert stream.batch(90).time == 70


# Punctuation


def test_punctuation_is_the_least_over_origins():
    stream = Stream(punctuated("mark", origin="o"))
    columns = ("o", "ts", "mark")
    assert stream.batch(0, [("a", 1, 10), ("b", 1, 20)], columns=columns).time == 10
    assert stream.batch(1, [("a", 1, 10), ("b", 1, 20)], columns=columns).time == 10
    assert stream.batch(2, [("a", 1, 15)], columns=columns).time == 15


@pytest.mark.parametrize("marks", [(8,), (8, 12)])
@pytest.mark.parametrize(("origin", "source"), [(None, "the source"), ("o", "origin 'a'")])
def test_punctuation_below_an_earlier_batch_is_rejected(marks, origin, source):
    stream = Stream(punctuated("mark", origin=origin))
    stream.batch(0, [("a", 1, 10)], columns=("o", "ts", "mark"))
    with pytest.raises(DataError, match=f"key 0 went back on {source}.*00.000010Z.*00.000008Z"):
        stream.batch(1, [("a", 1, mark) for mark in marks], columns=("o", "ts", "mark"))


# Sequences


SEEN = ("o", "n", "ts")


def numbered(**options):
    return Stream(ascending(origin="o", sequence="n", **options))


def test_a_gap_holds_the_watermark_until_it_closes():
    stream = numbered()
    assert stream.batch(0, [("a", 1, 10), ("a", 3, 30)], columns=SEEN).time == 10
    assert stream.batch(1, [("a", 4, 40)], columns=SEEN).time == 10
    assert stream.batch(2, [("a", 2, 20)], columns=SEEN).time == 40


def test_an_origin_before_its_first_sequence_holds_the_others():
    stream = numbered()
    assert stream.batch(0, [("a", 1, 10), ("b", 2, 30)], columns=SEEN).time == MIN
    assert stream.batch(1, [("b", 1, 20)], columns=SEEN).time == 10


def test_a_sequence_without_an_origin_column():
    stream = Stream(ascending(sequence="n"))
    assert stream.batch(0, [("a", 2, 20), ("b", 1, 10)], columns=SEEN).time == 20
    stream.batch(1, [("a", 4, 40)], columns=SEEN)
    assert stream.tracker.metrics().gaps == (OriginGap(None, 3, 3, 1),)
    assert stream.tracker.skip_gap()
    assert stream.batch(2).time == 40


def test_chunks_are_put_together_across_batches():
    stream = numbered(chunk="c", last_chunk="l")
    columns = (*SEEN, "c", "l")
    assert stream.batch(0, [("a", 1, 10, 2, True)], columns=columns).time == MIN
    assert stream.batch(1, [("a", 1, 5, 1, False)], columns=columns).time == 10


def test_last_chunks_of_two_batches_are_compared():
    stream = numbered(chunk="c", last_chunk="l")
    columns = (*SEEN, "c", "l")
    stream.batch(0, [("a", 1, 10, 2, True)], columns=columns)
    with pytest.raises(DataError, match="Sequence 1 of origin 'a' has two last chunks, 2 and 3"):
        stream.batch(1, [("a", 1, 10, 3, True)], columns=columns)


@pytest.mark.parametrize("bundles", [[[1, 2, 3]], [[1], [2], [3]], [[3], [1, 2]], [[1, 2], [3]], [[3, 2, 1]]])
@pytest.mark.parametrize("flag", [True, False])
def test_a_chunk_beyond_the_last_is_an_error_in_every_bundling(bundles, flag):
    stream = numbered(chunk="c", last_chunk="l")
    flags = {1: False, 2: True, 3: flag}
    with pytest.raises(DataError, match="Sequence 1 of origin 'a' has"):
        for now, bundle in enumerate(bundles):
            stream.batch(now, [("a", 1, 10, chunk, flags[chunk]) for chunk in bundle], columns=(*SEEN, "c", "l"))


def test_last_chunks_are_remembered_in_a_snapshot():
    stream = numbered(chunk="c", last_chunk="l")
    columns = (*SEEN, "c", "l")
    stream.batch(0, [("a", 1, 10, 1, False), ("a", 1, 10, 2, True)], columns=columns)
    stream.tracker = InputTracker.restore(stream.strategy, stream.tracker.snapshot())
    with pytest.raises(DataError, match="chunk 3, although chunk 2"):
        stream.batch(1, [("a", 1, 10, 3, False)], columns=columns)


@pytest.mark.parametrize("bundles", [[[5, 50]], [[5], [50]], [[50], [5]]])
def test_the_time_of_a_number_is_the_highest_of_its_rows_in_every_bundling(bundles):
    stream = numbered()
    for now, times in enumerate(bundles):
        time = stream.batch(now, [("a", 1, ts) for ts in times], columns=SEEN).time
    assert time == 50


def test_a_producer_that_restarts_its_numbering_is_shown():
    stream = numbered()
    stream.batch(0, [("a", 1, 10), ("a", 2, 20), ("b", 1, 15)], columns=SEEN)
    stream.batch(1, [("a", 1, 10), ("a", 2, 20), ("b", 1, 15), ("b", 2, 90)], columns=SEEN)
    assert stream.tracker.metrics().renumbered_origins == ()
    stream.batch(2, [("a", 1, 50), ("a", 2, 60), ("a", 3, 70)], columns=SEEN)
    assert stream.tracker.metrics().renumbered_origins == ("a",)
    stream.batch(3, [("a", 4, 80)], columns=SEEN)
    assert stream.tracker.metrics().renumbered_origins == ()


def test_gaps_are_shown_with_the_batch_that_first_saw_them():
    stream = numbered()
    stream.batch(7, [("a", 1, 10), ("a", 5, 50)], columns=SEEN)
    stream.batch(8, [("a", 3, 30)], columns=SEEN)
    assert stream.tracker.metrics().gaps == (OriginGap("a", 2, 2, 7), OriginGap("a", 4, 4, 7))


def test_a_gap_is_skipped_after_its_timeout():
    stream = numbered(gap_timeout=us(100))
    stream.batch(0, [("a", 1, 10), ("a", 3, 30)], columns=SEEN)
    assert stream.batch(99).time == 10
    assert stream.batch(100).time == 30
    assert stream.tracker.metrics().gaps == ()


def test_a_gap_does_not_age_while_nothing_is_polled():
    stream = numbered(gap_timeout=us(100))
    stream.batch(0, [("a", 1, 10), ("a", 3, 30)], columns=SEEN)
    assert stream.batch(1000, polled=False).time == 10
    assert stream.batch(1099).time == 10
    assert stream.tracker.metrics().gaps == (OriginGap("a", 2, 2, 1000),)
    assert stream.batch(1100).time == 30


def test_a_gap_is_skipped_by_command():
    stream = numbered()
    stream.batch(0, [("a", 1, 10), ("a", 3, 30), ("b", 1, 99)], columns=SEEN)
    assert stream.tracker.skip_gap("a")
    assert stream.batch(1).time == 30
    assert not stream.tracker.skip_gap("a")
    assert not stream.tracker.skip_gap("unknown")


def test_an_idle_origin_whose_gap_is_skipped_stays_idle():
    stream = numbered(gap_timeout=us(100), idle_timeout=us(50))
    stream.batch(0, [("a", 1, 10), ("a", 3, 30), ("b", 1, 20)], columns=SEEN)
    stream.batch(60, [("b", 2, 40)], columns=SEEN)
    assert stream.batch(100, [("b", 3, 60)], columns=SEEN).time == 60
    assert stream.tracker.metrics().idle_origins == ("a",)


def test_rows_without_a_punctuation_keep_their_origin_awake():
    stream = Stream(punctuated("wm", origin="o", idle_timeout=us(10)))
    columns = ("o", "ts", "wm")
    assert stream.batch(0, [("a", 1, 1), ("b", 1, 100)], columns=columns).time == 1
    assert stream.batch(8, [("a", 5, None)], columns=columns).time == 1
    assert stream.batch(12, [("b", 150, 200)], columns=columns).time == 1, "a sent a row four microseconds ago"
    assert stream.tracker.metrics().idle_origins == ()
    assert stream.batch(18, [("b", 250, 300)], columns=columns).time == 300
    assert stream.tracker.metrics().idle_origins == ("a",)


def test_with_sequences_declared_watermarks_may_come_out_of_order():
    stream = Stream(punctuated("mark", origin="o", sequence="n"))
    columns = (*SEEN, "mark")
    assert stream.batch(0, [("a", 2, 1, 20)], columns=columns).time == MIN
    assert stream.batch(1, [("a", 1, 1, 10)], columns=columns).time == 20


# Retiring


def test_a_retired_origin_is_not_waited_for():
    stream = Stream(ascending(origin="o"))
    stream.batch(0, [("a", 10), ("b", 30)])
    assert stream.tracker.retire("a")
    assert stream.batch(1).time == 30
    assert not stream.tracker.retire("a")


def test_a_retired_origin_that_speaks_takes_part_again():
    stream = numbered()
    stream.batch(0, [("a", 1, 10), ("b", 1, 30)], columns=SEEN)
    stream.tracker.retire("a")
    stream.batch(1, [("b", 2, 40)], columns=SEEN)
    assert stream.batch(2, [("a", 2, 20), ("b", 3, 50)], columns=SEEN).time == 40
    assert stream.batch(3, [("a", 3, 45)], columns=SEEN).time == 45


def test_retiring_the_last_active_origin_leaves_the_idle_ones():
    stream = Stream(ascending(origin="o", idle_timeout=us(100)))
    stream.batch(0, [("a", 10), ("b", 30)])
    stream.batch(100, [("b", 40)])
    stream.tracker.retire("b")
    assert stream.batch(101).messages == (Idle(),)


def test_retiring_all_origins_ends_nothing():
    stream = Stream(ascending(origin="o"))
    stream.batch(0, [("a", 10)])
    stream.tracker.retire("a")
    assert stream.batch(1).time == 10
    assert stream.batch(2, [("b", 20)]).time == 20


def test_a_stream_whose_origins_are_all_retired_becomes_idle_like_one_that_never_spoke():
    stream = Stream(ascending(origin="o", idle_timeout=us(100)))
    stream.batch(0, [("a", 10)])
    stream.batch(50)
    stream.tracker.retire("a")
    assert not stream.batch(149).idle
    assert stream.batch(150).messages == (Idle(),)


def test_gaps_of_a_retired_origin_are_not_shown():
    stream = numbered()
    stream.batch(0, [("a", 2, 10), ("b", 1, 20)], columns=SEEN)
    stream.tracker.retire("a")
    assert stream.tracker.metrics().gaps == ()


# Metrics, copies, snapshots


def test_metrics_name_the_origin_that_holds_the_watermark_back():
    stream = Stream(ascending(origin="o"))
    stream.batch(0, [("a", 30), ("b", 10)])
    metrics = stream.tracker.metrics()
    assert (metrics.watermark, metrics.least_origin, metrics.origins) == (10, "b", 2)


def test_metrics_do_not_blame_an_origin_that_is_left_out_until_it_has_caught_up():
    stream = Stream(ascending(origin="o", idle_timeout=us(10), on_return="catch_up"))
    stream.batch(0, [("a", 10), ("b", 10)])
    stream.batch(20, [("a", 50)])
    stream.batch(25, [("a", 60), ("b", 11)])
    assert stream.tracker.metrics().least_origin == "a"


def test_metrics_blame_nobody_while_expected_origins_are_awaited():
    stream = Stream(ascending(origin="o", expect_origins=2, origins_timeout=us(100)))
    stream.batch(0, [("a", 10)])
    assert stream.tracker.metrics().least_origin is None


def test_a_stream_without_an_origin_column_has_one_origin():
    assert InputTracker(ascending()).metrics().origins == 1
    assert InputTracker(ascending(origin="o")).metrics().origins == 0


def test_copies_are_independent_even_when_both_meet_new_origins():
    stream = Stream(ascending(origin="o"))
    stream.batch(0, [("a", 10)])
    before = stream.tracker.copy()
    stream.batch(1, [("a", 20), ("b", 15)])
    stream.tracker, after = before, stream.tracker
    assert stream.batch(1, [("a", 30), ("c", 25)]).time == 25
    assert after.time == 15
    assert after.metrics().origins == before.metrics().origins == 2


BATCHES = st.lists(
    st.tuples(
        st.integers(0, 60),
        st.booleans(),
        st.lists(
            st.tuples(
                st.sampled_from(["a", "b", None]),
                st.integers(1, 6),
                st.one_of(st.none(), st.integers(0, 99)),
                st.just(1),
                st.just(True),
            ),
            max_size=5,
        ),
    ),
    max_size=6,
)
STRATEGIES = [
    ascending(),
    bounded_delay(us(5), origin="o", idle_timeout=us(50), on_return="catch_up"),
    bounded_delay(us(5), origin="o", expect_origins=["a", "b"], origins_timeout=us(90)),
    bounded_delay(us(5), origin="o", sequence="n", chunk="c", last_chunk="l", gap_timeout=us(80), idle_timeout=us(40)),
]


@settings(deadline=None)
@given(BATCHES, st.integers(0, 5), st.sampled_from(STRATEGIES))
def test_a_restored_tracker_continues_as_if_nothing_had_happened(batches, stop, strategy):
    columns = {"o": pl.String, "n": pl.Int64, "ts": pl.Int64, "c": pl.Int64, "l": pl.Boolean}
    straight, stopped, now = InputTracker(strategy), InputTracker(strategy), 0
    for number, (passed, polled, rows) in enumerate(batches):
        now += passed
        summary = strategy.summarise(pl.DataFrame(rows, schema=columns, orient="row"), "ts", now)
        if number == stop:
            stopped = InputTracker.restore(strategy, stopped.copy().snapshot())
        before = straight.time
        standing = straight.advance(summary, now, polled=polled)
        assert stopped.advance(summary, now, polled=polled) == standing
        assert stopped.metrics() == straight.metrics()
        assert standing.time >= before
