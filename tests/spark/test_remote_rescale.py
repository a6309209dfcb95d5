"""State that moves within a checkpoint that is not on this machine's disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

import eventide as ev
from eventide.spark.buckets import BUCKETS
from eventide.spark.checkpoint_storage import storage_of
from eventide.spark.coalesced_progress import PROGRESS
from eventide.spark.hadoop_storage import HadoopStorage
from eventide.spark.replacement import FOLDER
from tests.cli.typed import typed
from tests.spark.remote import hdfs_address, remote
from tests.spark.running import Stream, comparable, settings
from tests.spark.test_driver_state import BUNDLES, WINDOWS
from tests.spark.test_rescale import Crash, Target, arguments, placement

__all__ = ["hdfs_address", "remote"]


@pytest.fixture(autouse=True)
def any_number_of_buckets(spark: SparkSession) -> Iterator[None]:
    """A session that names no number of buckets: the checkpoint does."""
    with settings(spark, {BUCKETS: None, PROGRESS: None}):
        yield


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Any, remote: str) -> Stream:
    """A stream whose checkpoint is elsewhere."""
    stream = Stream(spark, tmp_path / "stream")
    stream.checkpoint = f"{remote}/checkpoint"
    return stream


def is_view(stream: Stream) -> bool:
    """A view of a local disk is not exclusive."""
    return stream.checkpoint.startswith("viewfs")


def run(stream: Stream, state: str, **options: Any) -> None:
    options |= {"single_writer": True} if is_view(stream) and state == "driver" else {}
    stream.run(WINDOWS, state=state, **options)


def rescale(stream: Stream, target: Target, **options: Any) -> ev.RescaleResult:
    return ev.rescale(
        stream.checkpoint, **arguments(target), spark=stream.spark, single_writer=is_view(stream), **options
    )


def check(stream: Stream) -> None:
    assert comparable(stream.all("panes")) == comparable(WINDOWS.local(BUNDLES).panes) != []


@pytest.mark.parametrize("object_store", [False, pytest.param(True, marks=pytest.mark.long)], ids=["files", "objects"])
def test_state_moves_to_buckets_and_back(
    stream: Stream, spark: SparkSession, object_store: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if object_store:
        if not is_view(stream):
            pytest.skip("HDFS is a file system")
        monkeypatch.setattr("eventide.spark.hadoop_storage._OBJECT_STORES", frozenset({"viewfs"}))
    path: list[Target] = [3, 2, "driver"]
    state = "driver"
    for bundle, target in zip(BUNDLES, path, strict=False):
        run(stream.put(bundle), state)
        result = rescale(stream, target)
        state = placement(target)
        assert (result.after, result.resumed) == (state, False)
        assert [name for name in storage_of(stream.checkpoint, spark).list(FOLDER) if "-" in name] == []
    run(stream.put(*BUNDLES[len(path) :]), state, drain=True)
    check(stream)


@pytest.mark.parametrize("steps", [0, pytest.param(1, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)])
def test_an_interrupted_installation_is_finished_by_the_next_start(
    stream: Stream, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    run(stream.put(*BUNDLES[:2]), "driver")
    before = [str(operator) for operator in ev.inspect(stream.checkpoint, spark=spark)]
    move, moved = HadoopStorage.move, []

    def crash(storage: HadoopStorage, source: str, target: str) -> None:
        if FOLDER in source and FOLDER not in target:
            moved.append(target)
            if len(moved) > steps:
                raise Crash
        move(storage, source, target)

    def crash_before(step: str) -> None:
        if step.startswith("Comparing"):
            raise Crash

    with pytest.raises(Crash):
        rescale(stream, 2, on_progress=crash_before)
    assert [str(operator) for operator in ev.inspect(stream.checkpoint, spark=spark)] == before
    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr(HadoopStorage, "move", crash)
        rescale(stream, 2)
    with pytest.raises(ev.DataError, match="Run it again, or start the query"):
        ev.inspect(stream.checkpoint, spark=spark)
    run(stream.put(*BUNDLES[2:]), "executors", drain=True)
    check(stream)


@pytest.mark.parametrize("when", ["Reading", "Replacing"])
def test_a_query_that_starts_meanwhile_ends_the_rescale(stream: Stream, when: str) -> None:
    run(stream.put(*BUNDLES[:2]), "driver")

    def start(step: str) -> None:
        if step.startswith(when):
            run(stream, "driver", drain=False)  # without new rows: no batch shows that it has run

    with pytest.raises(ev.PlanError, match=r"has used the checkpoint .* This command has changed nothing"):
        rescale(stream, 2, on_progress=start)
    run(stream.put(*BUNDLES[2:]), "driver", drain=True)
    check(stream)


def test_a_store_that_overwrites_needs_a_single_writer(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_view(stream):
        pytest.skip("HDFS creates files exclusively")
    run(stream.put(BUNDLES[0]), "driver")
    monkeypatch.setattr("eventide.spark.hadoop_storage._OBJECT_STORES", frozenset({"viewfs"}))
    with pytest.raises(ev.PlanError, match="single_writer=True"):
        ev.rescale(stream.checkpoint, buckets=2, spark=stream.spark)
    rejected = typed("rescale", stream.checkpoint, "--buckets", "2")
    assert rejected.exit_code == 2 and "single_writer=True" in rejected.stderr, rejected.output
    assert "The query uses the state in the driver" in rejected.stderr
    accepted = typed("rescale", stream.checkpoint, "--buckets", "2", "--single-writer")
    assert accepted.exit_code == 0 and "on the executors in 2 buckets" in accepted.stdout, accepted.output
