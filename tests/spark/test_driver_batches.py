"""Batches of a query with state in the driver: repeated, retained, and started without further jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

import eventide as ev
from tests.spark.running import Stream, comparable, settings
from tests.spark.test_driver_state import BUNDLES, WINDOWS, rows


@pytest.mark.parametrize("change", ["rows", "order", "deleted", "filter", "partitions"])
def test_a_repeated_batch_delivers_what_was_committed_even_if_its_rows_changed(
    spark: SparkSession, tmp_path: Path, change: str
) -> None:
    stream = Stream(spark, tmp_path).put(rows(10, 20, 30))
    delivered: list[pl.DataFrame] = []

    def fail(batch: Any, batch_id: int) -> None:
        delivered.append(pl.DataFrame(pl.from_arrow(batch.toArrow())))
        raise OSError("the sink is away")

    with pytest.raises(Exception, match="the sink is away"):
        stream.run(WINDOWS, sink=fail, state="driver")
    (file,) = (tmp_path / "in").iterdir()
    if change == "rows":
        rows(10, 20, 30, 40).write_parquet(file)
    if change == "order":
        rows(30, 20, 10).write_parquet(file)
    if change == "deleted":
        file.unlink()
    changed = {"filter": stream.rows.where("price < 15"), "partitions": stream.rows.repartition(5)}
    stream.run(WINDOWS, changed.get(change, stream.rows), state="driver")
    assert stream.all("panes").equals(delivered[0])
    assert sorted(stream.all("panes")["total"].to_list()) == [10, 20, 30]


def test_a_query_that_is_started_again_while_it_runs_continues(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path).put(*BUNDLES[:2])
    first = stream.run(WINDOWS, state="driver", interval="0 seconds")
    first.process_all_available()
    stream.put(BUNDLES[2])
    second = stream.run(WINDOWS, state="driver", interval="0 seconds")  # as a cell of a notebook that runs again
    second.process_all_available()
    assert not first.is_active and second.is_active
    second.stop()
    stream.put(BUNDLES[3]).run(WINDOWS, state="driver", drain=True)
    assert comparable(stream.all("panes")) == comparable(WINDOWS.local(BUNDLES).panes)


def test_a_relative_checkpoint_is_in_the_working_directory_of_python(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the working directory of the JVM stays where it was
    stream = Stream(spark, tmp_path).put(rows(10))
    WINDOWS.run(stream.rows, sink="noop", checkpoint="relative/checkpoint", available_now=True)
    names = {path.name for path in (tmp_path / "relative" / "checkpoint").iterdir()}
    assert {"offsets", "commits", "eventide"} <= names


def test_as_many_records_stay_as_spark_retains_batches(spark: SparkSession, tmp_path: Path) -> None:
    ended = [rows(*range(minute * 60, minute * 60 + 5)) for minute in range(0, 24, 3)]
    stream = Stream(spark, tmp_path).put(*ended)
    with settings(spark, {"spark.sql.streaming.minBatchesToRetain": "2"}):
        stream.run(WINDOWS, state="driver")
    records = sorted(int(path.name) for path in (tmp_path / "checkpoint/eventide/commits").iterdir())
    assert records[-2:] == [6, 7] and len(records) <= 4
    assert comparable(stream.all("panes")) == comparable(WINDOWS.local(ended, drain=False).panes)


@pytest.mark.parametrize("batch", [0, 1])
def test_a_pending_batch_is_delivered_before_a_changed_plan_is_rejected(
    spark: SparkSession, tmp_path: Path, batch: int
) -> None:
    stream = Stream(spark, tmp_path)
    if batch:
        stream.put(rows(10)).run(WINDOWS, state="driver")

    def fail(batch: Any, batch_id: int) -> None:
        raise OSError("the sink is away")

    with pytest.raises(Exception, match="the sink is away"):
        stream.put(rows(40)).run(WINDOWS, sink=fail, state="driver")
    stream_by_note = ev.stream(time="ts", key="note", watermark=ev.bounded_delay("10 seconds"))
    changed = stream_by_note.window(ev.tumbling("5 minutes")).agg(largest=ev.max("price"))
    with pytest.raises(ev.PlanError) as rejection:
        stream.run(changed, state="driver")
    assert "the window changed from tumbling(1m) to tumbling(5m)" in str(rejection.value)
    assert f"The outputs of batch {batch}, which were pending, were delivered." in str(rejection.value)
    assert stream.panes[batch][0].filter(pl.col("diff") == 1)["total"].to_list() == [40 + 10 * batch]


def test_a_pending_batch_is_not_ignored_by_a_start_in_the_other_placement(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path)

    def fail(batch: Any, batch_id: int) -> None:
        raise OSError("the sink is away")

    with pytest.raises(Exception, match="the sink is away"):
        stream.put(rows(40)).run(WINDOWS, sink=fail, state="driver")
    with pytest.raises(ev.PlanError, match=r"is in the driver.*Start it with state='driver'"):
        stream.run(WINDOWS, state="executors")


@pytest.mark.parametrize("chained", [False, True], ids=["three sinks", "five sinks"])
def test_sinks_start_no_jobs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chained: bool
) -> None:
    def no_dataframe(_: Any) -> Any:
        raise AssertionError("a DataFrame of rows that are in the driver already")

    stream = Stream(spark, tmp_path).put(*BUNDLES)
    monkeypatch.setattr("eventide.sinks.batch.SinkBatch.dataframe", property(no_dataframe))
    per_shop = ev.stream(time="window_time", key="shop").window(ev.inherit()).agg(most=ev.max("n"))
    query = stream.run(
        WINDOWS.then(per_shop) if chained else WINDOWS,
        state="driver",
        sink=ev.sinks.files(tmp_path / "panes"),
        late=f"sqlite:///{tmp_path}/late.db",
        dead=None,  # files next to the checkpoint
    )
    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup(str(query.spark.runId))
    assert len(jobs) == len(BUNDLES), "the job that brings the rows of a batch is the only one"
