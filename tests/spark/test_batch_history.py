"""The history that a query writes next to its checkpoint, wherever its state is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

import eventide as ev
from eventide.cli.history import read_history
from eventide.dashboards.history_tables import HistoryLog
from eventide.dashboards.query_view import summary
from eventide.dashboards.watched_queries import QueryDirectory
from eventide.spark.batch_history import FILE
from tests.spark.running import Stream

PER_TEN = ev.stream(time="t", key="shop", watermark="0 seconds").window(ev.tumbling("10 seconds")).agg(n=ev.count())


def bundle(*rows: tuple[int, str]) -> pl.DataFrame:
    times = pl.Series("t", [second * 1_000_000 for second, _ in rows]).cast(pl.Datetime("us", "UTC"))
    return pl.DataFrame({"t": times, "shop": [shop for _, shop in rows]})


def stream(spark: SparkSession, place: Path) -> Stream:
    return Stream(spark, place).put(bundle((1, "a"), (2, "b"), (3, "b")), bundle((12, "a")), bundle((25, "a")))


def windows_of(history: Any) -> list[tuple[int, int, str, int, int]]:
    return [
        (window.batch, window.start // 1_000_000, window.timing, window.diff, window.keys) for window in history.windows
    ]


EMITTED = [(1, 0, "ON_TIME", 1, 2), (2, 10, "ON_TIME", 1, 1)]


def test_every_query_writes_its_batches_and_panes(spark: SparkSession, tmp_path: Path) -> None:
    ran = stream(spark, tmp_path)
    ran.run(PER_TEN, state="driver")
    history = read_history(ran.checkpoint)
    assert history.batches == ran.metrics
    assert windows_of(history) == EMITTED
    ran.put(bundle((36, "a"))).run(PER_TEN, state="driver")
    assert [batch.batch for batch in read_history(ran.checkpoint).batches] == [0, 1, 2, 3]
    assert len(ev.inspect(ran.checkpoint)) == 1


def test_with_state_on_the_executors_panes_are_counted_there_if_they_are_traced(
    spark: SparkSession, tmp_path: Path
) -> None:
    ran = stream(spark, tmp_path)
    ran.run(PER_TEN, state="executors")
    assert read_history(ran.checkpoint).batches == ran.metrics
    assert windows_of(read_history(ran.checkpoint)) == []
    again = stream(spark, tmp_path / "traced")
    trace = tmp_path / "trace.jsonl"
    again.run(PER_TEN, state="executors", trace=trace)
    for place in (trace, Path(again.checkpoint)):
        assert windows_of(read_history(place)) == EMITTED
        assert [batch.rows for batch in read_history(place).batches] == [3, 1, 1]


def test_missing_sequence_numbers_are_in_the_history(spark: SparkSession, tmp_path: Path) -> None:
    numbered = ev.bounded_delay("0 seconds", origin="shop", sequence="number")
    pipeline = ev.stream(time="t", watermark=numbered).window(ev.tumbling("10 seconds")).agg(n=ev.count())
    rows = bundle((1, "a"), (2, "a"), (3, "b"), (4, "b")).with_columns(number=pl.Series([1, 5, 1, 3]))
    ran = Stream(spark, tmp_path).put(rows)
    ran.run(pipeline, state="driver")
    (metrics,) = read_history(ran.checkpoint).batches
    assert metrics.gaps == 2
    assert {(gap.origin, gap.first, gap.last) for gap in metrics.gap_ranges} == {("a", 2, 4), ("b", 2, 2)}


def test_a_failure_is_in_the_history_with_its_reason(spark: SparkSession, tmp_path: Path) -> None:
    ran = stream(spark, tmp_path)

    def broken(batch: Any, batch_id: int) -> None:
        if batch_id == 1:
            raise OSError("The table is gone.")

    with pytest.raises(Exception, match="The table is gone"):
        ran.run(PER_TEN, state="driver", sink=broken)
    (query,) = QueryDirectory(ran.checkpoint).look()
    query.refresh()
    assert summary(query)["health"] == {"word": "failed", "why": "OSError: The table is gone."}
    assert (Path(ran.checkpoint) / FILE).read_text().count('"failed"') == 1
    ran.run(PER_TEN, state="driver")
    log = HistoryLog(Path(ran.checkpoint) / FILE)
    assert log.refresh() and log.tables.failure is None


def test_a_query_that_is_stopped_has_not_failed(spark: SparkSession, tmp_path: Path) -> None:
    from threading import Event

    ran, begun, stopped = stream(spark, tmp_path), Event(), Event()

    def slow(batch: Any, batch_id: int) -> None:
        begun.set()
        assert stopped.wait(60)
        batch.sparkSession.range(1).count()  # Spark has cancelled the batch

    query = ran.run(PER_TEN, state="driver", available_now=False, sink=slow)
    assert begun.wait(60)
    from threading import Thread

    stop = Thread(target=query.stop, args=(0,))
    stop.start()
    while query.is_active:
        pass
    stopped.set()
    stop.join(60)
    assert '"failed"' not in (Path(ran.checkpoint) / FILE).read_text()


def test_a_trace_that_cannot_be_written_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ev.PlanError, match="trace="):
        stream(spark, tmp_path).run(PER_TEN, state="driver", trace=tmp_path)
