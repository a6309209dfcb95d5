"""What a limited state keeps, what it closes, and what becomes of rows that come too late for that."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eventide as ev
from eventide.local import LocalQuery
from eventide.operators.factory import operator_of
from eventide.operators.operator import Output
from eventide.operators.retention import SIZE
from tests.effort import examples

SCHEMA = {"t": pl.Int64, "k": pl.String, "v": pl.Int64}


def us(n: int) -> timedelta:
    return timedelta(microseconds=n)


TENS = ev.tumbling(us(10))


def stream(kind: Any = TENS, *, key: str | None = "k", **limits: int) -> ev.WindowedStream:
    windows = ev.stream(time="t", key=key).window(kind)
    return windows.limit_state(**limits) if limits else windows


def query(kind: Any = TENS, *, key: str | None = "k", **limits: int) -> LocalQuery:
    return stream(kind, key=key, **limits).agg(values=ev.collect_list("v")).start_local(SCHEMA)


def push(query: LocalQuery, *rows: tuple[int, str, int], watermark: int | None = None) -> Output:
    output = query.push(pl.DataFrame(rows, schema=SCHEMA, orient="row"), now=0, watermark=watermark)
    assert output.counts.balanced
    return output


def observed(output: Output) -> list[tuple[Any, ...]]:
    end, flags = pl.col("window_end").cast(pl.Int64), ("pane_timing", "pane_is_last")
    return [(e, values, *rest) for e, values, *rest in output.panes.select(end, "values", *flags).rows()]


def beyond(output: Output) -> list[int]:
    return output.dead.filter(pl.col("ev_reason") == "out_of_retention")["v"].to_list()


def open_panes(query: LocalQuery) -> int:
    return sum(panes.height for panes in query.scan())


# By rows


def test_the_oldest_windows_of_a_key_are_closed_when_it_holds_too_many_rows() -> None:
    windows = query(rows=3)
    push(windows, (1, "a", 1), (11, "a", 2), (1, "b", 3))
    assert observed(push(windows, (21, "a", 4), (22, "a", 5))) == [(10, [1], "EARLY", True)]
    assert open_panes(windows) == 3
    assert observed(push(windows, watermark=100)) == [
        (10, [3], "ON_TIME", True),
        (20, [2], "ON_TIME", True),
        (30, [4, 5], "ON_TIME", True),
    ]


def test_rows_for_windows_up_to_the_last_that_was_closed_are_dead_letters() -> None:
    windows = query(rows=2)
    push(windows, (11, "a", 1), (21, "a", 2), (22, "a", 3))
    output = push(windows, (12, "a", 4), (2, "a", 5), (2, "b", 6))
    assert beyond(output) == [4, 5]
    assert output.counts.kept == 1


def test_a_window_that_holds_so_many_by_itself_takes_no_more() -> None:
    windows = query(rows=2)
    assert beyond(push(windows, (1, "a", 1), (2, "a", 2), (3, "a", 3))) == [3]
    assert beyond(push(windows, (4, "a", 4))) == [4]
    assert observed(push(windows, watermark=10)) == [(10, [1, 2], "ON_TIME", True)]


def test_rows_that_were_emitted_are_not_emitted_again_when_their_window_is_closed() -> None:
    each = stream(rows=1).trigger(ev.after_watermark(early=ev.on_update()), mode="retracting")
    windows = each.agg(values=ev.collect_list("v")).start_local(SCHEMA)
    assert observed(push(windows, (1, "a", 1))) == [(10, [1], "EARLY", False)]
    assert observed(push(windows, (11, "a", 2))) == [(20, [2], "EARLY", False)]
    assert open_panes(windows) == 1


def test_a_row_counts_in_each_window_that_it_is_in() -> None:
    windows = query(ev.sliding(us(10), every=us(5)), rows=2)
    push(windows, (7, "a", 1))
    assert observed(push(windows, (17, "a", 2))) == [(10, [1], "EARLY", True), (15, [1], "EARLY", True)]


def test_without_a_key_all_rows_count_together() -> None:
    windows = query(key=None, rows=2)
    push(windows, (1, "a", 1), (11, "b", 2))
    assert observed(push(windows, (21, "c", 3))) == [(10, [1], "EARLY", True)]
    assert beyond(push(windows, (2, "d", 4))) == [4]


def test_a_global_window_takes_so_many_rows() -> None:
    everything = query(ev.global_window(), rows=2)
    assert beyond(push(everything, *((i, "a", i) for i in range(5)))) == [2, 3, 4]


def test_old_sessions_are_closed_and_rows_beyond_do_not_hold_one_together() -> None:
    sessions = query(ev.sessions(us(5)), rows=3)
    push(sessions, (1, "a", 1), (20, "a", 2))
    assert observed(push(sessions, (40, "a", 3), (41, "a", 4))) == [(6, [1], "EARLY", True)]
    assert beyond(push(sessions, (2, "a", 5), (44, "a", 6), (46, "a", 7))) == [5, 7]
    assert observed(sessions.drain()) == [(49, [3, 4, 6], "ON_TIME", True)]


def test_numbered_windows_are_complete_though_they_took_not_all_rows() -> None:
    windows = query(ev.rows(3), rows=2)
    output = push(windows, *((i, "a", i) for i in range(1, 5)))
    assert (observed(output), beyond(output)) == ([(4, [1, 2], "ON_TIME", True)], [3])


def test_windows_that_end_at_a_row_are_as_old_as_the_latest_of_their_rows() -> None:
    windows = query(ev.rows(3, timeout=us(10)))
    push(windows, (1, "a", 1), (5, "a", 2), (12, "b", 3), watermark=14)
    assert observed(push(windows, watermark=15)) == [(4, [1, 2], "EARLY", True)]
    assert open_panes(windows) == 1
    output = push(windows, (20, "a", 4), (21, "a", 5))
    assert (beyond(output), observed(windows.drain())) == ([4], [(4, [3], "ON_TIME", True), (7, [5], "ON_TIME", True)])


def test_windows_by_offset_are_bounded_for_each_origin() -> None:
    kind = ev.rows(2, by="t")
    windows = (
        ev.stream(time="v", watermark=ev.bounded_delay("0s", origin="k", sequence="t")).window(kind).limit_state(rows=2)
    )
    waiting = windows.agg(values=ev.collect_sorted("v")).start_local(SCHEMA)
    push(waiting, (2, "x", 1), (3, "x", 2), (2, "y", 3))
    assert observed(push(waiting, (5, "x", 4))) == [(3, [1], "EARLY", True)]
    assert beyond(push(waiting, (1, "x", 5))) == [5]


def test_inherited_windows_are_bounded() -> None:
    inner = ev.stream(time="t", key="k").window(TENS).agg(v=ev.sum("v"))
    outer = ev.stream(time="window_time").window(ev.inherit()).limit_state(rows=1).agg(values=ev.collect_list("v"))
    first = inner.start_local(SCHEMA)
    second = outer.start_local()
    panes = push(first, (1, "a", 1), (1, "b", 2), (11, "a", 3), watermark=20).panes
    output = second.push(panes, now=0)
    assert (observed(output), beyond(output)) == ([(10, [1], "EARLY", True)], [2])


# By bytes


def test_the_oldest_windows_of_all_keys_are_closed_when_they_are_too_large() -> None:
    windows = query(bytes=150)
    keys = "abcdef"
    outputs = [push(windows, (10 * i + 1, key, i)) for i, key in enumerate(keys)]
    closed = [end for output in outputs for end, *_ in observed(output)]
    assert closed == sorted(closed)
    assert 0 < len(closed) < len(keys)
    assert open_panes(windows) == len(keys) - len(closed)
    assert beyond(push(windows, (1, "a", 9))) == [9]


def test_a_window_that_alone_is_too_large_takes_no_more() -> None:
    windows = query(bytes=60)
    assert beyond(push(windows, *((1, "a", i) for i in range(20)))) == []
    assert beyond(push(windows, (2, "a", 99))) == [99]
    ((_, values, timing, _),) = observed(push(windows, watermark=10))
    assert (len(values), timing) == (20, "ON_TIME")


def test_the_size_counts_what_is_in_lists_and_strings() -> None:
    small, large = (
        stream(bytes=10_000)
        .agg(x=ev.collect_list("name"))
        .start_local({"t": pl.Int64, "k": pl.String, "name": pl.String})
        for _ in range(2)
    )
    for text, windows, closes in (("x", small, False), ("x" * 6_000, large, True)):
        for i in range(3):
            output = windows.push(pl.DataFrame({"t": [10 * i], "k": ["a"], "name": [text]}), now=0)
        assert (output.panes.height > 0) == closes


# State


@pytest.mark.parametrize("bounds", [{"rows": 5}, {"bytes": 400}])
def test_state_is_freed(bounds: dict[str, int]) -> None:
    windows = query(**bounds)
    sizes = []
    for i in range(60):
        push(windows, (10 * i, "a", i), (10 * i, "b", i))
        if i in (20, 59):
            sizes.append(len(windows.save()))
    assert open_panes(windows) <= 12
    assert sizes[1] < sizes[0] * 1.2


def test_what_was_closed_is_forgotten_when_the_watermark_has_passed_it() -> None:
    windows = query(rows=1)
    push(windows, (1, "a", 1), (11, "a", 2))
    assert windows._state.store.closed.height == 1  # type: ignore[union-attr]
    output = push(windows, (2, "a", 3), watermark=20)
    assert beyond(output) == [3]
    assert windows._state.store.closed.height == 0  # type: ignore[union-attr]
    assert push(windows, (2, "a", 4)).late["v"].to_list() == [4]


def test_a_saved_state_continues() -> None:
    pipeline = stream(rows=2, bytes=10_000).agg(values=ev.collect_list("v"))
    windows = pipeline.start_local(SCHEMA)
    push(windows, (11, "a", 1), (21, "a", 2), (22, "a", 3))
    windows = pipeline.start_local(saved=windows.save())
    assert beyond(push(windows, (12, "a", 4))) == [4]
    assert observed(push(windows, (31, "a", 5))) == [(30, [2, 3], "EARLY", True)]


def test_bounds_are_part_of_the_plan() -> None:
    with pytest.raises(ev.EventideError, match="state limits"):
        stream(rows=3).agg(n=ev.count()).start_local(saved=stream(rows=2).agg(n=ev.count()).start_local(SCHEMA).save())


# Plans


def test_explain_shows_the_limits() -> None:
    text = stream(rows=100, bytes=1_000).agg(n=ev.count()).explain()
    assert "state limits  100 rows a key, 1000 bytes in all" in text
    assert "unusable ones and those of closed windows to the dead letters" in text


def test_sessions_that_are_cut_cannot_be_limited() -> None:
    with pytest.raises(ev.PlanError, match="max_duration"):
        stream(ev.sessions("1m", max_duration="5m"), rows=3).agg(n=ev.count())


def test_no_rows_are_shipped_for_an_allowed_lateness() -> None:
    refined = stream().emit(allowed_lateness=us(5)).agg(n=ev.count()).plan
    assert operator_of(refined, SCHEMA).judges_when_stamping
    assert not operator_of(stream(rows=5).agg(n=ev.count()).plan, SCHEMA).judges_when_stamping


# Random histories


@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.integers(0, 60), st.sampled_from("abc"), st.integers(0, 99)), max_size=8),
            st.integers(0, 60),
        ),
        max_size=8,
    ),
    st.sampled_from([TENS, ev.sliding(us(10), every=us(5)), ev.sessions(us(4)), ev.rows(3), ev.global_window()]),
    st.integers(40, 200),
    st.booleans(),
)
@settings(max_examples=examples(25), deadline=None, derandomize=True, database=None)
def test_bytes_are_bounded_and_every_row_is_somewhere(history: Any, kind: Any, most: int, keyed: bool) -> None:
    windows = query(kind, key="k" if keyed else None, bytes=most)
    ids, told_of = itertools.count(1), set[int]()
    beyond_of: set[int] = set()
    watermark = 0
    for rows, advance in history:
        watermark += advance
        output = push(windows, *((t, k, next(ids)) for t, k, _ in rows), watermark=watermark)
        told_of |= {v for values in output.panes["values"] for v in values}
        beyond_of |= {*output.dead["v"], *output.late["v"]}
        panes = pl.concat([pl.DataFrame(schema={SIZE: pl.Int64}), *(p.select(SIZE) for p in windows.scan())])
        assert panes[SIZE].sum() <= most or panes.height == 1
    told_of |= {v for values in windows.drain().panes["values"] for v in values}
    assert told_of | beyond_of == set(range(1, next(ids)))
    assert not told_of & beyond_of


def test_the_rows_of_a_union_are_bounded_together() -> None:
    stream = ev.stream(time="t", key="k")
    both = (
        ev.union(left=stream, right=stream)
        .window(TENS)
        .limit_state(rows=2)
        .agg(values=ev.collect_sorted("v"))
        .start_local()
    )
    rows = {name: pl.DataFrame([(1, "a", i)], schema=SCHEMA, orient="row") for i, name in enumerate(("left", "right"))}
    both.push(rows, now=0)
    output = both.push({name: frame.with_columns(t=frame["t"] + 10) for name, frame in rows.items()}, now=0)
    assert observed(output) == [(10, [0, 1], "EARLY", True)]


# After a restart


@pytest.mark.parametrize("kind", [TENS, ev.sliding(us(10), every=us(5)), ev.sessions(us(5)), ev.rows(2)])
def test_a_state_that_is_bounded_in_bytes_continues_after_a_restart(kind: Any) -> None:
    pipeline = stream(kind, bytes=40).agg(values=ev.collect_list("v"))
    never, often = pipeline.start_local(SCHEMA), pipeline.start_local(SCHEMA)
    for at in range(0, 60, 4):
        rows = [(at, "a", at), (at + 1, "b", at)]
        assert observed(push(never, *rows)) == observed(push(often, *rows))
        often = pipeline.start_local(saved=often.save())
