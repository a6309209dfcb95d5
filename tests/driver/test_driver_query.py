"""The callback of a query with state in the driver, without Spark: what it does with the files of commands."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import eventide as ev
from eventide.errors import DataError
from eventide.operators.factory import operator_of
from eventide.spark.commit_log import CommitLog
from eventide.spark.driver_input import Collected
from eventide.spark.driver_query import DriverQuery
from eventide.spark.driver_state import Delivery
from eventide.spark.shuffle_pages import Stage
from eventide.spark.source_log import BatchLog
from eventide.spark.stateful import apply_command
from eventide.spark.storage import LocalStorage
from tests.driver.harness import Checkpoint

SCHEMA: dict[str, pl.DataType] = {"t": pl.Int64()}
PLAN = (
    ev.stream(time="t", watermark=ev.bounded_delay("1 second")).window(ev.tumbling("1 second")).agg(n=ev.count()).plan
)


class Session:
    """As much of a SparkSession as the callback uses."""

    conf = SimpleNamespace(get=lambda name, default: default)
    sparkContext = SimpleNamespace(  # noqa: N815
        setLocalProperty=lambda name, value: None, defaultParallelism=1, getConf=lambda: Session.conf
    )


class Outputs:
    """Sinks that call a function when they are written."""

    skipped_batches: frozenset[int] = frozenset()
    followed = True

    def __init__(self, write: Callable[[], None] = lambda: None) -> None:
        self._write = write
        self.watermarks: list[int] = []

    def write(self, batch_id: int, rows: Any) -> None:
        self._write()

    def advance(self, output_watermark: int) -> None:
        self.watermarks.append(output_watermark)

    def report(self, metrics: Any) -> None: ...

    def when_closed(self, function: Callable[[], None]) -> None: ...


class Sources:
    """Inputs without rows."""

    def collect(self, *arguments: Any) -> Collected:
        return Collected(())


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.log_offsets(0, 0)
    return checkpoint


def query(checkpoint: Checkpoint, write: Callable[[], None] = lambda: None) -> DriverQuery:
    stage = Stage("stage", PLAN, (SCHEMA,), 1)
    storage, outputs = LocalStorage(checkpoint.directory), Outputs(write)
    return DriverQuery([stage], Sources(), Sources(), storage, outputs, memory=1 << 30)  # type: ignore[arg-type]


def run(query: DriverQuery, batch: int) -> None:
    query(SimpleNamespace(sparkSession=Session()), batch)  # type: ignore[arg-type]


def send(checkpoint: Checkpoint, name: str, watermark: int) -> Path:
    command = {"sent": 0, "id": name, "do": "advance_watermark", "watermark": watermark, "to": None}
    path = checkpoint.directory / "eventide" / "control" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(command))
    return path


def take_over(checkpoint: Checkpoint) -> None:
    CommitLog(LocalStorage(checkpoint.directory)).take_epoch()


def fail() -> None:
    raise OSError("the sink is down")


def test_a_command_is_deleted_once_its_batch_is_delivered(checkpoint: Checkpoint) -> None:
    command = send(checkpoint, "one", 5)
    run(query(checkpoint), 0)
    assert not command.exists()


def applications(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the commands that batches apply, as they do so."""
    ids: list[str] = []

    def apply(operator: Any, state: Any, command: dict[str, Any]) -> Any:
        ids.append(command["id"])
        return apply_command(operator, state, command)

    monkeypatch.setattr("eventide.spark.driver_query.apply_command", apply)
    return ids


@pytest.mark.parametrize("interrupted", [False, True], ids=["", "after a failure of the sink"])
def test_each_of_many_pending_commands_is_applied_once_and_deleted(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, interrupted: bool
) -> None:
    monkeypatch.setattr("eventide.spark.driver_state._REMEMBERED", 3)
    applied = applications(monkeypatch)
    paths = [send(checkpoint, f"{number:02}", number) for number in range(10)]
    if interrupted:
        with pytest.raises(OSError, match="the sink is down"):
            run(query(checkpoint, write=fail), 0)
    running = query(checkpoint)
    run(running, 0)
    assert not any(path.exists() for path in paths)
    checkpoint.log_offsets(1, 1_000_000)
    run(running, 1)
    assert applied == [path.name for path in paths]


