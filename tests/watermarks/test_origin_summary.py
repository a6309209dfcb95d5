"""A summary says all that the rows of a task say of their origins."""

from datetime import datetime, timedelta

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventide.errors import DataError
from eventide.plan.fingerprint_parts import strategy_text
from eventide.time import MAX, MIN
from eventide.watermarks import (
    SUMMARY,
    InputTracker,
    Strategy,
    ascending,
    bounded_delay,
    empty_summary,
    no_watermark,
    noted,
    processing_time,
    punctuated,
)

FIVE = timedelta(microseconds=5)
DAY = 86_400_000_000


def observed(summary):
    """Origin rows: (origin, least, watermark, rows)."""
    rows = summary.filter(pl.col("sequence").is_null())
    return sorted(rows.select("origin", "least", "watermark", "rows").rows(), key=str)


def numbered(summary):
    """Run and chunk rows: (origin, sequence, until, chunk, chunk_until, last_chunk, watermark)."""
    rows = summary.filter(pl.col("sequence").is_not_null())
    columns = ["origin", "sequence", "until", "chunk", "chunk_until", "last_chunk", "watermark"]
    return sorted(rows.select(columns).rows(), key=str)


def test_lag_is_the_highest_time_less_the_delay():
    assert observed(bounded_delay(FIVE).summarise(pl.DataFrame({"ts": [10, 30, 20]}), "ts", 0)) == [(None, None, 25, 3)]


def test_ascending_is_the_highest_time():
    assert observed(ascending().summarise(pl.DataFrame({"ts": [10, 30, 30]}), "ts", 0)) == [(None, None, 30, 3)]


def test_times_of_any_kind_are_microseconds():
    rows = pl.DataFrame({"ts": [datetime(1970, 1, 1, 0, 0, 1)]}, schema={"ts": pl.Datetime("ms")})
    assert observed(ascending().summarise(rows, "ts", 0)) == [(None, None, 1_000_000, 1)]


def test_each_origin_has_its_own_watermark():
    rows = pl.DataFrame({"ts": [10, 30, 20], "o": ["a", "b", "a"]})
    assert observed(bounded_delay(FIVE, origin="o").summarise(rows, "ts", 0)) == [
        ("a", None, 15, 2),
        ("b", None, 25, 1),
    ]


def test_a_missing_origin_is_an_origin_of_its_own():
    rows = pl.DataFrame({"ts": [10, 30], "o": [None, "b"]})
    assert observed(ascending(origin="o").summarise(rows, "ts", 0)) == [("b", None, 30, 1), (None, None, 10, 1)]


@pytest.mark.parametrize(("value", "name"), [(7, "7"), (True, "true"), (1.5, "1.5")])
def test_origins_are_named_in_text(value, name):
    rows = pl.DataFrame({"ts": [10], "o": [value]})
    assert observed(ascending(origin="o").summarise(rows, "ts", 0)) == [(name, None, 10, 1)]


def test_rows_without_a_time_move_nothing_and_keep_no_origin_active():
    rows = pl.DataFrame({"ts": [10, None, None], "o": ["a", "a", "b"]})
    assert observed(ascending(origin="o").summarise(rows, "ts", 0)) == [("a", None, 10, 1), ("b", None, None, 0)]
    assert observed(ascending().summarise(rows, "ts", 0)) == [(None, None, 10, 1)]


def test_rows_too_far_ahead_move_nothing_and_keep_no_origin_active():
    rows = pl.DataFrame({"ts": [100, 106, 105], "o": ["a", "b", "c"]})
    guarded = ascending(origin="o", max_future_skew=FIVE)
    assert observed(guarded.summarise(rows, "ts", 100)) == [
        ("a", None, 100, 1),
        ("b", None, None, 0),
        ("c", None, 105, 1),
    ]
    assert guarded.future(rows, "ts", 100).to_list() == [False, True, False]
    assert observed(ascending(max_future_skew=FIVE).summarise(rows, "ts", 100)) == [(None, None, 105, 2)]


