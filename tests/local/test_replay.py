"""One frame replayed as a stream, so that early and late panes are seen without Spark and without a test kit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eventide as ev

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTES = ev.stream("ts", watermark="0 seconds").window(ev.tumbling("1 minute"))
COUNTS = MINUTES.emit(early="10 seconds", allowed_lateness="1 hour").agg(n=ev.count())


def rows(*events: tuple[float, float]) -> pl.DataFrame:
    """Events by their time and their arrival, in seconds after noon."""
    times = [(NOON + timedelta(seconds=ts), NOON + timedelta(seconds=arrived)) for ts, arrived in events]
    schema = {"ts": pl.Datetime("us", "UTC"), "arrived_at": pl.Datetime("us", "UTC")}
    return pl.DataFrame(times, schema=schema, orient="row")


def timings(result: Any) -> list[str]:
    return [timing for step in result.steps for timing in ("EARLY", "ON_TIME", "LATE") if step.counts.panes.get(timing)]


ROWS = rows((70, 71), (5, 6), (50, 51), (20, 80))


def test_one_frame_is_one_bundle_without_early_and_late_panes() -> None:
    assert set(COUNTS.local(ROWS).metrics.panes) == {"ON_TIME"}


def test_rows_arrive_in_the_order_of_the_column() -> None:
    result = COUNTS.local(ROWS, bundle_by="arrived_at", drain=False)
    assert timings(result) == ["EARLY", "EARLY", "ON_TIME", "LATE"]
    assert result.metrics.panes["LATE"] == 1 and result.metrics.refined == 1


def test_a_pane_is_emitted_at_its_deadline_although_no_row_arrives() -> None:
    result = COUNTS.local(rows((5, 6), (40, 55)), bundle_by="arrived_at", drain=False)
    seconds = [(now - int(NOON.timestamp() * 1e6)) / 1e6 for now in result.clock]
    assert seconds == [6, 16, 55] and timings(result) == ["EARLY"]


def test_a_period_makes_micro_batches_that_end_with_it() -> None:
    result = MINUTES.agg(n=ev.count()).local(ROWS, bundle_by="arrived_at", every="1 minute", drain=False)
    assert [step.counts.rows for step in result.steps] == [2, 2]
    assert [(now - int(NOON.timestamp() * 1e6)) / 60e6 for now in result.clock] == [1, 2]


def test_bundles_of_so_many_rows_keep_the_order_of_the_frame() -> None:
    result = COUNTS.local(ROWS, bundle_by=2, clock=["2026-03-01T12:02Z", "2026-03-01T12:03Z"], drain=False)
    assert [step.counts.rows for step in result.steps] == [2, 2]
    assert result.metrics.refined == 2  # both arrive after the row of 12:01:10


def test_inputs_are_merged_by_their_arrival() -> None:
    clicks = ev.stream("ts", watermark="0 seconds")
    both = ev.union(web=clicks, shop=clicks).window(ev.tumbling("1 minute")).agg(n=ev.count())
    frames = {"web": rows((5, 6), (70, 71)), "shop": rows((10, 11), (75, 71))}
    result = both.local(frames, bundle_by="arrived_at", drain=False)
    assert [step.counts.rows for step in result.steps] == [1, 1, 2]


def test_the_deadlines_of_a_chain_pass_in_each_of_its_pipelines() -> None:
    hours = ev.stream("window_time").window(ev.tumbling("1 hour")).emit(early="30 seconds").agg(most=ev.max("n"))
    counts = ev.stream("ts", watermark=ev.processing_time("1 second")).window(ev.tumbling("1 minute")).agg(n=ev.count())
    result = counts.then(hours).local(rows((5, 6), (3700, 3701)), bundle_by="arrived_at", drain=False)
    seconds = [(now - int(NOON.timestamp() * 1e6)) / 1e6 for now in result.clock]
    assert 61 in seconds and 91 in seconds  # the minute is complete, and half a minute later the hour has an early pane


def test_an_address_of_files_is_read_as_a_frame(tmp_path: Path) -> None:
    ROWS.write_parquet(tmp_path / "orders.parquet")
    assert COUNTS.local(f"{tmp_path}/orders.parquet", bundle_by="arrived_at").metrics.rows == 4


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500)), min_size=1, max_size=30), st.integers(1, 7))
def test_the_sum_of_diffs_does_not_depend_on_bundles(events: list[tuple[int, int]], size: int) -> None:
    frame = rows(*events)
    expected = COUNTS.local(frame).panes["n"].sum()
    by_arrival: dict[str, Any] = {"bundle_by": "arrived_at"}
    for options in (by_arrival, by_arrival | {"every": "20 seconds"}, {"bundle_by": size}):
        panes = COUNTS.local(frame, **options).panes
        assert (panes["n"] * panes["diff"]).sum() == expected == len(events)


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ({"bundle_by": 0}, "bundle_by=0: name a column of arrival times"),
        ({"bundle_by": 1.5}, "bundle_by=1.5: name a column of arrival times"),
        ({"bundle_by": True}, "bundle_by=True: name a column of arrival times"),
        ({"bundle_by": "arrived"}, "'arrived'"),
        ({"bundle_by": 5, "every": "1 minute"}, "bundle_by=5 counts rows"),
        ({"every": "1 minute"}, "every= needs a column of arrival times"),
        ({"bundle_by": "arrived_at", "clock": [0]}, "the clock follows bundle_by='arrived_at'"),
        ({"bundle_by": 1, "clock": [0]}, "clock= has 1 times, but there is a bundle number 2"),
    ],
)
def test_options_that_do_not_fit_are_rejected(options: dict[str, Any], answer: str) -> None:
    with pytest.raises(ev.PlanError) as rejected:
        COUNTS.local(ROWS, **options)
    assert answer in str(rejected.value)


def test_rows_without_an_arrival_time_are_rejected() -> None:
    missing = ROWS.with_columns(arrived_at=pl.lit(None, pl.Datetime("us", "UTC")))
    with pytest.raises(ev.PlanError, match="4 rows have no time in 'arrived_at'"):
        COUNTS.local(missing, bundle_by="arrived_at")


def test_bundles_are_not_bundled_again() -> None:
    with pytest.raises(ev.PlanError, match="each a bundle already"):
        COUNTS.local([ROWS, ROWS], bundle_by="arrived_at")
