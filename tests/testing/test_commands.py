"""Commands of a test stream that change what the watermark waits for."""

from __future__ import annotations

import pytest

import eventide as ev
from eventide.testing import TestStream, pane

NUMBERED = ev.stream("ts", watermark=ev.ascending(origin="till", sequence="n"))
COUNTS = NUMBERED.window(ev.tumbling("1 minute")).agg(rows=ev.count())


def row(ts: str, n: int, till: str = "a") -> dict[str, object]:
    return {"ts": ts, "till": till, "n": n}


def test_a_skipped_gap_no_longer_holds_back_the_watermark() -> None:
    stream = TestStream(COUNTS).add(row("12:00", 1), row("12:05", 3), row("12:09", 5))
    stream.expect_watermark("12:00").expect_nothing()
    stream.skip_gap("a", up_to=2).expect_watermark("12:05").expect(pane(window=("12:00", "12:01"), rows=1))
    stream.skip_gap("a").expect_watermark("12:09").expect(pane(window=("12:05", "12:06"), rows=1))


def test_a_retired_origin_no_longer_holds_back_the_watermark() -> None:
    stream = TestStream(COUNTS).add(row("12:00", 1), row("12:05", 1, "b")).expect_watermark("12:00")
    stream.retire("a").expect_watermark("12:05").expect(pane(window=("12:00", "12:01")))


def test_an_expected_origin_that_never_came_can_be_retired() -> None:
    expecting = ev.stream("ts", watermark=ev.ascending(origin="till", expect_origins=["a", "b"]))
    stream = TestStream(expecting.window(ev.tumbling("1 minute")).agg(rows=ev.count())).add(
        {"ts": "12:00", "till": "a"}
    )
    stream.expect_watermark(None).retire("b").expect_watermark("12:00")


def test_a_gap_or_an_origin_that_is_not_there_is_rejected() -> None:
    stream = TestStream(COUNTS).add(row("12:00", 1))
    with pytest.raises(ev.PlanError, match=r"skip_gap\('a'\): no sequence numbers of this origin are missing"):
        stream.skip_gap("a")
    with pytest.raises(ev.PlanError, match=r"retire\('z'\): there is no such origin"):
        stream.retire("z")


def test_commands_need_rows_first() -> None:
    with pytest.raises(ev.PlanError, match="No rows have been added yet"):
        TestStream(COUNTS).skip_gap()