def test_without_a_guard_no_row_is_too_far_ahead():
    assert ascending(max_future_skew=None).future(pl.DataFrame({"ts": [MAX]}), "ts", 0) is None
    assert ascending(max_future_skew=FIVE).future(pl.DataFrame({"ts": [5, None]}), "ts", 0) is None


@pytest.mark.parametrize(
    "strategy",
    [ascending(), bounded_delay("5s"), punctuated("ts"), processing_time("5s"), noted("sqlite:///shop.db#orders")],
)
def test_every_strategy_guards_against_rows_more_than_a_day_ahead(strategy):
    rows = pl.DataFrame({"ts": [100 + DAY, 101 + DAY]})
    assert strategy.options.max_future_skew == DAY
    assert Strategy(ascending().generator, strategy.options).future(rows, "ts", 100).to_list() == [False, True]


def test_without_a_watermark_there_is_nothing_to_guard():
    assert no_watermark().options.max_future_skew is None
    assert no_watermark(max_future_skew="1 day").options.max_future_skew == DAY


def test_a_default_guard_moves_no_watermark():
    rows = pl.DataFrame({"ts": [7, DAY + 1, 92 * 365 * DAY]})
    assert ascending().summarise(rows, "ts", 0)["watermark"].to_list() == [7]


def test_panes_of_another_pipeline_are_guarded_only_where_it_is_stated():
    assert bounded_delay("5s").over_panes().options.max_future_skew is None
    assert bounded_delay("5s", max_future_skew="1 hour").over_panes().options.max_future_skew == DAY // 24


def test_state_does_not_depend_on_the_guard():
    guarded, open_ended = bounded_delay("5s", max_future_skew="1 hour"), bounded_delay("5s", max_future_skew=None)
    assert strategy_text(guarded) == strategy_text(bounded_delay("5s")) == strategy_text(open_ended)
    assert strategy_text(guarded) != strategy_text(bounded_delay("6s", max_future_skew="1 hour"))


@pytest.mark.parametrize("origin", [None, "o"])
@pytest.mark.parametrize("sequence", [None, "n"])
def test_times_at_the_ends_of_the_axis_neither_wrap_nor_end_the_stream(origin, sequence):
    for time, expected in ((MIN, MIN), (MIN + 1, MIN), (MAX, MAX - 1)):
        rows = pl.DataFrame({"ts": [time], "o": ["a"], "n": [1]})
        strategy = bounded_delay(
            FIVE if time < 0 else timedelta(0), origin=origin, sequence=sequence, max_future_skew=None
        )
        assert strategy.summarise(rows, "ts", 0)["watermark"].max() == expected


@pytest.mark.parametrize("strategy", [processing_time("5s"), no_watermark()])
def test_strategies_that_do_not_read_rows_say_nothing_of_them(strategy):
    assert strategy.summarise(pl.DataFrame({"ts": [1]}), "ts", 0).equals(empty_summary())


@pytest.mark.parametrize(
    "strategy",
    [
        bounded_delay("1s"),
        bounded_delay("1s", origin="o"),
        bounded_delay("1s", origin="o", sequence="n"),
        punctuated("ts"),
    ],
)
def test_every_summary_has_the_same_columns(strategy):
    rows = pl.DataFrame({"ts": [1, 2], "o": ["a", "b"], "n": [1, 1]})
    assert strategy.summarise(rows, "ts", 0).schema == SUMMARY
    assert strategy.summarise(rows.clear(), "ts", 0).schema == SUMMARY


# Sequences


def test_sequences_become_runs():
    rows = pl.DataFrame({"ts": [10, 30, 20, 50, 50], "n": [1, 3, 2, 5, 5]})
    summary = bounded_delay(FIVE, sequence="n").summarise(rows, "ts", 0)
    assert numbered(summary) == [(None, 1, 3, None, None, None, 25), (None, 5, 5, None, None, None, 45)]
    assert observed(summary) == [(None, None, None, 5)]


