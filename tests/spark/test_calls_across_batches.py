"""Calls that span batches on a real Spark: answers bring batches, and a restart calls again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

import eventide as ev
from tests.local.harness import Service
from tests.spark.running import Stream
from tests.spark.test_deadlines import control
from tests.spark.test_deadlines import until as until_soon


def until(condition: Callable[[], object]) -> None:
    until_soon(condition, 120)


def rows(*of: tuple[int, int]) -> pl.DataFrame:
    """Rows by their second and their value."""
    times = pl.Series([second * 1_000_000 for second, _ in of], dtype=pl.Int64).cast(pl.Datetime("us", "UTC"))
    return pl.DataFrame({"ts": times, "v": [value for _, value in of]})


def pipeline(fn: Any, **options: Any) -> ev.Pipeline:
    stream = ev.stream(time="ts", watermark=ev.ascending())
    mapped = stream.map_async(fn, output={"w": pl.Int64}, **{"across_bundles": True, "retries": 0, **options})
    return mapped.window(ev.tumbling("10 seconds")).agg(w=ev.collect_list("w"))


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    yield service
    service.close()


async def double(row: dict[str, Any]) -> dict[str, Any]:
    if row["v"] == 0:
        raise ValueError("zero")
    return {"w": 2 * row["v"]}


def test_answers_bring_batches_and_a_restart_calls_again_for_the_rows_in_flight(
    spark: SparkSession, tmp_path: Path, service: Service
) -> None:
    stream = Stream(spark, tmp_path).put(rows((1, 1), (2, 2), (15, 3)))

    def panes() -> list[list[int]]:
        observed = stream.all("panes")
        return observed["w"].to_list() if observed.height else []

    query = stream.run(pipeline(service.call), available_now=False)
    try:
        service.wait_for(1, 2, 3)
        until(lambda: stream.metrics)
        assert stream.metrics[-1].in_flight == 3 and stream.metrics[-1].watermark is None
        service.answer(2, 3)
        until(lambda: len(stream.metrics) > 1)
        assert not stream.panes
        service.answer(1)
        until(lambda: stream.metrics[-1].in_flight == 0)
        assert panes() == [[2, 4]]
        until(lambda: not control(stream))
        batches = len(stream.metrics)
        time.sleep(1)
        assert len(stream.metrics) == batches  # nothing is in flight, so nothing wakes the query
        stream.put(rows((30, 4)))
        until(lambda: stream.metrics[-1].in_flight == 1)
    finally:
        query.stop()
    (state,) = ev.inspect(stream.checkpoint, pipeline=pipeline(service.call))
    assert (state.watermark_us, state.in_flight) == (15_000_000, 1) and "in flight  1 rows" in str(state)
    assert state.plan["calls"] == "across bundles, for w: Int64"
    query = stream.run(pipeline(service.call), available_now=False)
    try:
        until(lambda: service.calls.count(4) == 2)
        service.answer(4)
        until(lambda: len(panes()) == 2)
    finally:
        query.stop()
    stream.run(pipeline(service.call), drain=True)
    assert panes() == [[2, 4], [6], [8]]
    assert sum(metrics.rows for metrics in stream.metrics) == 4


def test_a_run_that_ends_with_the_data_waits_for_all_calls(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path).put(rows((1, 1), (2, 0)), rows((15, 2)), rows((1, 3), (30, 4)))
    stream.run(pipeline(double), drain=True)
    local = pipeline(double, across_bundles=False).local([rows((1, 1), (2, 0)), rows((15, 2)), rows((1, 3), (30, 4))])
    assert stream.all("panes")["w"].to_list() == local.panes["w"].to_list() == [[2], [4], [8]]
    assert stream.all("late")["v"].to_list() == [3] and stream.all("dead")["v"].to_list() == [0]
    assert all(metrics.balanced and metrics.in_flight == 0 for metrics in stream.metrics)


def test_executors_and_transform_reject_calls_across_bundles(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path).put(rows((1, 1)))
    with pytest.raises(ev.PlanError, match=r"across_bundles=True\) runs in process and with"):
        stream.run(pipeline(double), state="executors")
    with pytest.raises(ev.PlanError, match="so remove the option"):
        stream.rows.transform(pipeline(double))
