"""Wake-ups: files that start a batch when a deadline has passed, without Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import eventide as ev
from eventide.spark.deadlines import PAUSE, WakeUp, is_wake_up
from eventide.spark.storage import LocalStorage
from eventide.time import MIN
from tests.driver.harness import Checkpoint, Driver

CONTROL = "eventide/control"
SECOND = 1_000_000
SCHEMA = {"t": pl.Int64(), "shop": pl.String()}
IDLE = (
    ev.stream(time="t", key="shop", watermark=ev.ascending(idle_timeout="10 seconds"))
    .window(ev.tumbling("1 minute"))
    .trigger(ev.every("30 seconds"), mode="accumulating")
    .agg(n=ev.count())
)


def until(condition: Callable[[], object]) -> None:
    """Wait for what another thread does."""
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.fixture
def clock() -> list[int]:
    return [1000 * SECOND]


@pytest.fixture
def wake_up(tmp_path: Path, clock: list[int]) -> WakeUp:
    return WakeUp(LocalStorage(tmp_path), CONTROL, clock=lambda: clock[0])


def files(checkpoint: Path) -> list[str]:
    return LocalStorage(checkpoint).list(CONTROL)


def waiting() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "eventide-wake-up"]


def test_a_deadline_that_has_passed_writes_one_empty_file(wake_up: WakeUp, tmp_path: Path) -> None:
    wake_up.set(999 * SECOND)
    until(lambda: files(tmp_path))
    (name,) = files(tmp_path)
    assert is_wake_up(name) and (tmp_path / CONTROL / name).read_bytes() == b""
    wake_up.close()


def test_a_deadline_that_is_cancelled_writes_nothing(wake_up: WakeUp, clock: list[int], tmp_path: Path) -> None:
    wake_up.set(1001 * SECOND)
    wake_up.set(None)
    clock[0] = 2000 * SECOND
    wake_up.close()
    until(lambda: not waiting())
    assert files(tmp_path) == []


def test_a_deadline_soon_after_a_batch_waits_for_a_pause(wake_up: WakeUp, clock: list[int], tmp_path: Path) -> None:
    wake_up.set(1000 * SECOND, pause=PAUSE)
    clock[0] += PAUSE - 1
    wake_up.set(None)
    assert files(tmp_path) == []
    wake_up.set(999 * SECOND, pause=0)
    until(lambda: files(tmp_path))
    wake_up.close()


def test_a_deadline_survives_an_error_of_the_storage(
    wake_up: WakeUp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, failures = LocalStorage.replace, [OSError("no connection")] * 3

    def unreliable(storage: LocalStorage, name: str, body: bytes) -> None:
        if failures:
            raise failures.pop()
        replace(storage, name, body)

    monkeypatch.setattr("eventide.spark.deadlines._RETRY", 0)
    monkeypatch.setattr(LocalStorage, "replace", unreliable)
    wake_up.set(999 * SECOND)
    until(lambda: files(tmp_path))
    wake_up.close()
    until(lambda: not waiting())
    assert not failures and len(files(tmp_path)) == 1


def test_a_batch_replaces_a_wake_up_that_could_not_be_written(
    wake_up: WakeUp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = []

    def failing(storage: LocalStorage, name: str, body: bytes) -> None:
        attempts.append(name)
        wake_up.set(None)  # a batch starts in the meantime
        raise OSError("no connection")

    monkeypatch.setattr("eventide.spark.deadlines._RETRY", 0)
    monkeypatch.setattr(LocalStorage, "replace", failing)
    wake_up.set(999 * SECOND)
    until(lambda: attempts)
    wake_up.close()
    until(lambda: not waiting())
    assert len(attempts) == 1 and files(tmp_path) == []


def test_a_query_that_has_ended_is_not_woken_and_has_no_thread(wake_up: WakeUp, tmp_path: Path) -> None:
    wake_up.set(1001 * SECOND)
    wake_up.close()
    wake_up.set(999 * SECOND)
    until(lambda: not waiting())
    assert files(tmp_path) == []


def test_a_start_wakes_the_query_only_if_the_deadline_has_passed(wake_up: WakeUp, tmp_path: Path) -> None:
    assert not wake_up.wake_if_due(None) and not wake_up.wake_if_due(1000 * SECOND + 1)
    assert files(tmp_path) == []
    assert wake_up.wake_if_due(1000 * SECOND) and wake_up.wake_if_due(MIN)
    assert len(files(tmp_path)) == 2


def test_a_deadline_between_two_milliseconds_waits_for_the_second(wake_up: WakeUp, clock: list[int]) -> None:
    assert not wake_up.wake_if_due(1000 * SECOND + 1)
    clock[0] += 1000
    assert wake_up.wake_if_due(1000 * SECOND + 1)


def test_a_record_has_the_deadline_of_its_batch(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    driver = Driver(checkpoint, IDLE, [SCHEMA])
    assert driver.state.recorded_deadline() == MIN  # the first batch starts the clocks
    checkpoint.log_offsets(0, 1000 * SECOND)
    rows = pl.DataFrame({"t": [0], "shop": ["kiel"]}, schema=SCHEMA)
    assert driver.batch(0, [rows]).deadline == 1010 * SECOND
    restarted = Driver(checkpoint, IDLE, [SCHEMA])
    assert restarted.state.recorded_deadline() == 1010 * SECOND
    assert restarted.batch(0, [rows]).deadline == 1010 * SECOND  # delivered again, from the record
    checkpoint.log_offsets(1, 1010 * SECOND)
    assert restarted.batch(1, [rows.clear()]).deadline == 1030 * SECOND
    checkpoint.log_offsets(2, 1030 * SECOND)
    fired = restarted.batch(2, [rows.clear()])
    assert fired.deadline is None and fired.tables["panes", 0].num_rows == 1


def test_a_plan_without_clocks_is_never_woken(tmp_path: Path) -> None:
    plan = ev.stream(time="t", watermark=ev.bounded_delay("1 minute")).window(ev.tumbling("1 minute")).agg(n=ev.count())
    assert Driver(Checkpoint(tmp_path), plan, [SCHEMA]).state.recorded_deadline() is None