def test_a_row_without_a_time_still_counts_as_seen():
    rows = pl.DataFrame({"ts": [10, None], "n": [1, 2]})
    summary = ascending(sequence="n").summarise(rows, "ts", 0)
    assert numbered(summary) == [(None, 1, 2, None, None, None, 10)]
    assert observed(summary) == [(None, None, None, 1)]


def chunked(**columns):
    strategy = ascending(origin="o", sequence="n", chunk="c", last_chunk="l")
    return strategy, pl.DataFrame({"o": ["a"] * len(columns["n"]), **columns})


def test_a_sequence_whose_chunks_are_all_there_is_a_run():
    strategy, rows = chunked(ts=[10, 20, 15], n=[1, 1, 1], c=[2, 3, 1], l=[False, True, None])
    assert numbered(strategy.summarise(rows, "ts", 0)) == [("a", 1, 1, None, None, 3, 20)]


def test_an_incomplete_sequence_keeps_its_chunks_as_runs():
    strategy, rows = chunked(ts=[10, 20, 15, 5], n=[1, 1, 1, 1], c=[1, 2, 4, 7], l=[False, False, False, True])
    assert numbered(strategy.summarise(rows, "ts", 0)) == [
        ("a", 1, 1, 1, 2, 7, 20),
        ("a", 1, 1, 4, 4, 7, 20),
        ("a", 1, 1, 7, 7, 7, 20),
    ]


def test_the_same_last_chunk_declared_twice_is_a_repeat():
    strategy, rows = chunked(ts=[10, 20], n=[1, 1], c=[1, 1], l=[True, True])
    assert numbered(strategy.summarise(rows, "ts", 0)) == [("a", 1, 1, None, None, 1, 20)]


def test_two_last_chunks_of_one_sequence_are_rejected():
    strategy, rows = chunked(ts=[10, 20], n=[7, 7], c=[2, 3], l=[True, True])
    with pytest.raises(DataError, match="Sequence 7 of origin 'a' has two last chunks, 2 and 3"):
        strategy.summarise(rows, "ts", 0)


# Faults


@pytest.mark.parametrize("number", [None, 0, -1])
def test_an_unusable_sequence_is_a_fault_and_moves_nothing(number):
    rows = pl.DataFrame({"ts": [10, 99], "n": [1, number]})
    strategy = ascending(sequence="n")
    assert strategy.faults(rows).to_list() == [False, True]
    summary = strategy.summarise(rows, "ts", 0)
    assert numbered(summary) == [(None, 1, 1, None, None, None, 10)]
    assert observed(summary) == [(None, None, None, 1)]


@pytest.mark.parametrize(("first", "bad"), [(1, 0), (1, None), (0, -1), (5, 4)])
def test_a_chunk_below_the_first_is_a_fault(first, bad):
    strategy = ascending(sequence="n", chunk="c", last_chunk="l", first_chunk=first)
    rows = pl.DataFrame({"n": [1, 1], "c": [first, bad], "l": [False, False]})
    assert strategy.faults(rows).to_list() == [False, True]


def test_faults_of_sequence_and_chunk_add_up():
    strategy = ascending(sequence="n", chunk="c", last_chunk="l")
    rows = pl.DataFrame({"n": [0, 1, 1], "c": [1, 0, 1], "l": [True, True, True]})
    assert strategy.faults(rows).to_list() == [True, True, False]


def test_a_sequence_too_large_for_64_bits_is_a_fault():
    rows = pl.DataFrame({"n": [1, 2**63]}, schema={"n": pl.UInt64})
    assert ascending(sequence="n").faults(rows).to_list() == [False, True]


