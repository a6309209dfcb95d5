"""Times that are numbers: in which unit, and what happens where nobody says so."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest

import eventide as ev

AT = datetime(2026, 3, 1, 12, 1, 20, tzinfo=UTC)
SECONDS = 1_772_366_480
NOW = (SECONDS + 5) * 1_000_000


def minutes(**options: Any) -> ev.Pipeline:
    return ev.stream("ts", watermark="30 seconds", **options).window(ev.tumbling("1 minute")).agg(last=ev.max("ts"))


@pytest.mark.parametrize(("unit", "factor"), [("s", 1), ("ms", 1_000), ("us", 1_000_000), ("ns", 1_000_000_000)])
@pytest.mark.parametrize("dtype", [pl.Int64, pl.UInt64, pl.Float64])
def test_numbers_are_instants_of_their_unit(unit: Any, factor: int, dtype: Any) -> None:
    rows = pl.DataFrame({"ts": pl.Series([SECONDS * factor, None], dtype=dtype)})
    result = minutes(time_unit=unit).local(rows, clock=[NOW])
    assert result.panes["window_start"].to_list() == [AT.replace(second=0)]
    assert result.metrics.dead == {"null_time": 1}


def test_fractions_of_seconds_are_kept() -> None:
    counts = ev.stream("ts", watermark="0 seconds", time_unit="s").window(ev.tumbling("100 ms")).agg(n=ev.count())
    result = counts.local(pl.DataFrame({"ts": [SECONDS + 0.25]}), clock=[NOW])
    assert result.panes["window_start"][0].microsecond == 200_000


@pytest.mark.parametrize(("factor", "unit"), [(1, "s"), (1_000, "ms")])
@pytest.mark.parametrize("more", [7, 7.0, 7.5])
def test_seconds_without_a_unit_are_rejected_with_the_fix(factor: int, unit: str, more: float) -> None:
    rows = pl.DataFrame({"ts": [SECONDS * factor + more - more, SECONDS * factor + more]})
    with pytest.raises(ev.DataError, match=rf"1970-01.*2026-03-01T12:01:20Z.*time_unit='{unit}'"):
        minutes().local(rows, clock=[NOW])


@pytest.mark.parametrize(
    ("times", "unit"),
    [
        ([SECONDS, 5], "s"),
        ([0, -1, None, SECONDS], "s"),
        ([1_700_000_000], "s"),
        ([1_772_000_000, 1_771_000_000], "s"),
        ([1_700_000_000_000], "ms"),
        ([SECONDS * 1_000, 0], "ms"),
        ([700_000_123, 800_000_456], "s"),  # in the nineties
        ([*range(SECONDS, SECONDS + 19), 70_000_000], "s"),
        ([SECONDS * 1_000_000_000 + 123], "ns"),
        ([1_700_000_000_000_000_000, 5], "ns"),
    ],
)
def test_implausible_microseconds_are_rejected_with_the_unit(times: list[Any], unit: str) -> None:
    with pytest.raises(ev.DataError, match=rf"time_unit='{unit}'"):
        minutes().local(pl.DataFrame({"ts": times}), clock=[NOW])


def test_a_number_as_text_is_a_dead_letter_that_names_the_unit() -> None:
    rows = pl.DataFrame({"ts": ["1772366480", "yesterday", "2026-03-01T12:01:20Z"]})
    dead = minutes().local(rows, clock=[NOW]).dead
    details = dict(zip(dead["ts"], dead["ev_detail"], strict=True))
    assert "Cast the column to a number, and add time_unit= to ev.stream(…)" in details["1772366480"]
    assert details["yesterday"] == "the time 'ts' cannot be used as an instant"


def test_a_number_as_text_in_a_struct_is_a_dead_letter_that_names_the_unit() -> None:
    rows = pl.DataFrame({"event": [{"ts": "1772366480"}]})
    counts = ev.stream("event.ts", watermark="30 seconds").window(ev.tumbling("1 minute")).agg(n=ev.count())
    assert "add time_unit=" in counts.local(rows, clock=[NOW]).dead["ev_detail"][0]


@pytest.mark.parametrize(
    "times",
    [
        [1, 2, 3],
        [0, 1_000_123, 200_000_456, 500_000_789],  # microseconds since the start of a recording
        list(range(0, 1_800_000_000, 7_654_321)),
        [SECONDS * 1_000_000, SECONDS],
        [7_000_000, 400_000_000, 500_000_000],
        [0, 70_000_000],
        [20 * 60_000_000, 25 * 60_000_000],
        [3_600_000_000],
        [SECONDS * 1_000_000],
        [SECONDS * 1e6 + 0.5],
        [70_000_000.0, float("inf")],
        [0.5, 3.5],
        [float("nan"), None],
        [12 * 86_400_000_000],
        [None],
    ],
)
def test_honest_microseconds_are_accepted(times: list[Any]) -> None:
    floats = any(isinstance(time, float) for time in times)
    rows = pl.DataFrame({"ts": pl.Series(times, dtype=pl.Float64 if floats else pl.Int64)})
    assert minutes().local(rows, clock=[NOW]).metrics.rows == len(times)


def test_a_query_that_has_a_watermark_is_not_asked_again() -> None:
    query = minutes().start_local()
    query.push(pl.DataFrame({"ts": [5]}), now=NOW)
    assert query.push(pl.DataFrame({"ts": [SECONDS + 1]}), now=NOW).counts.rows == 1


def test_the_unit_is_part_of_the_plan() -> None:
    pipeline = minutes(time_unit="s")
    assert pickle.loads(pickle.dumps(pipeline)).explain() == pipeline.explain() != minutes().explain()
    assert "column 'ts' in s" in pipeline.explain()
    query = pipeline.start_local({"ts": pl.Int64})
    with pytest.raises(ev.EventideError, match="time"):
        minutes().start_local(saved=query.save())


@pytest.mark.parametrize(
    ("make", "answer"),
    [
        (lambda: ev.stream("ts", time_unit="seconds"), "use 's', 'ms', 'us' or 'ns'"),
        (lambda: ev.stream(ev.ingestion_time(), time_unit="s"), "column of numbers"),
        (lambda: minutes(time_unit="s").local(pl.DataFrame({"ts": ["2026-03-01"]})), "is String. Remove it"),
    ],
)
def test_a_unit_that_does_not_fit_is_rejected(make: Any, answer: str) -> None:
    with pytest.raises(ev.PlanError, match=answer):
        make()


@pytest.mark.parametrize(("stated", "factor", "unit"), [("s", 1_000, "ms"), ("ms", 1, "s"), ("ns", 1_000_000, "us")])
def test_a_stated_unit_that_is_implausible_is_rejected_with_the_one_that_is_meant(
    stated: Any, factor: int, unit: str
) -> None:
    rows = pl.DataFrame({"ts": [(SECONDS + 3) * factor + (factor > 1)]})
    with pytest.raises(ev.DataError, match=rf"'ts' are numbers.*2026-03-01T12:01:23.*Use time_unit='{unit}' of"):
        minutes(time_unit=stated).local(rows, clock=[NOW])


def test_microseconds_that_are_stated_are_never_questioned() -> None:
    assert minutes(time_unit="us").local(pl.DataFrame({"ts": [SECONDS + 3]}), clock=[NOW]).metrics.kept == 1


@pytest.mark.parametrize("options", [{}, {"time_unit": "s"}])
def test_declared_watermarks_in_another_unit_are_rejected(options: Any) -> None:
    counts = ev.stream("ts", watermark=ev.punctuated("mark"), **options).window(ev.tumbling("1m")).agg(n=ev.count())
    rows = pl.DataFrame({"ts": [SECONDS if options else SECONDS * 1_000_000], "mark": [SECONDS - 1]})
    with pytest.raises(ev.DataError, match=r"The watermarks in column 'mark'.*pl\.from_epoch\('mark', time_unit='s'\)"):
        counts.local(rows, clock=[NOW])
    converted = rows.with_columns(pl.from_epoch("mark", time_unit="s"))
    assert counts.local(converted, clock=[NOW], drain=False).metrics.watermark == AT.replace(second=19)


def test_arrival_times_in_another_unit_are_rejected() -> None:
    rows = pl.DataFrame({"ts": [AT], "arrived": [SECONDS]})
    with pytest.raises(ev.PlanError, match=r"bundle_by='arrived'.*2026-03-01.*pl\.from_epoch\('arrived', time_unit"):
        minutes().local(rows, bundle_by="arrived")


def test_a_replay_by_event_time_reads_it_in_its_unit() -> None:
    rows = pl.DataFrame({"ts": [SECONDS, SECONDS + 60]})
    result = minutes(time_unit="s").local(rows, bundle_by="ts")
    assert result.metrics.kept == 2 and result.panes["emitted_at"][0] == AT.replace(minute=2)


def test_a_time_of_day_is_a_dead_letter_that_asks_for_the_date() -> None:
    rows = pl.DataFrame({"ts": ["12:00", "9:30:15.5", "12:00Z", "12 o'clock"]})
    details = minutes().local(rows, clock=[NOW]).dead["ev_detail"]
    assert ["without a date" in detail for detail in details] == [True, True, True, False]
