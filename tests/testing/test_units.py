"""Tests of pipelines whose event times are numbers: their unit, and numbers in another unit."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.testing import TestStream, pane

DAY = "2026-03-01"
NOON = 1_772_366_400


def minutes(unit: Any = None, watermark: Any = "30 seconds", by: str = "1 minute") -> ev.Pipeline:
    return ev.stream("ts", watermark=watermark, time_unit=unit).window(ev.tumbling(by)).agg(n=ev.count())


@pytest.mark.parametrize(("unit", "factor"), [("s", 1), ("ms", 1_000), ("us", 1_000_000), ("ns", 1_000_000_000)])
@pytest.mark.parametrize("schema", [None, {"ts": pl.Int64}, {"ts": pl.Float64}])
def test_rows_have_times_in_the_unit_of_the_stream(unit: Any, factor: int, schema: Any) -> None:
    for time in ((NOON + 5) * factor, "12:00:05", f"{DAY}T12:00:05Z", datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC)):
        stream = TestStream(minutes(unit), day=DAY, schema=schema).add({"ts": time})
        stream.expect_watermark("11:59:35").end().expect(pane(window=("12:00", "12:01"), n=1))


def test_fractions_of_a_unit_are_kept() -> None:
    TestStream(minutes("s", by="100 ms"), day=DAY).add({"ts": "12:00:00.25"}).end().expect(
        pane(window=("12:00:00.2", "12:00:00.3"))
    )


def test_late_rows_are_expected_with_times_or_numbers(tmp_path: Path) -> None:
    stream = TestStream(minutes("s"), day=DAY).add({"ts": "12:05"}).add({"ts": "12:00"}, {"ts": NOON + 1})
    stream.expect_late({"ts": NOON}, {"ts": "12:00:01"}).picture(tmp_path / "picture.html")
    assert [event.time for event in stream.timeline().events][:2] == [(NOON + 300) * 1_000_000, NOON * 1_000_000]


@pytest.mark.parametrize("day", [DAY, "1970-01-01"])
@pytest.mark.parametrize(
    "watermark", ["30 seconds", ev.ascending(), ev.punctuated("mark"), ev.processing_time("1 minute")]
)
@pytest.mark.parametrize(("factor", "unit"), [(1, "s"), (1_000, "ms"), (1_000_000_000, "ns")])
@pytest.mark.parametrize("frame", [False, True])
def test_numbers_in_another_unit_are_rejected_as_in_a_pipeline(
    day: str, watermark: Any, factor: int, unit: str, frame: bool
) -> None:
    row = {"ts": (NOON + 5) * factor, "mark": None}
    rows: Any = pl.DataFrame([row], schema={"ts": pl.Int64, "mark": pl.Int64}) if frame else row
    with pytest.raises(ev.PlanError, match=rf"column 'ts' are numbers.*12:00:0.*Use time_unit='{unit}' of ev\.stream"):
        TestStream(minutes(watermark=watermark), day=day).add(rows)


def test_a_stated_unit_that_is_implausible_is_rejected() -> None:
    with pytest.raises(ev.PlanError, match=r"read as seconds: .*Use time_unit='ms' of"):
        TestStream(minutes("s"), day=DAY).add({"ts": NOON * 1_000})


def test_declared_watermarks_in_another_unit_are_rejected() -> None:
    stream = TestStream(minutes(watermark=ev.punctuated("mark")), day=DAY)
    with pytest.raises(ev.PlanError, match=r"'mark' are numbers.*Write microseconds, or write times such as '12:00'"):
        stream.add({"ts": "12:00:05", "mark": NOON})


@pytest.mark.parametrize(
    "act",
    [
        lambda stream: stream.advance_watermark(NOON + 5),
        lambda stream: stream.add({"ts": "12:00"}, at=NOON + 5),
        lambda stream: stream.idle(to=NOON + 5),
        lambda stream: TestStream(minutes(), clock=NOON + 5),
    ],
)
def test_an_instant_in_another_unit_is_rejected(act: Any) -> None:
    with pytest.raises(ev.PlanError, match=r"In seconds it would be 2026-03-01T12:00:05Z. Write the time with its"):
        act(TestStream(minutes()).add({"ts": "11:00"}))


@pytest.mark.parametrize("time", [5, 0, 60_000_000, 3_599_999_999, 1_772_366_000, 43_200_000_000])
def test_microseconds_of_a_day_in_1970_are_accepted(time: int) -> None:
    assert TestStream(minutes()).add({"ts": time}).end().panes["n"].to_list() == [1]