@pytest.mark.parametrize("strategy", [ascending(), ascending(sequence="n")])
def test_where_all_is_well_there_are_no_faults(strategy):
    assert strategy.faults(pl.DataFrame({"n": [1, 2]})) is None
    assert strategy.faults(pl.DataFrame({"n": []}, schema={"n": pl.Int64})) is None


# Punctuation


def test_punctuation_is_the_highest_declared_value():
    rows = pl.DataFrame({"ts": [1, 2, 3], "mark": [None, 10, 20]})
    assert observed(punctuated("mark").summarise(rows, "ts", 0)) == [(None, 10, 20, 3)]


def test_a_row_with_punctuation_is_alive_even_without_a_time():
    rows = pl.DataFrame({"ts": [None, None], "mark": [10, None]}, schema={"ts": pl.Int64, "mark": pl.Int64})
    assert observed(punctuated("mark").summarise(rows, "ts", 0)) == [(None, 10, 10, 1)]


def test_punctuation_of_a_row_too_far_ahead_says_nothing():
    rows = pl.DataFrame({"ts": [1, 99], "mark": [1, 99]})
    assert observed(punctuated("mark", max_future_skew=FIVE).summarise(rows, "ts", 0)) == [(None, 1, 1, 1)]


def test_equal_punctuation_is_fine():
    rows = pl.DataFrame({"ts": [1, 1], "mark": [10, 10], "o": ["a", "a"]})
    assert observed(punctuated("mark", origin="o").summarise(rows, "ts", 0)) == [("a", 10, 10, 2)]


@pytest.mark.parametrize(("origin", "source"), [(None, "the source"), ("o", "origin 'a'")])
def test_punctuation_that_goes_back_in_row_order_is_rejected(origin, source):
    rows = pl.DataFrame({"ts": [1] * 4, "mark": [2_000_000, None, 5_000_000, 1_000_000], "o": ["a", "a", "b", "a"]})
    if origin is None:
        rows = rows.filter(pl.col("o") == "a")
    message = f"key 4 went back on {source}: it was 1970-01-01T00:00:02Z and is now 1970-01-01T00:00:01Z"
    with pytest.raises(DataError, match=message):
        punctuated("mark", origin=origin, watermark_key=4).summarise(rows, "ts", 0)


def test_punctuation_of_different_origins_may_cross():
    rows = pl.DataFrame({"ts": [1, 1], "mark": [20, 10], "o": ["a", None]})
    assert observed(punctuated("mark", origin="o").summarise(rows, "ts", 0)) == [("a", 20, 20, 1), (None, 10, 10, 1)]


def test_with_sequences_punctuation_may_come_in_any_order():
    rows = pl.DataFrame({"ts": [1, 1], "mark": [20, 10], "n": [2, 1]})
    assert numbered(punctuated("mark", sequence="n").summarise(rows, "ts", 0)) == [(None, 1, 2, None, None, None, 20)]


# Tasks


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.integers(1, 8),
        st.integers(1, 3),
        st.one_of(st.none(), st.integers(0, 100)),
    ),
    min_size=1,
    max_size=30,
)


@settings(deadline=None)
@given(EVENTS, st.integers(0, 30))
def test_a_summary_of_all_rows_says_what_the_summaries_of_two_tasks_say(events, cut):
    columns = {"o": pl.String, "n": pl.Int64, "c": pl.Int64, "ts": pl.Int64}
    rows = pl.DataFrame(events, schema=columns, orient="row").with_columns(l=pl.col("c") == 3)
    for options in ({}, {"sequence": "n"}, {"sequence": "n", "chunk": "c", "last_chunk": "l"}):
        strategy = bounded_delay(FIVE, origin="o", **options)
        whole, apart = InputTracker(strategy), InputTracker(strategy)
        parts = [strategy.summarise(part, "ts", 0) for part in (rows[cut:], rows[:cut])]
        standing = whole.advance(strategy.summarise(rows, "ts", 0), 0)
        assert apart.advance(pl.concat(parts), 0) == standing
        assert apart.metrics() == whole.metrics()
