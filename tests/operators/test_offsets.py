"""Windows by offset: rows arrive in any order, and bundles are split anywhere."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eventide as ev
from eventide.operators.operator import Output
from eventide.panes import WINDOW
from tests.effort import examples

SCHEMA = {"t": pl.Int64, "k": pl.String, "from": pl.String, "n": pl.Int64}
BY_ORIGIN = ev.bounded_delay("0s", origin="from")


def frame(*rows: tuple[object, ...]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def windows(kind: Any = None, *, watermark: Any = BY_ORIGIN, key: str | None = None, late: int = 0) -> ev.Pipeline:
    stream = ev.stream(time="t", key=key, watermark=watermark).window(kind or ev.rows(3, by="n"))
    return (stream.emit(allowed_lateness=late) if late else stream).agg(seen=ev.collect_sorted("n"))


def observed(output: Output, *key: str) -> list[tuple[object, ...]]:
    return output.panes.select(*key, *WINDOW, pl.col("seen").list.eval(pl.element()), "pane_timing").rows()


def test_the_origin_is_part_of_the_panes_key() -> None:
    pipeline = windows()
    assert pipeline.plan.key == ("from",)
    assert windows(key="k").plan.key == ("k", "from")
    assert windows(key="from").plan.key == ("from",)
    assert windows(watermark=ev.bounded_delay("0s")).plan.key == ()


def test_a_row_lies_in_the_windows_of_its_offset() -> None:
    query = windows().start_local()
    assert observed(query.push(frame((5, "a", "x", 2), (4, "a", "y", 1)), now=0), "from") == []
    output = query.push(frame((1, "a", "x", 3), (1, "a", "x", 1)), now=0)
    assert observed(output, "from") == [("x", 1, 4, [1, 2, 3], "ON_TIME")]


def test_a_window_is_complete_when_offsets_have_passed_its_end_even_if_some_are_missing() -> None:
    query = windows().start_local()
    query.push(frame((1, "a", "x", 2)), now=0)
    assert observed(query.push(frame((1, "a", "x", 9)), now=0)) == [(1, 4, [2], "ON_TIME"), (7, 10, [9], "ON_TIME")]


def test_where_offsets_are_the_sequence_a_gap_is_waited_for() -> None:
    query = windows(watermark=ev.bounded_delay("0s", origin="from", sequence="n")).start_local()
    assert observed(query.push(frame((1, "a", "x", 1), (1, "a", "x", 3), (1, "a", "x", 4)), now=0)) == []
    assert observed(query.push(frame((1, "a", "x", 2)), now=0)) == [(1, 4, [1, 2, 3], "ON_TIME")]


def test_a_gap_that_was_skipped_is_not_waited_for() -> None:
    query = windows(watermark=ev.bounded_delay("0s", origin="from", sequence="n")).start_local()
    query.push(frame((1, "a", "x", 1), (1, "a", "x", 3)), now=0)
    query.skip_gap("x")
    assert observed(query.push(frame(), now=0)) == [(1, 4, [1, 3], "ON_TIME")]


def test_a_late_offset_refines_its_window_while_the_lateness_lasts() -> None:
    query = windows(late=3).start_local()
    query.push(frame((1, "a", "x", 1), (1, "a", "x", 5)), now=0)
    late = query.push(frame((1, "a", "x", 3)), now=0)
    assert observed(late) == [(1, 4, [1], "ON_TIME"), (1, 4, [1, 3], "LATE")]
    assert late.counts.refined == 1
    query.push(frame((1, "a", "x", 6)), now=0)
    too_late = query.push(frame((1, "a", "x", 2)), now=0)
    assert too_late.late["n"].to_list() == [2]
    assert too_late.counts.balanced


def test_origins_do_not_wait_for_each_other() -> None:
    query = windows().start_local()
    query.push(frame((1, "a", "x", 1), (1, "a", "y", 1)), now=0)
    assert observed(query.push(frame((1, "a", "y", 4)), now=0), "from") == [("y", 1, 4, [1], "ON_TIME")]


def test_rows_of_other_keys_move_the_offsets_of_their_origin() -> None:
    query = windows(key="k").start_local()
    query.push(frame((1, "a", "x", 1)), now=0)
    assert observed(query.push(frame((1, "b", "x", 4)), now=0), "k") == [("a", 1, 4, [1], "ON_TIME")]


def test_a_session_ends_when_enough_offsets_have_passed_without_the_key() -> None:
    numbered = ev.bounded_delay("0s", origin="from", sequence="n")
    query = windows(ev.row_sessions(absent=2, by="n"), watermark=numbered, key="k").start_local()
    rows = [(1, key, "x", n) for n, key in enumerate("aababbba", 1)]
    assert observed(query.push(frame(*rows[4:6], *rows[:2]), now=0)) == []
    assert observed(query.push(frame(rows[3], rows[2]), now=0), "k") == [("a", 1, 7, [1, 2, 4], "ON_TIME")]
    query.push(frame(*rows[6:]), now=0)
    assert observed(query.drain(), "k") == [("b", 3, 10, [3, 5, 6, 7], "ON_TIME"), ("a", 8, 11, [8], "ON_TIME")]


def test_offsets_may_begin_at_zero() -> None:
    query = windows(ev.rows(2, by="n", first=0)).start_local()
    assert observed(query.push(frame((1, "a", "x", 0), (1, "a", "x", 1)), now=0)) == [(0, 2, [0, 1], "ON_TIME")]


def test_an_offset_that_cannot_be_used_is_a_dead_letter() -> None:
    query = windows().start_local()
    output = query.push(frame((1, "a", "x", None), (1, "a", "x", 0), (1, "a", "x", 2**62), (1, "a", "x", 1)), now=0)
    assert output.counts.dead == {"bad_row": 3}
    assert observed(query.push(frame((1, "a", "x", 2)), now=0)) == []


def test_state_is_freed_when_windows_expire() -> None:
    query = windows(late=2).start_local()
    for n in range(1, 200):
        query.push(frame((n, "a", "x", n)), now=n)
    assert sum(panes.height for panes in query.scan()) <= 2


@given(st.permutations(range(1, 13)), st.lists(st.integers(1, 12), max_size=5), st.booleans())
@settings(max_examples=examples(15), deadline=None, derandomize=True, database=None)
def test_the_table_does_not_depend_on_the_order_of_arrival(order: list[int], cuts: list[int], sliding: bool) -> None:
    kind = ev.rows(4, every=2, by="n") if sliding else ev.rows(3, by="n")
    pipeline = windows(kind, late=100)
    bounds = [0, *sorted(cuts), 12]
    bundles = [frame(*((n, "a", "x", n) for n in order[start:end])) for start, end in pairwise(bounds)]
    last = {row[:2]: row[2] for row in observe_all(pipeline, bundles)}
    assert last == {
        row[:2]: row[2] for row in observe_all(pipeline, [frame(*((n, "a", "x", n) for n in range(1, 13)))])
    }


def observe_all(pipeline: ev.Pipeline, bundles: list[pl.DataFrame]) -> list[tuple[Any, ...]]:
    query = pipeline.start_local(SCHEMA)
    outputs = [query.push(bundle, now=0) for bundle in bundles]
    return [row for output in [*outputs, query.drain()] for row in observed(output)]


def test_what_does_not_fit_is_rejected() -> None:
    stream = ev.stream(time="t", watermark=BY_ORIGIN)
    with pytest.raises(ev.PlanError, match=r"in time, but .* Use allowed_lateness=100"):
        stream.window(ev.rows(3, by="n")).emit(allowed_lateness="1 hour").agg(n=ev.count())
    with pytest.raises(ev.PlanError, match=r"in rows, but .* Use allowed_lateness='1 hour'"):
        stream.window(ev.tumbling("1 hour")).emit(allowed_lateness=3).agg(n=ev.count())
    with pytest.raises(ev.PlanError, match="window by offset"):
        stream.window(ev.rows(3)).emit(allowed_lateness=3).agg(n=ev.count())
    with pytest.raises(ev.PlanError, match="need a single stream"):
        ev.union(a=stream, b=stream).window(ev.rows(3, by="n")).agg(n=ev.count())
    with pytest.raises(ev.PlanError, match="Did you mean 'n'"):
        windows(ev.rows(3, by="nn")).start_local(SCHEMA)
    with pytest.raises(ev.PlanError, match="offsets are integers"):
        windows(ev.rows(3, by="k")).start_local(SCHEMA)
    with pytest.raises(ev.PlanError, match="needs by="):
        ev.rows(3, first=0)


def test_the_column_of_offsets_is_part_of_the_plan() -> None:
    with pytest.raises(ev.EventideError, match="by=t"):
        windows(ev.rows(3, by="t")).start_local(saved=windows().start_local(SCHEMA).save())
