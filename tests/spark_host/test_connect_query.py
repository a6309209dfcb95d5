"""How a query over Spark Connect is sent to the server and started there."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import Any

import pytest

from eventide import DataError, PlanError
from eventide.spark import connect_query
from eventide.spark.batch_history import FILE, RunHistory
from eventide.spark.connect_query import RemoteCallback, Sinks, remote_batches

TOO_SLOW = RuntimeError("Python worker failed to connect back.")
STARTED = SimpleNamespace(id="4f2a99")


class Opened:
    """A query that is open where it is unpickled."""

    def open(self, spark: Any) -> str:
        return f"opened in {spark}"


def writer(*outcomes: Any) -> Any:
    results: Iterator[Any] = iter(outcomes)

    def start() -> Any:
        result = next(results)
        if isinstance(result, Exception):
            raise result
        return result

    return SimpleNamespace(start=start)


@pytest.fixture
def query(tmp_path: Path) -> Any:
    (tmp_path / FILE).parent.mkdir()
    return SimpleNamespace(checkpoint=str(tmp_path))


def test_a_query_is_opened_where_it_is_unpickled(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import SparkSession

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: "the server")
    sent: Any = RemoteCallback(Opened())  # type: ignore[arg-type]  # as much of a query as is sent
    assert pickle.loads(pickle.dumps(sent)) == "opened in the server"


def test_a_process_that_begins_too_late_is_started_again(query: Any) -> None:
    batches = remote_batches(query, RunHistory(), None)
    assert batches.start(writer(TOO_SLOW, TOO_SLOW, STARTED)) is STARTED
    batches.close()


def test_a_server_that_stays_too_slow_is_an_error(query: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect_query, "_START_PATIENCE", 0)
    with pytest.raises(RuntimeError, match="failed to connect back"):
        remote_batches(query, RunHistory(), None).start(writer(TOO_SLOW, STARTED))


def test_what_the_server_rejects_is_an_error_of_eventide(query: Any) -> None:
    failure = RuntimeError("Traceback …\neventide.errors.DataError: The table is gone.\n\nJVM stacktrace: …")
    with pytest.raises(DataError, match=r"^The table is gone\.$"):
        remote_batches(query, RunHistory(), None).start(writer(failure))


def test_a_sink_that_cannot_be_sent_is_rejected_with_a_suggested_fix() -> None:
    lock = Lock()
    with pytest.raises(PlanError, match=r"cannot be sent to the server of Spark Connect.*lock.*in open\(\)\.$"):
        Sinks(lambda batch, number: lock.acquire(), None, None).copied()
    assert Sinks("console", None, "noop").copied() == Sinks("console", None, "noop")
