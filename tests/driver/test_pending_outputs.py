"""Outputs that no sink has confirmed: listed, exported, discarded, and delivered before a changed plan is rejected."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import eventide as ev
from eventide.spark.checkpoint_storage import record_storage
from eventide.spark.pending_outputs import discard_outputs, export_outputs, pending_outputs
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
