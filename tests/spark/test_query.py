"""Commands, metrics and inspection of a query, rejected queries, and errors in user functions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession

import eventide as ev
from eventide.spark.control_status import RunningLock
from eventide.spark.repair import repair
from tests.spark.running import Stream, comparable, settings

pytestmark = pytest.mark.usefixtures("placement")

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
SCHEMA = {"ts": pl.Datetime("us", "UTC"), "shop": pl.String(), "price": pl.Int64()}
ENDLESS = ev.stream(time="ts", key="shop", watermark=ev.no_watermark())
PER_MINUTE = ENDLESS.window(ev.tumbling("1 minute")).agg(n=ev.count())


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def micros(second: float) -> int:
    return int(at(second).timestamp()) * 1_000_000


def rows(*told_: tuple[float | None, str, int]) -> pl.DataFrame:
    return pl.DataFrame(
        [(None if second is None else at(second), shop, price) for second, shop, price in told_],
        schema=SCHEMA,
        orient="row",
    )


def test_commands_are_obeyed_in_their_batch_and_state_can_be_looked_into(spark: SparkSession, tmp_path: Path) -> None:
    strategy = ev.bounded_delay("0 seconds", origin="shop", idle_timeout="1 hour")
    pipeline = ev.stream(time="ts", watermark=strategy).window(ev.tumbling("1 minute")).agg(n=ev.count())
    heard: list[tuple[str, ev.BatchMetrics]] = []
    listener = ev.listen(spark, lambda query, batch: heard.append((query, batch)))
    registry = CollectorRegistry()
    gauges = ev.listen(spark, ev.PrometheusMetrics(registry))
    stream = Stream(spark, tmp_path).put(rows((10, "kiel", 1), (20, "bonn", 1)), rows((200, "kiel", 1)))
    query = stream.run(pipeline, name="commands")
    assert [batch.watermark for batch in stream.metrics] == [at(10), at(20)]
    assert stream.metrics[-1].least_origin == "bonn"
    (operator,) = ev.inspect(stream.checkpoint, pipeline=pipeline, spark=spark)
    assert {origin.name: origin.watermarks[0] for origin in operator.origins} == {
        "kiel": at(200),
        "bonn": at(20),
    }
    assert operator.windows is not None and operator.windows["rows"].to_list() == [2, 1]
    assert (operator.watermark, operator.buckets) == (at(20), 1)
    query.control.retire("bonn")
    stream.put(rows((210, "kiel", 1)))
    stream.run(pipeline)
    assert stream.metrics[-1].watermark == at(210)
    query.control.advance_watermark(at(300))
    stream.run(pipeline)
    assert stream.metrics[-1].watermark == at(300)
    query.control.drain()
    stream.run(pipeline)
    assert stream.metrics[-1].drained
    assert stream.all("panes")["n"].to_list() == [2, 2]
    spark.streams.removeListener(listener)
    spark.streams.removeListener(gauges)
    assert ("commands", stream.metrics[0]) in heard
    assert registry.get_sample_value("eventide_rows_total", {"query": "commands", "operator": "0"}) == 3


def test_two_commands_of_one_batch_are_applied_in_the_order_in_which_they_were_given(
    spark: SparkSession, tmp_path: Path
) -> None:
    strategy = ev.ascending(sequence="price")
    pipeline = ev.stream(time="ts", watermark=strategy).window(ev.tumbling("1 minute")).agg(n=ev.count())
    stream = Stream(spark, tmp_path).put(rows((10, "kiel", 1), (70, "kiel", 3)))
    query = stream.run(pipeline)
    assert stream.metrics[-1].watermark == at(10)
    with pytest.warns(UserWarning, match="The command retire bonn was ignored"):
        for command in (query.control.skip_gap, lambda: query.control.retire("bonn"), query.control.drain):
            command()
        stream.run(pipeline)
    (last,) = [batch for batch in stream.metrics if batch.commands]
    assert [(command.action, command.known) for command in last.commands] == [
        ("skip_gap", True),
        ("retire", False),
        ("drain", True),
    ]
    assert last.drained and stream.all("panes")["n"].to_list() == [1, 1]


def test_a_row_far_ahead_of_the_clock_is_a_dead_letter_and_moves_no_watermark(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = ev.stream(time="ts", watermark=ev.bounded_delay("0s")).window(ev.tumbling("1 minute")).agg(n=ev.count())
    bundles = rows((10, "kiel", 1), (3_000_000_000, "kiel", 1)), rows((70, "kiel", 1))
    stream = Stream(spark, tmp_path).put(*bundles)
    stream.run(pipeline)
    assert [batch.watermark for batch in stream.metrics] == [at(10), at(70)]
    assert stream.all("dead")["ev_reason"].to_list() == ["future"] and stream.metrics[1].late == 0


def test_a_watermark_that_went_too_far_is_noticed_and_repaired(spark: SparkSession, tmp_path: Path) -> None:
    def pipeline(skew: str | None) -> ev.Pipeline:
        watermark = ev.bounded_delay("0s", max_future_skew=skew)
        return ev.stream(time="ts", watermark=watermark).window(ev.tumbling("1 minute")).agg(n=ev.count())

    stream = Stream(spark, tmp_path).put(rows((10, "kiel", 1), (3_000_000_000, "kiel", 1)), rows((70, "kiel", 1)))
    with pytest.warns(ev.LateRowsWarning, match="Batch 1: 1 of 1 rows of a batch are late"):
        stream.run(pipeline(None))
    lock = RunningLock(Path(stream.checkpoint, "eventide"))
    lock.acquire()
    with pytest.raises(ev.PlanError, match="A query is running"):
        repair(stream.checkpoint, micros(10), spark=spark)
    lock.release()
    with pytest.raises(ev.PlanError, match="is not below it"):
        repair(stream.checkpoint, micros(4_000_000_000), spark=spark)
    result = repair(stream.checkpoint, micros(10), pipeline=pipeline(None), spark=spark)
    assert result.closed is not None and result.closed[0] == (micros(0), micros(60))
    stream.put(rows((20, "kiel", 1), (80, "kiel", 1)), rows((15, "kiel", 1), (200, "kiel", 1)))
    stream.run(pipeline("1 hour"))
    assert [batch.watermark for batch in stream.metrics[2:]] == [at(80), at(200)]
    assert [batch.late for batch in stream.metrics[2:]] == [0, 1]
    assert stream.all("panes")["n"].to_list() == [1, 1, 1]  # the first window closed twice


def test_without_a_watermark_a_stream_is_rejected_and_a_table_is_not(spark: SparkSession, tmp_path: Path) -> None:
    unstated = ev.stream(time="ts", key="shop").window(ev.tumbling("1 minute")).agg(n=ev.count())
    stream = Stream(spark, tmp_path).put(rows((10, "kiel", 1)))
    with pytest.raises(ev.PlanError, match="The stream has no watermark"):
        stream.rows.transform(unstated)
    with pytest.raises(ev.PlanError, match="The stream has no watermark"):
        stream.run(unstated)
    total = ev.stream(time="ts", watermark="1 second").window(ev.global_window()).agg(n=ev.count())
    with pytest.raises(ev.PlanError, match="global window"):
        stream.rows.transform(total)
    with pytest.raises(ev.PlanError, match="global window"):
        total.run(stream.rows, sink="noop", checkpoint=tmp_path / "total")
    table = spark.read.parquet(str(tmp_path / "in"))
    assert table.transform(unstated).columns == stream.rows.transform(PER_MINUTE).columns


def test_a_processing_time_trigger_fires_when_no_data_arrives(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = (
        ev.stream(time="ts", key="shop")
        .window(ev.tumbling("1 minute"))
        .trigger(ev.after_watermark(early=ev.after_processing_time("1 second")), mode="accumulating")
        .agg(n=ev.count())
    )
    came = threading.Event()
    stream = Stream(spark, tmp_path).put(rows((10, "kiel", 1)))
    query = stream.run(pipeline, interval="1 second", sink=lambda batch, _: came.set() if batch.count() else None)
    try:
        assert came.wait(120)
        assert all(batch.rows == 0 for batch in stream.metrics[1:])
    finally:
        query.stop()


def test_another_plan_or_another_number_of_buckets_is_rejected(
    spark: SparkSession, tmp_path: Path, placement: str
) -> None:
    stream = Stream(spark, tmp_path).put(rows((10, "kiel", 1)))
    stream.run(PER_MINUTE)
    stream.put(rows((20, "kiel", 1)))
    longer = ENDLESS.window(ev.tumbling("2 minutes")).agg(n=ev.count())
    message = r"another pipeline:\n  the window changed from tumbling\(1m\) to tumbling\(2m\)"
    with pytest.raises(ev.PlanError, match=message):
        stream.run(longer)
    if placement == "executors":  # the driver has one
        message = "has 2 buckets, and the pipeline was applied with 5"
        with settings(spark, {"spark.eventide.buckets": "5"}), pytest.raises(ev.PlanError, match=message):
            stream.run(PER_MINUTE)
    stream.run(PER_MINUTE, drain=True)  # nothing was lost by the tries
    assert stream.all("panes")["n"].to_list() == [2]
    with pytest.raises(ev.PlanError, match="was drained: its stream has ended"):
        stream.run(PER_MINUTE)


def broken(total: int, price: int) -> int:
    if price == 13:
        raise ValueError("thirteen")
    return total + price


def test_a_function_of_the_user_that_raises_makes_a_dead_letter_or_stops_the_query(
    spark: SparkSession, tmp_path: Path
) -> None:
    def pipeline(**options: Any) -> ev.Pipeline:
        total = ev.fold(0, broken, merge=lambda a, b: a + b, column="price", dtype=pl.Int64, **options)
        return ENDLESS.window(ev.tumbling("1 minute")).agg(total=total)

    bundle = rows((1, "kiel", 5), (2, "kiel", 13), (3, "kiel", 7), (None, "kiel", 1))
    stream = Stream(spark, tmp_path / "kept").put(bundle)
    stream.run(pipeline(), drain=True)
    assert stream.all("panes")["total"].to_list() == [12]
    dead = stream.all("dead").sort("ev_reason")
    assert dead["ev_reason"].to_list() == ["failed", "null_time"]
    assert "broken" in dead["ev_detail"][0] and "thirteen" in dead["ev_detail"][0]
    strict = Stream(spark, tmp_path / "strict").put(bundle)
    with pytest.raises(ev.DataError, match="broken"):
        strict.run(pipeline(on_error="raise"))


def test_a_sink_that_rejects_stops_the_query_and_gets_the_batch_again(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path).put(rows((10, "kiel", 1)), rows((100, "kiel", 1)))
    pipeline = ev.stream(time="ts", watermark=ev.bounded_delay("0s")).window(ev.tumbling("1 minute")).agg(n=ev.count())

    def full(batch: Any, batch_id: int) -> None:
        raise OSError("No space left on device")

    with pytest.raises(Exception, match="No space left on device"):
        stream.run(pipeline, sink=full)
    stream.run(pipeline)
    assert stream.all("panes")["n"].to_list() == [1]


@pytest.mark.parametrize("files", [1, 2])
def test_a_scan_of_files_gives_what_the_rows_give(spark: SparkSession, tmp_path: Path, files: int) -> None:
    bundles = [rows(*((10 * b + i, f"shop {i % 7}", i) for i in range(50))) for b in range(3)]
    pipeline = ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("10 seconds")).window(
        ev.tumbling("30 seconds")
    )
    total = pipeline.agg(n=ev.count(), total=ev.sum("price"))
    stream = Stream(spark, tmp_path).put(*bundles)
    scan = ev.scan_parquet(str(tmp_path / "in"), files_per_batch=files, parts=2, spark=spark)
    stream.run(total, scan, drain=True)
    together = [pl.concat(bundles[i : i + files]) for i in range(0, 3, files)]
    assert comparable(stream.all("panes")) == comparable(total.local(together).panes)
    assert sum(batch.rows for batch in stream.metrics) == 150


@pytest.mark.parametrize("fused", [False, True])
def test_a_batch_needs_no_java_code_of_its_own(spark: SparkSession, tmp_path: Path, fused: bool) -> None:
    stream = Stream(spark, tmp_path).put(*(rows(*((10 * b + i, "kiel", i) for i in range(5))) for b in range(9)))
    pipeline = ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("0s", idle_timeout="1 hour"))
    count = pipeline.window(ev.tumbling("30 seconds")).agg(n=ev.count())
    scan = ev.scan_parquet(str(tmp_path / "in"), files_per_batch=1, parts=2, spark=spark)
    compiled: list[int] = []
    java = spark.sparkContext._jvm
    assert java is not None

    def note(comparable: Any) -> None:
        compiled.append(java.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME().getCount())

    stream.run(count, scan if fused else None, on_batch=note)
    assert len(compiled) >= 9
    assert compiled[-1] == compiled[5]  # by then all outputs have had rows


@pytest.fixture(autouse=True)
def _nothing_runs_on(spark: SparkSession) -> Iterator[None]:
    yield
    assert not spark.streams.active
