"""Outputs that no sink has confirmed: listed, exported, discarded, and delivered before a changed plan is rejected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

import eventide as ev
from eventide.errors import DataError
from eventide.spark.checkpoint_storage import record_storage
from eventide.spark.commit_log import CommitLog
from eventide.spark.control_status import RunningLock
from eventide.spark.pending_outputs import deliver_pending, discard_outputs, export_outputs, pending_outputs
from eventide.spark.query_record import FILE, QueryRecord, write_record
from eventide.spark.storage import LocalStorage
from tests.driver.harness import Checkpoint
from tests.driver.test_commit_log import driver, rows, run, totals

COMMIT = 'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{}}'


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    """Batch 0 is committed by Spark, batch 1 is not."""
    place = Checkpoint(tmp_path / "checkpoint")
    (place.directory / "eventide").mkdir()
    (place.directory / FILE).write_text(QueryRecord((), "driver").to_text())
    (place.directory / "commits").mkdir()
    running = driver(place)
    run(running, place, 0, rows(1, 5))
    commit(place, 0)
    run(running, place, 1, rows(2, 7))
    return place


def commit(checkpoint: Checkpoint, batch: int) -> None:
    (checkpoint.directory / "commits" / str(batch)).write_text(COMMIT)


def test_the_outputs_of_the_batch_that_spark_has_not_committed_are_listed(checkpoint: Checkpoint) -> None:
    (output,) = pending_outputs(checkpoint.directory)
    assert (output.batch, output.output, output.depth, output.table.num_rows) == (1, "panes", 0, 2)
    commit(checkpoint, 1)
    assert pending_outputs(checkpoint.directory) == []


def test_an_export_has_the_rows_of_the_record_and_replaces_no_file(checkpoint: Checkpoint, tmp_path: Path) -> None:
    pending = pending_outputs(checkpoint.directory)
    (path,) = export_outputs(pending, tmp_path / "export")
    assert path.name == "batch-1.panes.0.parquet"
    assert pq.read_table(path)["total"].to_pylist() == [5, 12]
    with pytest.raises(ev.PlanError, match=r"exists\. Name another directory"):
        export_outputs(pending, tmp_path / "export")


def test_discarded_outputs_are_confirmed_and_the_next_batch_continues(checkpoint: Checkpoint) -> None:
    assert discard_outputs(checkpoint.directory) == 1
    assert (checkpoint.directory / "commits" / "1").read_text() == COMMIT
    assert discard_outputs(checkpoint.directory) is None
    assert totals(run(driver(checkpoint), checkpoint, 2, rows(3, 1))) == [(12, -1), (13, 1)]


def test_a_query_without_commit_records_has_no_pending_outputs(checkpoint: Checkpoint) -> None:
    (checkpoint.directory / FILE).write_text(QueryRecord((), "executors").to_text())
    with pytest.raises(ev.PlanError, match="has no commit records"):
        pending_outputs(checkpoint.directory)


def test_outputs_in_another_store_are_read_with_that_store(checkpoint: Checkpoint, tmp_path: Path) -> None:
    store = pytest.importorskip("fsspec").filesystem("memory")
    place = Checkpoint(tmp_path / "second")
    files = LocalStorage(place.directory)
    write_record(files, QueryRecord((), "driver"))
    running = driver(place, records=record_storage(files, store, single_writer=True))
    run(running, place, 0, rows(1, 5))
    for command in (pending_outputs, discard_outputs):
        with pytest.raises(ev.PlanError, match=r"are in another store, .* eventide outputs .*--storage"):
            command(place.directory)
    (output,) = pending_outputs(place.directory, storage=store)
    assert output.table["total"].to_pylist() == [5]
    assert discard_outputs(place.directory, storage=store) == 0
    assert pending_outputs(place.directory, storage=store) == []


@dataclass
class Written:
    """A sink that notes the batches that it gets, and calls a function when one arrives."""

    arrives: Callable[[], object] = lambda: None
    batches: list[int] = field(default_factory=list)

    def open(self, schema: Any, info: Any) -> None: ...

    def write(self, batch: Any, batch_id: int, info: Any) -> None:
        self.batches.append(batch_id)
        self.arrives()

    def close(self) -> None: ...


def deliver(checkpoint: Checkpoint, *sinks: Written) -> int | None:
    files = LocalStorage(checkpoint.directory)
    operator = SimpleNamespace(key=("k",), mode="retracting", row_grain="windows")
    recorded: Any = SimpleNamespace(operators=[operator], columns=lambda output, depth: {})
    outputs: Any = [("panes", 0, sink) for sink in sinks]
    spark: Any = None
    return deliver_pending(files, files, recorded, outputs, query="q", spark=spark)


def test_a_delivery_for_a_changed_plan_fences_the_driver_that_computed_the_batch(checkpoint: Checkpoint) -> None:
    paused = driver(checkpoint)
    paused.batch(1, [])
    assert deliver(checkpoint, sink := Written()) == 1
    assert sink.batches == [1]
    with pytest.raises(DataError, match=r"Another driver \(epoch 3\)"):
        paused.log.check_epoch()


def test_a_delivery_stops_before_its_next_sink_if_another_driver_takes_over(checkpoint: Checkpoint) -> None:
    first = Written(CommitLog(LocalStorage(checkpoint.directory)).take_epoch)
    second = Written()
    with pytest.raises(DataError, match=r"Another driver \(epoch 3\)"):
        deliver(checkpoint, first, second)
    assert (first.batches, second.batches) == ([1], [])


def test_a_batch_that_is_committed_while_its_driver_is_fenced_is_not_delivered(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = CommitLog.take_epoch
    monkeypatch.setattr(CommitLog, "take_epoch", lambda log: (commit(checkpoint, 1), take(log)))
    assert deliver(checkpoint, sink := Written()) is None
    assert not sink.batches


def test_a_query_that_runs_delivers_its_batch_itself(checkpoint: Checkpoint) -> None:
    lock = RunningLock(checkpoint.directory / "eventide")
    lock.acquire()
    running = driver(checkpoint)
    running.batch(1, [])
    assert deliver(checkpoint, sink := Written()) is None
    with pytest.raises(ev.PlanError, match="A query is running"):
        discard_outputs(checkpoint.directory)
    running.log.check_epoch()
    lock.release()
    assert deliver(checkpoint, sink) == 1


def test_a_discarded_batch_reaches_no_further_sink_of_another_driver(checkpoint: Checkpoint) -> None:
    paused = driver(checkpoint)
    paused.batch(1, [])
    assert discard_outputs(checkpoint.directory) == 1
    with pytest.raises(DataError, match="Another driver"):
        paused.log.check_epoch()
