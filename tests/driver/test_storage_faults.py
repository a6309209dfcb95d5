"""Faults of a store around commit records: nothing is lost, nothing is doubled, and the message names the file."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from eventide.errors import DataError
from eventide.spark.driver_state import Delivery
from eventide.spark.storage import RECORDS, LocalStorage, Storage
from tests.driver.harness import Checkpoint, Driver
from tests.driver.stores import Open, opened
from tests.driver.test_commit_log import PIPELINE, SCHEMA, SECOND, rows, totals

__all__ = ["opened"]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path / "spark")


def driver(checkpoint: Checkpoint, records: Storage) -> Driver:
    return Driver(checkpoint, PIPELINE, [SCHEMA], records=records)


def run(running: Driver, checkpoint: Checkpoint, number: int, *values: int) -> Delivery:
    checkpoint.log_offsets(number, number * SECOND)
    return running.batch(number, [rows(number, *values)])


def compute(paused: Driver, checkpoint: Checkpoint, number: int, *values: int) -> Delivery | None:
    """Process a batch up to its commit record, but not its sinks."""
    checkpoint.log_offsets(number, number * SECOND)
    paused.state.begin(number)
    stamp = paused.chain.operators[0].stamp(rows(number, *values), number * SECOND, paused.state.watermark)
    return paused.state.process(paused.log.offsets(number), [stamp])


def records_of(storage: Storage) -> dict[str, bytes]:
    return {name: storage.read(f"{RECORDS}/{name}") for name in storage.list(RECORDS)}


def test_a_new_driver_continues_and_a_repeated_batch_is_delivered_again(checkpoint: Checkpoint, opened: Open) -> None:
    run(driver(checkpoint, opened()), checkpoint, 0, 5)
    assert totals(run(driver(checkpoint, opened()), checkpoint, 1, 7)) == [(5, -1), (12, 1)]
    again = driver(checkpoint, opened()).batch(1, [rows(1, 999)])
    assert again.restored and totals(again) == [(5, -1), (12, 1)]


def test_a_driver_paused_before_its_record_writes_nothing_after_its_successor(
    checkpoint: Checkpoint, opened: Open
) -> None:
    paused = driver(checkpoint, opened())
    run(paused, checkpoint, 0, 5)
    successor = driver(checkpoint, opened())
    emitted = [totals(run(successor, checkpoint, number, 7)) for number in (1, 2)]
    before = records_of(opened())
    with pytest.raises(DataError, match=r"Another driver \(epoch 2\)"):
        compute(paused, checkpoint, 1, 999)
    assert records_of(opened()) == before and emitted == [[(5, -1), (12, 1)], [(12, -1), (19, 1)]]


def test_a_driver_paused_before_its_sinks_never_reaches_them_after_its_successor(
    checkpoint: Checkpoint, opened: Open
) -> None:
    paused = driver(checkpoint, opened())
    assert totals(compute(paused, checkpoint, 0, 5)) == [(5, 1)]  # type: ignore[arg-type]
    successor = driver(checkpoint, opened())
    assert successor.batch(0, [rows(0, 999)]).restored
    assert totals(run(successor, checkpoint, 1, 7)) == [(5, -1), (12, 1)]
    before = records_of(opened())
    with pytest.raises(DataError, match="stops before it writes anything else"):
        paused.log.check_epoch()
    assert records_of(opened()) == before


class FullStore:
    """A store that is full for some names."""

    def __init__(self, storage: Storage, part: str) -> None:
        self._storage, self._part = storage, part
        self.full = True

    def create(self, name: str, pieces: Sequence[bytes]) -> bool:
        if self.full and self._part in name:
            raise OSError(errno.ENOSPC, "No space left on device", name)
        return self._storage.create(name, pieces)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)


@pytest.mark.parametrize("part", [f"{RECORDS}/1", "/1.panes", "/epochs/"])
def test_a_full_store_fails_the_batch_which_is_computed_again(
    checkpoint: Checkpoint, opened: Open, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventide.spark.driver_state._EMBEDDED", 10)  # outputs are files of their own
    run(driver(checkpoint, opened()), checkpoint, 0, 5)
    before = records_of(opened())
    store: Any = FullStore(opened(), part)
    failing = driver(checkpoint, store)
    with pytest.raises(OSError, match="No space left on device"):
        run(failing, checkpoint, 1, 7)
    assert "1" not in records_of(opened()) and records_of(opened())["0"] == before["0"]
    failing.state.drop()
    store.full = False
    assert totals(run(failing, checkpoint, 1, 7)) == [(5, -1), (12, 1)]


@pytest.mark.parametrize("fault", ["torn", "flipped", "empty"])
def test_a_damaged_record_is_noticed_and_its_file_is_named(checkpoint: Checkpoint, opened: Open, fault: str) -> None:
    run(driver(checkpoint, opened()), checkpoint, 0, 5)
    storage, name = opened(), f"{RECORDS}/0"
    body = storage.read(name)
    storage.delete([name])
    flipped = body[:-60] + bytes([body[-60] ^ 1]) + body[-59:]
    storage.create(name, [{"torn": body[: len(body) // 2], "flipped": flipped, "empty": b""}[fault]])
    with pytest.raises(DataError) as failure:
        run(driver(checkpoint, opened()), checkpoint, 1, 7)
    assert f"{storage.location}/{name} is damaged" in str(failure.value)


def test_offsets_come_from_the_checkpoint_and_records_from_the_store(checkpoint: Checkpoint, opened: Open) -> None:
    run(driver(checkpoint, opened()), checkpoint, 0, 5)
    assert opened().list(RECORDS) == ["0"] and not LocalStorage(checkpoint.directory).exists(RECORDS)
    checkpoint.log_offsets(0, 0, offsets="other files")
    with pytest.raises(DataError, match="other source offsets"):
        driver(checkpoint, opened()).batch(0, [rows(1, 5)])
