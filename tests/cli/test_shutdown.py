"""A query that is asked to stop ends its batch, however long that takes; and a Spark that is gone is no failure."""

from __future__ import annotations

import os
import signal
import threading
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from eventide._jvm import is_stopped
from eventide.cli import query_runner as running
from eventide.cli.shutdown import stop_on_signal
from eventide.spark.control import Control
from eventide.spark.query import Query


class Batches:
    """A streaming query that is always in a batch; each look at its status is a moment, and a batch has 50 of them."""

    isActive = True  # noqa: N815

    def __init__(self, ends: int | None = None) -> None:
        self.looks = 0
        self.ends = ends  # the look from which on no batch runs
        self.stopped_at: int | None = None
        self.stopped = threading.Event()

    @property
    def status(self) -> dict[str, bool]:
        self.looks += 1
        return {"isTriggerActive": self.ends is None or self.looks < self.ends}

    @property
    def lastProgress(self) -> Any:  # noqa: N802
        return SimpleNamespace(batchId=self.looks // 50) if self.looks >= 50 else None

    def stop(self) -> None:
        self.stopped_at = self.looks
        self.stopped.set()


class Unreachable:
    """A session whose Java has ended."""

    def __getattr__(self, name: str) -> Any:
        raise ConnectionRefusedError(111, "Connection refused")


def stop(query: Batches, wait: float | None) -> None:
    Query(query, Control(""), (), lambda: None).stop(wait)  # type: ignore[arg-type]


def test_without_a_limit_a_query_is_stopped_when_it_rests() -> None:
    query = Batches(ends=20)
    stop(query, None)
    assert query.stopped_at == 20


def test_a_query_whose_batches_follow_each_other_at_once_is_stopped_after_the_one_that_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("eventide.spark.query._PAUSE", 0.1)
    query = Batches()
    stop(query, None)
    assert query.stopped_at is not None and 50 <= query.stopped_at < 100


def test_after_the_batch_that_runs_a_pause_is_waited_for_a_moment() -> None:
    query = Batches(ends=70)
    stop(query, None)
    assert query.stopped_at == 70


def test_the_first_signal_is_answered_and_waits_for_the_batch() -> None:
    query, reported = Batches(ends=20), threading.Event()
    with stop_on_signal(SimpleNamespace(streams=SimpleNamespace(active=[query])), reported.set) as asked:  # type: ignore[arg-type]
        os.kill(os.getpid(), signal.SIGINT)
        assert query.stopped.wait(20)
    assert asked.is_set() and reported.is_set()
    assert query.stopped_at == 20


def test_the_second_signal_breaks_off() -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        stop_on_signal(SimpleNamespace(streams=SimpleNamespace(active=[])), lambda: None),  # type: ignore[arg-type]
    ):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)


def test_a_spark_that_is_gone_is_no_fault_of_the_watcher(monkeypatch: pytest.MonkeyPatch) -> None:
    faults: list[Any] = []
    looked = threading.Event()
    monkeypatch.setattr(threading, "excepthook", faults.append)

    class Looked(Unreachable):
        def __getattr__(self, name: str) -> Any:
            looked.set()
            return super().__getattr__(name)

    with stop_on_signal(Looked(), lambda: None):  # type: ignore[arg-type]
        os.kill(os.getpid(), signal.SIGTERM)
        assert looked.wait(20)
    assert faults == []


def test_a_spark_that_cannot_be_reached_counts_as_stopped() -> None:
    def spark(stopped: bool) -> Any:
        context = SimpleNamespace(isStopped=lambda: stopped)
        return SimpleNamespace(sparkContext=SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: context)))

    assert is_stopped(Unreachable())  # type: ignore[arg-type]
    assert is_stopped(spark(stopped=True))
    assert not is_stopped(spark(stopped=False))


def stopped_with(monkeypatch: pytest.MonkeyPatch, spark: Any) -> None:
    """A query that a signal reaches, and whose Spark then cannot be reached."""

    def broken(order: Any, rows: Any, listeners: Any, asked: threading.Event) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        assert asked.wait(20)
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(running, "_rows", lambda order, spark: None)
    monkeypatch.setattr(running, "_run", broken)
    job: Any = SimpleNamespace(pipeline=SimpleNamespace(plans=(None,), following=()))
    running.run_request(running.RunRequest(job, {}, {}, "checkpoint"), spark)


def test_a_stop_that_has_reached_spark_too_is_a_stop(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended:
        stopped_with(monkeypatch, Unreachable())
    assert ended.value.exit_code == 130
    assert "Stopped. The same command continues from the checkpoint." in capsys.readouterr().err


def test_an_error_of_a_running_spark_is_reported_also_after_a_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    context = SimpleNamespace(isStopped=lambda: False)
    alive = SimpleNamespace(
        sparkContext=SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: context)), streams=SimpleNamespace(active=[])
    )
    with pytest.raises(ConnectionRefusedError):
        stopped_with(monkeypatch, alive)
