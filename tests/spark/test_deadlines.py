"""Deadlines on a real Spark: a batch runs when there is data or when something is due, and not otherwise."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import SparkSession

import eventide as ev
from tests.spark.running import Stream

IDLE = (
    ev.stream(time="ts", key="shop", watermark=ev.ascending(origin="shop", idle_timeout="1 second"))
    .window(ev.tumbling("1 minute"))
    .agg(n=ev.count())
)


def rows(*seconds: int, shop: str = "kiel") -> pl.DataFrame:
    """A row at each second."""
    times = pl.Series([second * 1_000_000 for second in seconds], dtype=pl.Int64).cast(pl.Datetime("us", "UTC"))
    return pl.DataFrame({"ts": times, "shop": [shop] * len(seconds)})


def until(condition: Callable[[], object], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def control(stream: Stream) -> list[str]:
    place = Path(stream.checkpoint) / "eventide" / "control"
    return [path.name for path in place.iterdir() if not path.name.startswith((".", "_"))]


def test_an_idle_origin_ends_windows_without_a_row_and_then_no_batch_runs(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path).put(pl.concat([rows(5, 130), rows(10, shop="ulm")]))
    query = stream.run(IDLE, available_now=False, state="driver")
    try:
        until(lambda: stream.all("panes").height)
        until(lambda: not control(stream))
        batches = query.batches
        time.sleep(3)
        assert query.batches == batches <= 4  # the first start, the rows, and the end of the silence
        assert stream.all("panes")["n"].to_list() == [1, 1]
        stream.put(rows(200))
        until(lambda: stream.metrics[-1].rows or query.batches > batches)
    finally:
        query.stop()


def test_a_query_without_data_and_deadlines_starts_no_batch(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path).put(rows(5))
    plan = (
        ev.stream(time="ts", watermark=ev.processing_time("1 second")).window(ev.tumbling("1 second")).agg(n=ev.count())
    )
    query = stream.run(plan, available_now=False, state="driver")
    try:
        until(lambda: query.batches)
        time.sleep(3)
        assert query.batches == 1
    finally:
        query.stop()


def test_a_deadline_that_passes_while_the_query_is_stopped_gets_its_batch(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path).put(pl.concat([rows(5, 130), rows(10, shop="ulm")]))
    stream.run(IDLE, state="driver")
    assert stream.all("panes").height == 0
    time.sleep(1.1)
    stream.run(IDLE, state="driver")
    assert stream.all("panes")["n"].to_list() == [1, 1] and control(stream) == []
    batches = len(stream.metrics)
    stream.run(IDLE, state="driver")
    assert len(stream.metrics) == batches  # nothing is due any more


def test_a_processing_time_trigger_fires_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path).put(rows(5, 6))
    plan = (
        ev.stream(time="ts", key="shop", watermark=ev.ascending())
        .window(ev.tumbling("1 minute"))
        .trigger(ev.every("1 second"), mode="discarding")
        .agg(n=ev.count())
    )
    query = stream.run(plan, available_now=False, state="driver")
    try:
        until(lambda: stream.all("panes").height)
        stream.put(rows(7))
        until(lambda: stream.all("panes").height == 2)
        assert stream.all("panes")["n"].to_list() == [2, 1]
        first, second = stream.all("panes")["emitted_at"]
        assert second >= first + timedelta(seconds=1)
        time.sleep(2)
        assert query.batches == 4
    finally:
        query.stop()


def test_a_batch_that_a_deadline_started_is_repeated_without_its_file(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path).put(pl.concat([rows(5, 130), rows(10, shop="ulm")]))
    stream.run(IDLE, state="driver")
    time.sleep(1.1)

    def fail(metrics: ev.BatchMetrics) -> None:
        raise OSError("the driver ends before Spark has committed")

    with pytest.raises(Exception, match="the driver ends"):
        stream.run(IDLE, state="driver", on_batch=fail)
    assert control(stream) == []
    stream.put(rows(200))
    stream.run(IDLE, state="driver", drain=True)
    assert stream.all("panes")["n"].to_list() == [1, 1, 1, 1]


def test_a_wake_up_is_no_command_in_any_placement(spark: SparkSession, tmp_path: Path, placement: str) -> None:
    stream = Stream(spark, tmp_path).put(rows(5, 130))
    stream.run(IDLE)
    (Path(stream.checkpoint) / "eventide" / "control" / "wake-1").touch()
    stream.run(IDLE)
    assert stream.metrics[-1].rows == 0 and stream.metrics[-1].commands == ()


def test_a_silent_stream_ends_its_windows_by_the_clock(spark: SparkSession, tmp_path: Path, placement: str) -> None:
    watermark = ev.bounded_delay("1 second", at_latest="2 seconds")
    alive = ev.stream(time="ts", key="shop", watermark=watermark).window(ev.tumbling("1 second")).agg(n=ev.count())
    stream = Stream(spark, tmp_path).put(rows(int(time.time())))
    query = stream.run(alive, available_now=False)
    try:
        until(lambda: stream.all("panes").height)
        assert stream.all("panes")["n"].to_list() == [1]
    finally:
        query.stop()
