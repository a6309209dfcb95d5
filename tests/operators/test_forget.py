"""Keys of windows that are counted in rows, and of joins with the last rows: when they are forgotten."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.errors import PlanError
from eventide.local import LocalQuery
from eventide.operators.operator import Output
from eventide.panes import WINDOW

SCHEMA = {"t": pl.Int64, "k": pl.String, "v": pl.Int64}


def us(n: int) -> timedelta:
    return timedelta(microseconds=n)


def collected(kind: Any, **bounds: Any) -> ev.Pipeline:
    windows = ev.stream(time="t", key="k", watermark=ev.bounded_delay("0s")).window(kind)
    return (windows.limit_state(**bounds) if bounds else windows).agg(values=ev.collect_list("v"))


def opened(kind: Any, **bounds: Any) -> LocalQuery:
    return collected(kind, **bounds).start_local(SCHEMA)


def push(query: LocalQuery, *rows: tuple[int, str, int], **options: Any) -> Output:
    output = query.push(pl.DataFrame(rows, schema=SCHEMA, orient="row"), now=0, **options)
    assert output.counts.balanced
    return output


def observed(output: Output) -> list[tuple[Any, ...]]:
    facts = output.panes.select("k", pl.col(*WINDOW).cast(pl.Int64), "values", "pane_timing", "pane_is_last")
    return sorted(facts.rows())


THREES = ev.rows(3, forget_after=us(100))


@pytest.mark.parametrize("bounds", [{}, {"rows": 10}], ids=["plain", "retained"])
def test_a_key_is_forgotten_when_the_watermark_is_far_past_its_last_row(bounds: Any) -> None:
    query = opened(THREES, **bounds)
    push(query, (10, "a", 1), (10, "b", 2))
    assert observed(push(query, (109, "b", 3))) == []
    gone = push(query, (110, "b", 4))
    assert observed(gone) == [("a", 1, 4, [1], "ON_TIME", True), ("b", 1, 4, [2, 3, 4], "ON_TIME", True)]
    assert gone.counts.forgotten_keys == 1
    again = push(query, (120, "a", 5), (120, "a", 6), (120, "a", 7))  # counted from 1 again
    assert observed(again) == [("a", 1, 4, [5, 6, 7], "ON_TIME", True)]
    assert again.counts.forgotten_keys == 0


@pytest.mark.parametrize("bounds", [{}, {"rows": 10}], ids=["plain", "retained"])
def test_a_key_between_two_windows_is_forgotten_without_a_pane(bounds: Any) -> None:
    query = opened(ev.rows(1, forget_after=us(100)), **bounds)
    push(query, (10, "a", 1))
    gone = push(query, (200, "b", 2))
    assert gone.counts.forgotten_keys == 1
    assert [key for key, *_ in observed(gone)] == ["b"]


@pytest.mark.parametrize("bounds", [{}, {"rows": 100}], ids=["plain", "retained"])
def test_all_windows_of_a_key_close_with_it(bounds: Any) -> None:
    query = opened(ev.rows(4, every=2, forget_after=us(100)), **bounds)
    push(query, (10, "a", 1), (11, "a", 2), (12, "a", 3))
    assert observed(push(query, (111, "b", 9))) == []
    gone = observed(push(query, (112, "b", 9)))
    assert gone == [("a", 1, 5, [1, 2, 3], "ON_TIME", True), ("a", 3, 7, [3], "ON_TIME", True)]


def test_a_row_keeps_its_key_however_old_the_row_is() -> None:
    query = opened(THREES)
    push(query, (10, "a", 1), (90, "b", 2))
    push(query, (5, "a", 3))  # behind the watermark, 90
    assert observed(push(query, (189, "b", 4))) == []
    assert [key for key, *_ in observed(push(query, (190, "c", 5)))] == ["a"]


def test_a_key_with_rows_in_the_batch_that_would_forget_it_stays() -> None:
    query = opened(THREES)
    push(query, (10, "a", 1))
    output = push(query, (500, "b", 2), (20, "a", 3))
    assert observed(output) == [] and output.counts.forgotten_keys == 0


def test_a_pane_that_was_emitted_early_is_replaced_when_its_key_is_forgotten() -> None:
    stream = ev.stream(time="t", key="k", watermark=ev.bounded_delay("0s")).window(THREES)
    query = (
        stream.trigger(ev.after_watermark(early=ev.on_update()), mode="retracting")
        .agg(n=ev.count())
        .start_local(SCHEMA)
    )
    push(query, (10, "a", 1))
    push(query, (20, "a", 2))
    panes = push(query, (200, "b", 3)).panes.filter(k="a")
    facts = panes.select("n", "diff", "pane_timing").rows()
    assert facts == [(2, -1, "EARLY"), (2, 1, "ON_TIME")]
    assert query.scan()[0]["k"].to_list() == ["b"]


def test_a_processing_time_trigger_does_not_keep_a_key() -> None:
    trigger = ev.after_watermark(early=ev.repeatedly(ev.after_processing_time(us(5))))
    stream = (
        ev.stream(time="t", key="k", watermark=ev.bounded_delay("0s"))
        .window(THREES)
        .trigger(trigger, mode="accumulating")
    )
    query = stream.agg(values=ev.collect_list("v")).start_local(SCHEMA)
    frame = pl.DataFrame([(10, "a", 1)], schema=SCHEMA, orient="row")
    query.push(frame, now=0)
    early = query.push(pl.DataFrame([(60, "b", 2)], schema=SCHEMA, orient="row"), now=10)
    assert observed(early) == [("a", 1, 4, [1], "EARLY", False)]
    gone = query.push(pl.DataFrame([(110, "b", 2)], schema=SCHEMA, orient="row"), now=11)
    assert ("a", 1, 4, [1], "ON_TIME", True) in observed(gone)


def test_windows_that_retention_closed_are_forgotten_with_their_key() -> None:
    query = opened(THREES, rows=1)
    assert push(query, (10, "a", 1), (11, "a", 2)).counts.dead == {"out_of_retention": 1}
    push(query, (200, "b", 3))
    assert push(query, (201, "a", 4)).counts.dead == {}


def test_nothing_is_forgotten_when_the_stream_ends() -> None:
    query = opened(THREES)
    push(query, (10, "a", 1))
    assert query.drain().counts.forgotten_keys == 0


def test_a_restart_forgets_the_same_keys() -> None:
    query, restarted = opened(THREES), opened(THREES)
    for step in range(100):
        rows = [(7 * step, f"k{step}", step), (7 * step, f"k{step - 2}", step), (7 * step, "steady", step)]
        ours, theirs = push(query, *rows), push(restarted, *rows)
        assert ours.panes.equals(theirs.panes) and ours.counts == theirs.counts
        restarted = collected(THREES).start_local(saved=restarted.save())
    assert sum(panes.height for panes in query.scan()) < 40


def test_when_keys_are_forgotten_may_change_between_two_starts() -> None:
    query = opened(ev.rows(3))
    push(query, (10, "a", 1), (10, "b", 2))
    forgetful = collected(THREES).start_local(saved=query.save())
    push(forgetful, (20, "a", 3))
    assert [key for key, *_ in observed(push(forgetful, (500, "c", 4)))] == ["a"]  # b had no row since


def test_windows_by_offset_end_with_an_origin_that_is_forgotten() -> None:
    watermark = ev.bounded_delay("0s", origin="k", idle_timeout=us(10), forget_after=us(100))
    stream = ev.stream(time="t", watermark=watermark).window(ev.rows(3, by="v"))
    query = stream.agg(values=ev.collect_list("v")).start_local(SCHEMA)

    def send(now: int, *rows: tuple[int, str, int]) -> Output:
        return query.push(pl.DataFrame(rows, schema=SCHEMA, orient="row"), now=now)

    send(0, (10, "a", 1), (10, "b", 1))
    gone = send(20, (200, "b", 2))
    assert observed(gone) == [("a", 1, 4, [1], "ON_TIME", True)]
    assert observed(send(21, (300, "a", 1), (300, "b", 3))) == [("b", 1, 4, [1, 2, 3], "ON_TIME", True)]
    assert query.scan()[0].select("k", "__rows").rows() == [("a", 1)]  # the origin is new, and so is its window


@pytest.mark.parametrize("offset", [None, "v"], ids=["as they arrive", "by offset"])
def test_row_sessions_that_retention_closed_are_forgotten_when_their_rows_have_passed(offset: str | None) -> None:
    stream = ev.stream(time="t", key="k", watermark=ev.bounded_delay("0s"))
    query = (
        stream.window(ev.row_sessions(absent=2, by=offset, timeout=us(1)))
        .agg(values=ev.collect_list("v"))
        .start_local(SCHEMA)
    )
    for number in range(60):
        push(query, (number, f"k{number // 2}", number + 1))
    assert query._state.store.closed.height < 10  # type: ignore[union-attr]


def pairs(join: ev.Pipeline, *bundles: tuple[list[Any], list[Any]]) -> list[Any]:
    query = join.start_local({"left": SCHEMA, "right": SCHEMA})
    outputs = []
    for bundle in bundles:
        frames = [pl.DataFrame(rows, schema=SCHEMA, orient="row") for rows in bundle]
        outputs.append(query.push(dict(zip(("left", "right"), frames, strict=True)), now=0))
    return [(output.panes.select("k", "v", "v_right").rows(), output.counts.forgotten_keys) for output in outputs]


def last_rows(how: Any = "inner", **options: Any) -> ev.Pipeline:
    left, right = (ev.stream(time="t", key="k", watermark=ev.bounded_delay("0s")) for _ in range(2))
    return ev.join(left, right, last=2, keep=us(5), how=how, **options)


def test_the_last_rows_of_a_key_are_forgotten_with_it() -> None:
    bundles = (
        ([(0, "x", 0)], [(10, "a", 1), (11, "a", 2), (12, "b", 3)]),
        ([(111, "c", 0)], []),
        ([(150, "c", 0)], []),
        ([(151, "a", 5)], []),
        ([(152, "a", 6)], [(152, "a", 7)]),
    )
    observed = pairs(last_rows(forget_after=us(100)), *bundles)
    assert observed == [([], 0), ([], 1), ([], 1), ([], 0), ([("a", 5, 7), ("a", 6, 7)], 0)]
    kept = pairs(last_rows(), *bundles)
    assert ([("a", 5, 1), ("a", 5, 2)], 0) in kept


def test_rows_of_the_left_side_keep_a_key_too() -> None:
    observed = pairs(
        last_rows(forget_after=us(100)),
        ([], [(10, "a", 1)]),
        ([(90, "a", 2)], []),
        ([(150, "b", 0)], []),
        ([(160, "a", 3)], []),
    )
    assert observed[-1] == ([("a", 3, 1)], 0)


def test_a_right_row_that_met_none_is_padded_when_it_is_forgotten() -> None:
    observed = pairs(last_rows("right", forget_after=us(100)), ([], [(10, "a", 1)]), ([(200, "b", 2)], []))
    assert observed == [([], 0), ([("a", None, 1)], 1)]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ev.rows(3, forget_after="0s"), "forget_after of rows.*longer than zero"),
        (lambda: ev.rows(3, by="o", forget_after="1 day"), "forgotten with it.*in the watermark"),
        (lambda: ev.stream(time="t").window(THREES).agg(n=ev.count()), "forgets keys, and this stream has no key"),
    ],
)
def test_a_mistake_is_rejected_when_the_plan_is_built(build: Any, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        build()


def test_explain_shows_when_keys_are_forgotten() -> None:
    windows = ev.stream(time="t", key="k").window(ev.rows(3, forget_after="30 days")).agg(n=ev.count())
    assert "every 3 rows, keys forgotten after 30d" in windows.explain()
    assert "the last 2 rows of each key, keys forgotten after 30d" in last_rows(forget_after="30 days").explain()
