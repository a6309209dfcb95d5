"""Commands to a running query, and what it stores of them."""

import polars as pl
import pytest

import eventide as ev

S = 1_000_000
NUMBERED = ev.ascending(origin="o", sequence="n")


def counting(watermark: object) -> ev.Pipeline:
    return ev.stream(time="ts", watermark=watermark).window(ev.tumbling("1s")).agg(n=ev.count())  # type: ignore[arg-type]


def rows(*of: tuple[int, str, int]) -> pl.DataFrame:
    return pl.DataFrame([(t * S, o, n) for t, o, n in of], schema=["ts", "o", "n"], orient="row")


def test_a_gap_can_be_skipped() -> None:
    query = counting(NUMBERED).start_local()
    assert query.push(rows((1, "a", 1), (5, "a", 3)), now=0).watermark_us == 1 * S
    assert query.skip_gap("a")
    assert query.push(now=1).watermark_us == 5 * S
    assert not query.skip_gap("a")


def test_an_origin_can_be_retired() -> None:
    query = counting(ev.ascending(origin="o")).start_local()
    assert query.push(rows((1, "a", 1), (9, "b", 1)), now=0).watermark_us == 1 * S
    assert query.retire("a") and not query.retire("unknown")
    assert query.push(now=1).watermark_us == 9 * S


def test_what_was_saved_before_stays_as_it_was() -> None:
    query = counting(NUMBERED).start_local()
    query.push(rows((1, "a", 1), (5, "a", 3)), now=0)
    saved = query.save()
    query.skip_gap("a")
    assert counting(NUMBERED).start_local(saved=saved).push(now=1).watermark_us == 1 * S


def test_a_step_that_failed_leaves_no_trace() -> None:
    pipeline = (
        ev.stream(time="ts", watermark=ev.punctuated("p", origin="o")).window(ev.tumbling("10s")).agg(n=ev.count())
    )
    query = pipeline.start_local()
    query.push(pl.DataFrame({"ts": [5], "o": ["a"], "p": [5]}), now=0)
    before = query.save()
    with pytest.raises(ev.DataError):
        query.push(pl.DataFrame({"ts": [5, 5], "o": ["a", "zzz"], "p": [1, 9]}), now=1)
    assert query.save() == before


def test_draining_after_a_restart_uses_the_clock_that_was_saved() -> None:
    query = counting(ev.no_watermark()).start_local()
    query.push(rows((1, "a", 1)), now=1000)
    later = counting(ev.no_watermark()).start_local(saved=query.save())
    assert later.drain().panes.equals(query.drain().panes)


def test_a_query_need_not_keep_what_it_gave() -> None:
    query = counting(ev.no_watermark()).start_local(keep=False)
    assert query.push(rows((1, "a", 1)), now=0).counts.rows == 1
    assert query.result.steps == []


@pytest.mark.parametrize("declared", ["garbage", "2026-13-77"])
def test_a_declared_watermark_that_is_no_instant_is_a_bad_row(declared: str) -> None:
    frame = pl.DataFrame({"ts": [0, 1], "p": [None, declared]})
    result = counting(ev.punctuated("p")).local(frame, clock=[0], drain=False)
    assert result.dead["ev_reason"].to_list() == ["bad_row"] and result.metrics.kept == 1


def test_a_declared_watermark_beyond_the_guard_moves_nothing() -> None:
    frame = pl.DataFrame({"ts": [0, 1, 2], "p": [None, 2**61, 2**63 - 1]})
    result = counting(ev.punctuated("p", max_future_skew="1 minute")).local(frame, clock=[0], drain=False)
    assert sorted(result.dead["ev_reason"].to_list()) == ["bad_row", "future"]
    assert result.steps[-1].watermark_us == -(2**63)
