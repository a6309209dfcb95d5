"""Sinks of a query: closed exactly once, however it ends, and written without further jobs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import eventide as ev
from tests.spark.running import Stream
from tests.spark.test_query import rows

pytestmark = pytest.mark.usefixtures("placement")

PER_MINUTE = (
    ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("0 seconds"))
    .window(ev.tumbling("1 minute"))
    .agg(n=ev.count())
)


class Counted:
    """A sink that counts how often it is closed. It may fail when it is opened, written or closed."""

    def __init__(self, fails: str = "") -> None:
        self.fails, self.written, self.closed = fails, 0, 0

    def open(self, schema: Any, about: Any) -> None:
        if self.fails == "open":
            raise OSError("no place to write")

    def write(self, batch: Any, batch_id: int, about: Any) -> None:
        if self.fails == "write":
            raise OSError("no space left")
        self.written += 1

    def close(self) -> None:
        self.closed += 1
        if self.fails == "close":
            raise OSError("not flushed")


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path).put(rows((10, "kiel", 1)), rows((100, "kiel", 1)))


def test_sinks_are_closed_once_after_available_now_with_and_without_a_drain(stream: Stream) -> None:
    for drain in (False, True):
        panes, both = Counted(), Counted()
        query = stream.run(PER_MINUTE, sink=panes, late=both, dead=both, drain=drain)
        query.stop()
        query.await_termination()
        assert (panes.closed, both.closed) == (1, 1)


def test_sinks_are_closed_once_after_a_stop(stream: Stream) -> None:
    panes, late = Counted(), Counted()
    query = stream.run(PER_MINUTE, sink=panes, late=late, interval="0 seconds")
    query.process_all_available()
    assert panes.closed == 0
    query.stop()
    query.stop()
    query.await_termination()
    assert (panes.closed, late.closed) == (1, 1)


def test_sinks_are_closed_once_after_a_failure_even_if_nobody_waits(stream: Stream) -> None:
    panes, late = Counted("write"), Counted()
    query = stream.run(PER_MINUTE, sink=panes, late=late, interval="0 seconds")
    for _ in range(1200):
        if not query.is_active:
            break
        time.sleep(0.05)
    assert (panes.closed, late.closed) == (1, 1)
    with pytest.raises(Exception, match="no space left"):
        query.await_termination()
    query.stop()
    assert (panes.closed, late.closed) == (1, 1)


def test_a_query_that_a_second_start_has_replaced_is_stopped_and_its_sinks_are_closed(stream: Stream) -> None:
    panes, shared, others = Counted(), Counted(), [Counted("close"), Counted()]
    first = stream.run(PER_MINUTE, sink=panes, late=shared, dead=others[0], interval="0 seconds")
    first.process_all_available()
    second = stream.run(PER_MINUTE, sink=Counted(), late=shared, dead=others[1], interval="0 seconds")
    assert (panes.closed, others[0].closed, shared.closed) == (1, 1, 0)
    assert not first.is_active and second.is_active and second.control.is_running
    first.stop()
    stream.put(rows((200, "kiel", 1)))
    second.process_all_available()
    second.stop()
    assert not second.control.is_running
    assert (panes.closed, others[0].closed, shared.closed, others[1].closed) == (1, 1, 1, 1)


def test_sinks_that_were_opened_are_closed_when_another_is_rejected(stream: Stream) -> None:
    panes, late, dead = Counted(), Counted("open"), Counted()
    with pytest.raises(OSError, match="no place to write"):
        stream.run(PER_MINUTE, sink=panes, late=late, dead=dead)
    assert (panes.closed, late.closed, dead.closed) == (1, 1, 0)


def test_a_sink_that_fails_to_close_does_not_keep_others_open(stream: Stream) -> None:
    panes, late = Counted("close"), Counted()
    with pytest.raises(OSError, match="not flushed"):
        stream.run(PER_MINUTE, sink=panes, late=late)
    assert (panes.closed, late.closed) == (1, 1)


def test_files_start_no_job_to_find_out_whether_a_batch_has_rows(
    stream: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_: Any) -> Any:
        raise AssertionError("a second job for the same batch")

    monkeypatch.setattr("pyspark.sql.classic.dataframe.DataFrame.isEmpty", failing)
    monkeypatch.setattr("pyspark.sql.classic.dataframe.DataFrame.count", failing)
    stream.run(PER_MINUTE, sink=ev.sinks.files(tmp_path / "panes"), late=None, dead=None, drain=True)
    assert stream.spark.read.parquet(str(tmp_path / "panes")).toArrow()["n"].to_pylist() == [1, 1]


def test_a_view_is_in_the_session_of_the_rows_also_while_another_is_active(stream: Stream, spark: SparkSession) -> None:
    spark.newSession().createDataFrame([], "value string")  # which makes that session the active one
    stream.run(PER_MINUTE, sink=ev.sinks.memory("in_the_session_of_the_rows"))
    assert spark.table("in_the_session_of_the_rows").count() == 1