def test_commands_that_could_not_be_deleted_are_not_applied_again(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventide.spark.driver_state._REMEMBERED", 3)
    applied = applications(monkeypatch)
    running = query(checkpoint)
    with monkeypatch.context() as patch:
        patch.setattr(DriverQuery, "_delete_control_files", lambda self, names: None)
        for batch in range(4):
            send(checkpoint, f"{batch}a", batch)
            send(checkpoint, f"{batch}b", batch)
            checkpoint.log_offsets(batch, batch * 1_000_000)
            run(running, batch)
    assert sorted(running._state.applied_commands) == applied and len(applied) == 8
    for batch in (4, 5):
        checkpoint.log_offsets(batch, batch * 1_000_000)
        run(running, batch)
    assert len(applied) == 8 and len(running._state.applied_commands) == 3


def test_a_driver_that_was_replaced_while_its_sinks_wrote_deletes_no_command(checkpoint: Checkpoint) -> None:
    command = send(checkpoint, "one", 5)
    paused = query(checkpoint, write=lambda: take_over(checkpoint))
    with pytest.raises(DataError, match=r"Another driver \(epoch 2\)"):
        run(paused, 0)
    assert command.exists()


def test_a_driver_that_was_replaced_while_its_sinks_wrote_advances_no_watermark(checkpoint: Checkpoint) -> None:
    paused = query(checkpoint, write=lambda: take_over(checkpoint))
    outputs = paused._outputs
    assert isinstance(outputs, Outputs)
    with pytest.raises(DataError, match=r"Another driver \(epoch 2\)"):
        run(paused, 0)
    assert outputs.watermarks == []
    run(query(checkpoint), 0)


def test_a_driver_that_was_replaced_before_its_sinks_writes_nothing(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = send(checkpoint, "one", 5)
    commit = CommitLog.commit
    monkeypatch.setattr(CommitLog, "commit", lambda *arguments: (commit(*arguments), take_over(checkpoint)))
    written: list[str] = []
    with pytest.raises(DataError, match=r"Another driver \(epoch 2\)"):
        run(query(checkpoint, write=lambda: written.append("batch")), 0)
    assert command.exists() and not written


def test_a_repeated_batch_deletes_the_commands_of_its_record_and_keeps_newer_ones(checkpoint: Checkpoint) -> None:
    applied = send(checkpoint, "one", 5)
    with pytest.raises(OSError, match="the sink is down"):
        run(query(checkpoint, write=fail), 0)
    newer = send(checkpoint, "two", 9)
    run(query(checkpoint), 0)
    assert not applied.exists() and newer.exists()


class Frames:
    """An input that has the same rows in every attempt of a batch."""

    def __init__(self, frames: Sequence[pl.DataFrame]) -> None:
        self._frames = frames

    def collect(self, batch: Any, log: BatchLog, watermark: int) -> Collected:
        return Collected([operator_of(PLAN, SCHEMA).stamp(self._frames[log.batch], log.time, watermark)])


class Delivered(Outputs):
    """Sinks that record what they are given, and by which driver."""

    def __init__(self, driver: str, writes: list[tuple[str, int, str, list[Any]]]) -> None:
        super().__init__()
        self._driver, self._writes = driver, writes
        self.after_first: Callable[[], None] = lambda: None

    def write(self, batch_id: int, rows: Any) -> None:
        for output in ("panes", "late"):
            if (batch := rows(output, 0)) is not None:
                self._writes.append((self._driver, batch_id, output, batch.arrow.to_pylist()))
                if output == "panes":
                    self.after_first()


def test_a_driver_that_is_replaced_while_a_sink_writes_does_not_reach_the_next_sink(checkpoint: Checkpoint) -> None:
    written: list[str] = []

    class TwoSinks(Outputs):
        def write(self, batch_id: int, rows: Any) -> None:
            for output in ("panes", "late"):
                if rows(output, 0) is not None:
                    written.append(output)
                    take_over(checkpoint)

    paused = query(checkpoint)
    paused._outputs = TwoSinks()  # type: ignore[assignment]
    table = pa.table({"n": [1]})
    delivery = Delivery(0, {("panes", 0): table, ("late", 0): table}, [], 0)
    paused._log.take_epoch()
    with pytest.raises(DataError, match=r"Another driver \(epoch 2\)"):
        paused._deliver(delivery, None)  # type: ignore[arg-type]
    assert written == ["panes"]


@pytest.mark.parametrize("paused_in", ["its sources", "its record", "its delivery", "its sinks"])
def test_a_paused_driver_writes_nothing_after_a_newer_one_has_delivered_its_batch(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, paused_in: str
) -> None:
    seconds = [[0, 5], [0, 9], [12]]
    frames = [pl.DataFrame({"t": [second * 1_000_000 for second in batch]}, schema=SCHEMA) for batch in seconds]
    writes: list[tuple[str, int, str, list[Any]]] = []

    def driver(name: str) -> DriverQuery:
        running = query(checkpoint)
        running._input, running._outputs = Frames(frames), Delivered(name, writes)  # type: ignore[assignment]
        return running

    def log(batch: int) -> None:
        checkpoint.log_offsets(batch, batch * 1_000_000)

    def succeed() -> None:
        newer = driver("newer")
        run(newer, 1)
        log(2)
        run(newer, 2)

    older = driver("older")
    log(0)
    run(older, 0)
    log(1)
    if paused_in == "its sinks":
        older._outputs.after_first = succeed  # type: ignore[attr-defined]
    else:
        owner, method = {
            "its sources": (older, "_read"),
            "its record": (older._log, "commit"),
            "its delivery": (older, "_deliver"),
        }[paused_in]
        paused = getattr(owner, method)
        monkeypatch.setattr(owner, method, lambda *arguments: (succeed(), paused(*arguments))[1])
    with pytest.raises(DataError, match=r"Another driver .*runs the query"):
        run(older, 1)
    before = [("older", 0, "panes")] + [("older", 1, "panes")] * (paused_in == "its sinks")
    assert [write[:3] for write in writes] == [
        *before,
        ("newer", 1, "panes"),
        ("newer", 1, "late"),
        ("newer", 2, "panes"),
    ]
    if paused_in == "its sinks":
        assert writes[1][3] == writes[2][3], "the newer driver delivers the record of the older one"
    assert len(older._outputs.watermarks) == 1, "of batch 0"  # type: ignore[attr-defined]
