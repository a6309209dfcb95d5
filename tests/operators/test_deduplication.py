"""Rows that come again change nothing, however they come."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

import eventide as ev
from eventide.operators.operator import Output, Stamp
from eventide.operators.window_logic import Stamped
from eventide.operators.windowed_aggregate import WindowedAggregate

SCHEMA = {"t": pl.Int64, "k": pl.String, "from": pl.String, "n": pl.Int64}
CHUNKED = SCHEMA | {"part": pl.Int64, "last": pl.Boolean}
NUMBERED = ev.bounded_delay("0s", origin="from", sequence="n")


def counting(watermark: ev.Strategy = NUMBERED) -> ev.Pipeline:
    stream = ev.stream(time="t", key="k", watermark=watermark).deduplicate()
    return stream.window(ev.tumbling("1 minute")).agg(rows=ev.count())


def frame(*rows: tuple[object, ...], schema: dict[str, type[pl.DataType]] = SCHEMA) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=schema, orient="row")


def duplicates(output: Output) -> list[tuple[object, ...]]:
    assert output.counts.balanced
    return output.dead.filter(pl.col("ev_reason") == "duplicate").select("from", "n").rows()


def test_a_row_that_arrives_again_is_a_dead_letter() -> None:
    query = counting().start_local()
    assert duplicates(query.push(frame((1, "a", "x", 1), (2, "a", "x", 2), (1, "a", "x", 1)), now=0)) == [("x", 1)]
    assert duplicates(query.push(frame((2, "a", "x", 2), (3, "a", "x", 3)), now=0)) == [("x", 2)]
    assert query.drain().panes["rows"].to_list() == [3]


def test_origins_have_numbers_of_their_own() -> None:
    query = counting().start_local()
    query.push(frame((1, "a", "x", 1)), now=0)
    assert duplicates(query.push(frame((1, "a", "y", 1), (1, "a", None, 1)), now=0)) == []
    assert duplicates(query.push(frame((1, "a", None, 1)), now=0)) == [(None, 1)]


def test_a_repeat_moves_no_watermark() -> None:
    query = counting().start_local()
    query.push(frame((10, "a", "x", 1)), now=0)
    assert query.push(frame((10, "a", "x", 1)), now=0).watermark_us == 10


def test_what_was_late_or_dead_has_been_seen() -> None:
    query = counting().start_local()
    query.push(frame((100_000_000, "a", "x", 1), (None, "a", "x", 2)), now=0)
    late = query.push(frame((5, "a", "x", 3)), now=0)
    assert late.late.height == 1
    assert duplicates(query.push(frame((5, "a", "x", 3), (6, "a", "x", 2)), now=0)) == [("x", 3), ("x", 2)]


def test_numbers_that_were_skipped_may_still_arrive_once() -> None:
    query = counting().start_local()
    query.push(frame((1, "a", "x", 1), (5, "a", "x", 5)), now=0)
    assert query.skip_gap("x", up_to=7)
    assert duplicates(query.push(frame((2, "a", "x", 3)), now=1)) == []
    query = counting().start_local(saved=query.save())
    again = query.push(frame((2, "a", "x", 3), (5, "a", "x", 5), (7, "a", "x", 7)), now=2)
    assert duplicates(again) == [("x", 3), ("x", 5)]
    assert query.drain().panes["rows"].to_list() == [4]


def test_numbers_that_were_given_up_may_still_arrive_once() -> None:
    query = counting(ev.bounded_delay("0s", sequence="n", gap_timeout="1 second")).start_local()
    query.push(frame((1, "a", "x", 1), (9, "a", "x", 3)), now=0)
    assert query.push(frame(), now=2_000_000).watermark_us == 9
    assert duplicates(query.push(frame((2, "a", "x", 2), (2, "a", "x", 2)), now=3_000_000)) == [("x", 2)]


def test_chunks_of_a_sequence_are_rows_of_their_own() -> None:
    strategy = ev.bounded_delay("0s", origin="from", sequence="n", chunk="part", last_chunk="last")
    query = counting(strategy).start_local()
    first = [(1, "a", "x", 1, 1, False), (1, "a", "x", 2, 1, False), (1, "a", "x", 2, 3, True)]
    query.push(frame(*first, schema=CHUNKED), now=0)
    again = [
        (1, "a", "x", 2, 1, False),
        (1, "a", "x", 2, 2, False),
        (1, "a", "x", 1, 2, True),
        (1, "a", "x", 2, 2, False),
    ]
    output = query.push(frame(*again, schema=CHUNKED), now=0)
    assert output.dead.select("n", "part").rows() == [(2, 2), (2, 1)]
    output = query.push(frame(*first, *again, schema=CHUNKED), now=0)
    assert output.counts.dead == {"duplicate": 7}
    assert query.drain().panes["rows"].to_list() == [5]


def test_the_first_task_to_be_absorbed_wins() -> None:
    operator = WindowedAggregate(counting().plan, SCHEMA)
    state = operator.initial()
    parts = [frame((None, "a", "x", 1), (1, "a", "x", 2)), frame((1, "a", "x", 1), (1, "a", "x", 2), (1, "a", "x", 3))]
    step = operator.apply(state, [operator.stamp(part, 0, state.watermark) for part in parts], 0)
    assert duplicates(step.output) == [("x", 1), ("x", 2)]
    assert step.output.counts.kept == 2


def test_buckets_find_the_repeats_of_their_own_keys() -> None:
    operator = WindowedAggregate(counting().plan, SCHEMA)
    buckets = {key: operator.initial() for key in ("a", "b")}
    observed = []
    for rows in (
        frame((1, "a", "x", 1), (1, "b", "x", 2), (1, "a", "x", 1)),
        frame((1, "b", "x", 2), (1, "a", "x", 3), (1, "a", "x", 1)),
    ):
        for key in buckets:
            stamp = operator.stamp(rows, 0, buckets[key].watermark)
            step = operator.apply(buckets[key], [_of_key(stamp, key)], 0)
            buckets[key] = step.state
            observed += [(key, *row) for row in step.output.dead.select("from", "n").rows()]
    assert observed == [("a", "x", 1), ("a", "x", 1), ("b", "x", 2)]


def _of_key(stamp: Stamp, key: str) -> Stamp:
    mine = pl.col("k") == key
    stamped = Stamped(stamp.stamped.cells, stamp.stamped.rows.filter(mine))
    return replace(stamp, dead=[letters.filter(mine) for letters in stamp.dead], stamped=stamped)


def test_what_is_remembered_follows_the_gaps_not_the_rows() -> None:
    query = counting().start_local()
    for i in range(20):
        numbers = [n for n in range(1 + 500 * i, 501 + 500 * i) if n != 777]
        query.push(frame(*((n, "a", "x", n) for n in numbers)), now=i)
    snapshot = query._state.tracker.snapshot()  # type: ignore[union-attr]
    assert snapshot["seen"]["runs"].select("start", "end").rows() == [(1, 776), (778, 10_000)]


def test_each_stream_of_a_union_has_its_own_numbers() -> None:
    once = ev.stream(time="t", key="k", watermark=NUMBERED)
    both = ev.union(web=once.deduplicate(), tills=once).window(ev.tumbling("1 minute")).agg(rows=ev.count())
    query = both.start_local()
    row = frame((1, "a", "x", 1), (1, "a", "x", 1))
    assert duplicates(query.push({"web": row, "tills": row}, now=0)) == [("x", 1)]
    assert duplicates(query.push({"web": row, "tills": row}, now=0)) == [("x", 1)] * 2
    assert query.drain().panes["rows"].to_list() == [5]


def test_a_side_of_a_join_has_its_own_numbers() -> None:
    left, right = (ev.stream(time="t", key="k", watermark=NUMBERED) for _ in range(2))
    query = ev.window_join(left.deduplicate(), right, window=ev.tumbling("1 minute")).start_local()
    row = frame((1, "a", "x", 1))
    for _ in range(2):
        output = query.push({"left": row, "right": row}, now=0)
    assert output.dead.select("ev_input", "ev_reason").rows() == [("left", "duplicate")]
    assert query.drain().panes.height == 2


def test_rows_that_arrive_again_get_no_number_in_row_windows() -> None:
    stream = ev.stream(time="t", key="k", watermark=NUMBERED).deduplicate()
    query = stream.window(ev.rows(2)).agg(sum=ev.sum("n")).start_local()
    query.push(frame((1, "a", "x", 1), (1, "a", "x", 1)), now=0)
    assert query.push(frame((1, "a", "x", 1), (1, "a", "x", 2)), now=0).panes["sum"].to_list() == [3]


def test_a_stream_without_numbers_is_rejected() -> None:
    with pytest.raises(ev.PlanError, match=r"names no column for them. Name the columns of an id"):
        ev.stream(time="t", watermark=ev.bounded_delay("1s")).deduplicate()
    with pytest.raises(ev.PlanError, match="already called"):
        ev.stream(time="t", watermark=NUMBERED).deduplicate().deduplicate()
    stream = ev.stream(time="t", watermark=NUMBERED)
    with pytest.raises(ev.PlanError, match=r"must precede ev.union\(\)"):
        ev.union(a=stream, b=stream).deduplicate()


def test_explain_says_that_duplicates_are_dropped() -> None:
    assert "gap-free by 'n', repeated numbers are dead letters" in counting().explain()


def test_a_plan_that_deduplicates_is_another_plan() -> None:
    saved = counting().start_local(SCHEMA).save()
    plain = ev.stream(time="t", key="k", watermark=NUMBERED).window(ev.tumbling("1 minute")).agg(rows=ev.count())
    with pytest.raises(ev.EventideError, match="deduplicate=true"):
        plain.start_local(saved=saved)
