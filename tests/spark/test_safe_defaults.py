"""Defaults that lose nothing: all outputs are kept, a restart goes on, and what cannot work is rejected at once."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import DataFrame, SparkSession

import eventide as ev
from eventide.spark import dataflow as host
from eventide.spark.commit_log import CommitLog
from tests.spark.running import Stream, settings
from tests.spark.test_query import PER_MINUTE, at, rows

pytestmark = pytest.mark.usefixtures("placement")

LATE = (
    ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("0s"))
    .window(ev.tumbling("1 minute"))
    .agg(n=ev.count(), total=ev.sum("price"))
)
BUNDLES = [rows((10, "kiel", 1), (200, "kiel", 2)), rows((20, "kiel", 4), (None, "bonn", 8), (300, "bonn", 16))]


@pytest.fixture(autouse=True)
def _nothing_runs_on(spark: SparkSession) -> Iterator[None]:
    yield
    assert not spark.streams.active


def test_outputs_of_a_table_are_three_tables(spark: SparkSession) -> None:
    outputs = ev.outputs(LATE, spark.createDataFrame(pl.concat(BUNDLES).to_pandas()))
    assert sorted(row["n"] for row in outputs.panes.collect()) == [1, 1, 2]
    assert outputs.late.collect() == []
    (letter,) = outputs.dead.collect()
    assert (letter["ev_reason"], letter["price"]) == ("null_time", 8)


def test_outputs_of_a_chain_are_those_of_each_pipeline(spark: SparkSession) -> None:
    hourly = ev.stream(time="window_time").window(ev.tumbling("1 hour")).agg(rows=ev.sum("n"))
    outputs = ev.outputs(LATE.then(hourly), spark.createDataFrame(pl.concat(BUNDLES).to_pandas()))
    assert [row["rows"] for row in outputs.panes.collect()] == [4]
    assert [row["price"] for row in outputs.dead.collect()] == [8]
    assert outputs.split(outputs.pages, depth=1).dead.collect() == []
    with pytest.raises(ev.PlanError, match="the query has 2 pipelines"):
        outputs.split(outputs.pages, depth=2)


def test_panes_behind_a_filter_count_with_their_diff(spark: SparkSession) -> None:
    retracting = (
        ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("0s"))
        .window(ev.tumbling("1 minute"))
        .emit(allowed_lateness="1 hour", early=ev.on_update())
        .agg(n=ev.count())
    )
    hourly = ev.stream(time="window_time", watermark="0s").window(ev.tumbling("1 hour")).agg(rows=ev.sum("n"))
    panes = spark.createDataFrame(retracting.local(BUNDLES).panes.cast({"pane_timing": pl.String}).to_pandas())
    assert panes.where("diff = -1").count() > 0
    assert [row["rows"] for row in panes.where("shop = 'kiel'").transform(hourly).collect()] == [3]
    table = spark.createDataFrame(pl.concat(BUNDLES).to_pandas())
    behind = table.transform(retracting).where("shop = 'kiel'").transform(hourly)
    assert [row["rows"] for row in behind.collect()] == [3]


def test_outputs_of_a_stream_are_split_in_a_query_of_the_user(spark: SparkSession, tmp_path: Path) -> None:
    outputs = ev.outputs(LATE, Stream(spark, tmp_path).put(*BUNDLES).rows)
    observed: dict[str, list[int]] = {"late": [], "dead": []}

    def write(batch: DataFrame, batch_id: int) -> None:
        batch.persist()
        split = outputs.split(batch)
        observed["late"] += [row["price"] for row in split.late.collect()]
        observed["dead"] += [row["price"] for row in split.dead.collect()]
        batch.unpersist()

    writer = outputs.pages.writeStream.foreachBatch(write).trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    assert observed == {"late": [4], "dead": [8]}
    with pytest.raises(ev.PlanError, match=r"a stream has no separate \.late.*split\(batch\)"):
        _ = outputs.late


def test_transform_of_a_stream_warns_once_that_it_keeps_panes_only(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "_warned", set())
    stream = Stream(spark, tmp_path).put(*BUNDLES).rows
    with pytest.warns(UserWarning, match=r"pipeline\.run.*ev\.outputs") as warned:
        stream.transform(LATE)
    assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream.transform(LATE)
        spark.createDataFrame(BUNDLES[0].to_pandas()).transform(PER_MINUTE)


def test_a_session_that_lacks_something_is_rejected_by_transform_with_all_of_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = Stream(spark, tmp_path).put(*BUNDLES).rows
    provider, partitions = "spark.sql.streaming.stateStore.providerClass", "spark.sql.shuffle.partitions"
    default = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    with settings(spark, {provider: default, partitions: None}), pytest.raises(ev.PlanError) as failure:
        stream.transform(PER_MINUTE)
    assert f'spark.conf.set("{partitions}", "2")' in str(failure.value)
    assert f'spark.conf.set("{provider}", ' in str(failure.value)


def test_a_restart_uses_the_number_of_buckets_of_the_first_start(
    spark: SparkSession, tmp_path: Path, placement: str
) -> None:
    stream = Stream(spark, tmp_path).put(BUNDLES[0])
    with settings(spark, {"spark.eventide.buckets": "3"}):
        stream.run(LATE)
    with settings(spark, {"spark.eventide.buckets": None}):  # as on a machine with other cores
        stream.put(BUNDLES[1])
        stream.run(LATE, drain=True)
    assert {metrics.buckets for metrics in stream.metrics} == {3 if placement == "executors" else 1}
    assert sum(metrics.kept for metrics in stream.metrics) == 3


def test_a_changed_plan_is_rejected_before_a_query_starts(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path).put(*BUNDLES)
    stream.run(LATE)
    longer = ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("0s")).window(ev.tumbling("5 minutes"))
    started: list[Any] = []
    with pytest.raises(ev.PlanError, match=r"the window changed from tumbling\(1m\) to tumbling\(5m\)"):
        started.append(stream.run(longer.agg(n=ev.count(), total=ev.sum("price"))))
    record = json.loads(Path(stream.checkpoint, "eventide", "plan.json").read_text())
    assert record["operators"][0]["plan"]["window"] == "tumbling(1m)"
    stream.run(LATE, drain=True)  # nothing was lost by the attempt


def test_a_column_that_the_plan_does_not_read_may_go_and_another_may_come(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path).put(BUNDLES[0].with_columns(till=pl.lit("west"), size=pl.lit(7)))
    kept: dict[str, Any] = {"late": None, "dead": None, "whole_rows": True}
    stream.run(LATE, **kept)
    late = rows((20, "kiel", 4), (None, "bonn", 8), (300, "bonn", 16)).with_columns(colour=pl.lit("red"))
    stream.put(late)
    stream.run(LATE, spark.readStream.schema(stream._schema).parquet(str(tmp_path / "in")), drain=True, **kept)
    assert sum(metrics.kept for metrics in stream.metrics) == 3
    (row,) = spark.read.parquet(f"{stream.checkpoint}/eventide/late").collect()
    assert (row["price"], row["colour"], row["till"], row["size"]) == (4, "red", None, None)
    (letter,) = spark.read.parquet(f"{stream.checkpoint}/eventide/dead").collect()
    assert (letter["ev_reason"], letter["colour"], letter["till"]) == ("null_time", "red", None)


def test_a_column_that_the_plan_reads_keeps_its_type(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path).put(BUNDLES[0])
    stream.run(LATE)
    fraction = spark.readStream.schema("ts timestamp, shop string, price double").parquet(str(tmp_path / "in"))
    with pytest.raises(ev.PlanError, match="the column price changed from Int64 to Float64"):
        stream.run(LATE, fraction)


@pytest.fixture
def damaged(spark: SparkSession, tmp_path: Path) -> Stream:
    stream = Stream(spark, tmp_path).put(BUNDLES[0], rows((220, "kiel", 1)), rows((230, "kiel", 1)))
    (tmp_path / "in" / "00001.parquet").write_bytes(b"PAR1 nothing of use PAR1")
    return stream


def test_a_damaged_file_stops_a_scan_with_its_name_and_the_batch(damaged: Stream, tmp_path: Path) -> None:
    scan = ev.scan_parquet(str(tmp_path / "in"), files_per_batch=3, spark=damaged.spark)
    with pytest.raises(ev.DataError, match=r"^Batch 0: the file '.*00001\.parquet' cannot be read: "):
        damaged.run(LATE, scan)


def test_a_damaged_file_can_become_a_dead_letter(damaged: Stream, tmp_path: Path) -> None:
    scan = ev.scan_parquet(str(tmp_path / "in"), files_per_batch=3, on_bad_file="dead", spark=damaged.spark)
    damaged.run(LATE, scan, drain=True)
    assert sum(metrics.kept for metrics in damaged.metrics) == 3
    letters = damaged.all("dead")
    assert letters["ev_reason"].to_list() == ["bad_row"] and "00001.parquet" in letters["ev_detail"][0]
    assert all(metrics.balanced for metrics in damaged.metrics)


def test_a_file_that_was_deleted_before_its_batch_is_repeated_is_reported(
    spark: SparkSession, tmp_path: Path, placement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream(spark, tmp_path).put(rows((10, "kiel", 1)), rows((100, "kiel", 1)), rows((200, "kiel", 1)))

    def failing(batch: DataFrame, batch_id: int) -> None:
        raise OSError("no space left")

    def full(log: CommitLog, batch: int, *arguments: Any) -> None:
        if batch == 1:
            raise OSError("no space left")
        commit(log, batch, *arguments)

    commit = CommitLog.commit
    with monkeypatch.context() as patch, pytest.raises(Exception, match="no space left"):
        if placement == "driver":  # once a record is committed, its files are not needed any more
            patch.setattr(CommitLog, "commit", full)
        stream.run(LATE, sink=failing)
    (batch,) = {metrics.batch for metrics in stream.metrics if metrics.batch} or {0}
    (tmp_path / "in" / "00001.parquet").unlink()
    with pytest.raises(ev.DataError, match=r"Batch 1 was interrupted.*00001\.parquet"):
        stream.run(LATE)
    stream.metrics.clear()
    with pytest.warns(UserWarning, match=r"00001\.parquet"):
        stream.run(LATE, on_missing_file="skip")
    assert sum(metrics.missing_files for metrics in stream.metrics) == 1
    assert batch == 0 and stream.metrics[-1].batch == 2


def test_run_can_wait_for_the_end_of_the_query(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path).put(rows((10, "kiel", 1)))

    def failing(metrics: ev.BatchMetrics) -> None:
        raise OSError(f"stopped at {at(metrics.rows)}")

    with pytest.raises(Exception, match="stopped at"):
        stream.run(LATE, interval="0 seconds", on_batch=failing, wait=True)
