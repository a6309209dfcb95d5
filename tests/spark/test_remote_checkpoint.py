"""State in the driver with a checkpoint that is not on this machine, or with commit records in a store of the user."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

import eventide as ev
from eventide.spark.checkpoint_storage import storage_of
from eventide.spark.control import Control
from eventide.spark.repair import repair
from eventide.spark.storage import RECORDS
from eventide.time import as_datetime
from tests.cli.typed import typed
from tests.driver.test_storage_contract import PlainFiles
from tests.spark.remote import hdfs_address, remote
from tests.spark.running import Stream, comparable
from tests.spark.test_driver_state import BUNDLES, START, WINDOWS, rows

__all__ = ["hdfs_address", "remote"]


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path, remote: str, monkeypatch: pytest.MonkeyPatch) -> Stream:
    """A stream whose checkpoint is elsewhere. A view of a local disk is not exclusive."""
    monkeypatch.setattr("tests.spark.running.STATE", "driver")
    stream = Stream(spark, tmp_path / "stream")
    stream.checkpoint = f"{remote}/checkpoint"
    stream.options = {"single_writer": remote.startswith("viewfs")}
    return stream


def test_a_query_continues_drains_and_is_closed(stream: Stream, spark: SparkSession) -> None:
    stream.put(*BUNDLES[:2]).run(WINDOWS)
    stream.put(*BUNDLES[2:]).run(WINDOWS, drain=True)
    assert comparable(stream.all("panes")) == comparable(WINDOWS.local(BUNDLES).panes)
    assert [metrics.batch for metrics in stream.metrics] == [0, 1, 2, 3, 4]
    assert storage_of(stream.checkpoint, spark).list(RECORDS)
    with pytest.raises(ev.PlanError, match="drained"):
        stream.run(WINDOWS)


def test_late_rows_are_files_next_to_the_checkpoint(stream: Stream, spark: SparkSession) -> None:
    stream.put(rows(0, 300), rows(1, 2)).run(WINDOWS, late=None)
    late = spark.read.parquet(f"{stream.checkpoint}/eventide/late")
    assert sorted(row["price"] for row in late.collect()) == [1, 2]


def test_a_repeated_batch_delivers_its_record(stream: Stream) -> None:
    def fail(batch: Any, batch_id: int) -> None:
        raise OSError("the sink is away")

    stream.put(rows(10, 20))
    with pytest.raises(Exception, match="the sink is away"):
        stream.run(WINDOWS, sink=fail)
    (file,) = (stream.place / "in").iterdir()
    rows(10, 20, 30, 40).write_parquet(file)
    stream.run(WINDOWS)
    assert sorted(stream.all("panes")["total"].to_list()) == [10, 20]
    stream.options = {}  # without single_writer, which is for commit records
    with pytest.raises(ev.PlanError, match=r"state='executors'.*or move the state: eventide rescale"):
        stream.run(WINDOWS, state="executors")


def test_the_state_is_inspected_and_repaired(stream: Stream, spark: SparkSession) -> None:
    stream.put(rows(10, 400)).run(WINDOWS)
    (operator,) = ev.inspect(stream.checkpoint, pipeline=WINDOWS, spark=spark)
    assert operator.watermark_us == START + 390_000_000 and operator.windows is not None and operator.windows.height
    assert repair(stream.checkpoint, START + 380_000_000, pipeline=WINDOWS, spark=spark).before == operator.watermark_us
    stream.put(rows(385)).run(WINDOWS)
    assert not stream.late and ev.inspect(stream.checkpoint, spark=spark)[0].watermark_us == START + 380_000_000


def test_a_command_is_applied_and_its_effect_is_reported(stream: Stream, spark: SparkSession) -> None:
    stream.put(rows(10, 20)).run(WINDOWS)
    control = Control(stream.checkpoint, spark)
    command = control.advance_watermark(START + 60_000_000)
    assert control.applied(command) is None and control.is_running is None
    stream.run(WINDOWS)
    batch = control.applied(command)
    assert batch is not None and batch.watermark == as_datetime(START + 60_000_000)
    assert not control.storage.list("eventide/control")  # it is in the commit record now


def test_the_command_line_speaks_to_a_query_elsewhere(stream: Stream, spark: SparkSession) -> None:
    missing = typed("drain", stream.checkpoint)
    assert missing.exit_code == 2 and "is not the checkpoint" in missing.stderr, missing.output
    stream.put(rows(10, 20)).run(WINDOWS)
    sent = typed("drain", stream.checkpoint, "--no-wait")
    assert sent.exit_code == 0, sent.output
    late = typed("drain", stream.checkpoint, "--timeout", "0s")
    assert late.exit_code == 1 and "no batch has applied the command within 0 s" in late.stderr
    stream.run(WINDOWS)
    assert stream.metrics[-1].drained


def test_the_command_line_exports_and_discards_outputs_of_a_checkpoint_elsewhere(
    stream: Stream, tmp_path: Path
) -> None:
    def fail(batch: Any, batch_id: int) -> None:
        raise OSError("the sink is away")

    missing = typed("outputs", stream.checkpoint)
    assert missing.exit_code == 2 and "holds no state of an Eventide query" in missing.stderr, missing.output
    stream.put(rows(10, 20))
    with pytest.raises(Exception, match="the sink is away"):
        stream.run(WINDOWS, sink=fail)
    discard = ["outputs", stream.checkpoint, "--export", str(tmp_path / "pending"), "--discard"]
    discarded = typed(*discard, *["--single-writer"] * stream.options["single_writer"])
    assert "Batch 0 is confirmed. The query continues with batch 1." in discarded.stdout, discarded.output
    assert sorted(pl.read_parquet(tmp_path / "pending")["total"].to_list()) == [10, 20]
    assert "No outputs are pending." in typed("outputs", stream.checkpoint).stdout
    stream.put(rows(30)).run(WINDOWS)
    assert [metrics.batch for metrics in stream.metrics] == [1]


def test_a_query_that_is_stopped_in_its_callback_loses_and_doubles_nothing(stream: Stream) -> None:
    entered, released = Event(), Event()
    calls: list[int] = []

    def slow(batch: Any, batch_id: int) -> None:
        calls.append(batch_id)
        entered.set()
        released.wait(60)
        stream.panes[batch_id] = [pl.DataFrame(pl.from_arrow(batch.toArrow()))]

    query = stream.put(*BUNDLES).run(WINDOWS, sink=slow, interval="0 seconds")
    assert entered.wait(60)
    stopping = Thread(target=query.spark.stop)
    stopping.start()
    released.set()
    stopping.join(60)
    assert not query.spark.isActive
    query.stop()
    stream.run(WINDOWS, drain=True)
    assert comparable(stream.all("panes")) == comparable(WINDOWS.local(BUNDLES).panes)


@pytest.fixture
def here(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stream:
    """A stream with a local checkpoint."""
    monkeypatch.setattr("tests.spark.running.STATE", "driver")
    return Stream(spark, tmp_path).put(*BUNDLES[:2])


def test_records_are_in_a_store_of_the_user(here: Stream, spark: SparkSession) -> None:
    store = pytest.importorskip("obstore.store").MemoryStore()
    here.run(WINDOWS, storage=store)
    with pytest.raises(ev.PlanError, match=r"are in another store, MemoryStore\. Name it with storage="):
        here.run(WINDOWS)
    with pytest.raises(ev.PlanError, match="are in another store"):
        ev.inspect(here.checkpoint, spark=spark)
    with pytest.raises(ev.PlanError, match=r"state='executors'.*drain it and start with a new checkpoint"):
        here.run(WINDOWS, state="executors")
    assert ev.inspect(here.checkpoint, spark=spark, storage=store)[0].watermark_us == START + 79_000_000
    here.put(*BUNDLES[2:]).run(WINDOWS, storage=store, drain=True)
    assert comparable(here.all("panes")) == comparable(WINDOWS.local(BUNDLES).panes)
    assert not storage_of(here.checkpoint, spark).exists(RECORDS)


def test_a_store_that_overwrites_needs_a_single_writer(here: Stream, tmp_path: Path) -> None:
    files = pytest.importorskip("fsspec").filesystem("dir", path=str(tmp_path / "store"), target_protocol="file")
    store = PlainFiles(files)
    with pytest.raises(ev.PlanError, match=r"overwrites files that exist.*run\(single_writer=True\)"):
        here.run(WINDOWS, storage=store)
    here.run(WINDOWS, storage=store, single_writer=True)
    assert comparable(here.all("panes")) == comparable(WINDOWS.local(BUNDLES[:2], drain=False).panes)


@pytest.mark.parametrize("options", [{"storage": object()}, {"single_writer": True}], ids=["storage", "single_writer"])
def test_state_on_the_executors_has_no_commit_records(here: Stream, options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(ev.PlanError, match=rf"run\({name}=\) is for commit records, which only state='driver' has"):
        here.run(WINDOWS, state="executors", **options)
