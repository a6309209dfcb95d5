"""State that moves between the driver and the executors: the results are those of a query that was never moved."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

import eventide as ev
from eventide.spark import move as moves
from eventide.spark.buckets import BUCKETS
from eventide.spark.control import Control
from eventide.spark.query_record import placement_of
from eventide.spark.storage import LocalStorage
from tests.spark.running import Stream, told
from tests.spark.test_driver_state import BUNDLES, WINDOWS, rows

PER_HOUR = (
    ev.stream(time="window_time", key="shop")
    .window(ev.tumbling("1 hour"))
    .agg(windows=ev.count(), total=ev.sum("total"))
)
CHAIN = (
    ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("10 seconds"))
    .window(ev.tumbling("1 minute"))
    .agg(total=ev.sum("price"))
    .then(PER_HOUR)
)
MOVES = [("executors", 2), ("driver", None), ("executors", 3)]


@pytest.fixture(autouse=True)
def any_number_of_buckets(spark: SparkSession) -> Iterator[None]:
    """A session that names no number of buckets: the checkpoint does."""
    buckets = spark.conf.get(BUCKETS)
    spark.conf.unset(BUCKETS)
    yield
    spark.conf.set(BUCKETS, str(buckets))


def run_and_move(stream: Stream, pipeline: Any, bundles: Sequence[pl.DataFrame], **options: Any) -> None:
    """Run a bundle in each placement: driver, executors, driver, executors."""
    state = "driver"
    for bundle, (to, buckets) in zip(bundles, MOVES, strict=False):
        stream.put(bundle).run(pipeline, state=state, **options)
        moved = ev.move(stream.checkpoint, to=to, buckets=buckets, spark=stream.spark)  # type: ignore[arg-type]
        assert moved.after == placement_of(LocalStorage(stream.checkpoint)) == to
        state = to
    stream.put(*bundles[len(MOVES) :]).run(pipeline, state=state, drain=True, **options)


def table_of(database: Path) -> list[Any]:
    with sqlite3.connect(database) as connection:
        return sorted(connection.execute("SELECT shop, window_start, n, total FROM panes").fetchall())


def test_a_query_that_moves_writes_the_table_of_one_that_stays(spark: SparkSession, tmp_path: Path) -> None:
    tables = []
    for name in ("moved", "stayed"):
        stream = Stream(spark, tmp_path / name)
        database = tmp_path / name / "panes.db"
        sink = ev.sinks.table(f"sqlite:///{database}", name="panes")
        if name == "moved":
            run_and_move(stream, WINDOWS, BUNDLES, sink=sink)
        else:
            stream.put(*BUNDLES).run(WINDOWS, state="driver", drain=True, sink=sink)
        tables.append((table_of(database), stream.all("late").height, [one.kept for one in stream.metrics]))
    assert tables[0] == tables[1] and tables[0][0]


@pytest.mark.long
def test_a_chain_moves_as_a_whole(spark: SparkSession, tmp_path: Path) -> None:
    moved, stayed = Stream(spark, tmp_path / "moved"), Stream(spark, tmp_path / "stayed")
    run_and_move(moved, CHAIN, BUNDLES)
    stayed.put(*BUNDLES).run(CHAIN, state="driver", drain=True)
    assert told(moved.all("panes")) == told(stayed.all("panes")) != []


@pytest.mark.long
def test_a_crash_leaves_the_old_state_or_the_new_one_in_use(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved, stayed = Stream(spark, tmp_path / "moved"), Stream(spark, tmp_path / "stayed")

    def crash(*arguments: Any) -> None:
        raise KeyboardInterrupt("killed")

    def crash_before_the_switch(to: str, buckets: int | None) -> None:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(moves, "_switch", crash)
            ev.move(moved.checkpoint, to=to, buckets=buckets, spark=spark)  # type: ignore[arg-type]

    def crash_after_the_switch(to: str, buckets: int | None) -> None:
        switch = moves._switch

        def then_crash(*arguments: Any) -> None:
            switch(*arguments)
            crash()

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(moves, "_switch", then_crash)
            ev.move(moved.checkpoint, to=to, buckets=buckets, spark=spark)  # type: ignore[arg-type]

    moved.put(BUNDLES[0]).run(WINDOWS, state="driver")
    crash_before_the_switch("executors", 2)
    moved.put(BUNDLES[1]).run(WINDOWS, state="driver")
    crash_after_the_switch("executors", 2)
    moved.put(BUNDLES[2]).run(WINDOWS, state="executors")
    crash_before_the_switch("driver", None)
    moved.put(BUNDLES[3]).run(WINDOWS, state="executors")
    crash_after_the_switch("driver", None)
    assert [operator.buckets for operator in ev.inspect(moved.checkpoint, spark=spark)] == [1]
    moved.run(WINDOWS, state="driver", drain=True)
    stayed.put(*BUNDLES).run(WINDOWS, state="driver", drain=True)
    assert told(moved.all("panes")) == told(stayed.all("panes")) != []


@pytest.mark.long
def test_a_command_is_applied_once_whenever_it_was_sent(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path).put(rows(10))
    stream.run(WINDOWS, state="executors")
    control = Control(stream.checkpoint, spark)
    control.skip_gap("first")
    stream.run(WINDOWS, state="executors")
    second = control.skip_gap("second")
    ev.move(stream.checkpoint, to="driver", spark=spark)
    assert [file.name for file in Path(control.place).glob("*.json")] == [f"{second}.json"]
    stream.put(rows(20)).run(WINDOWS, state="driver")
    third = control.skip_gap("third")
    ev.move(stream.checkpoint, to="executors", buckets=2, spark=spark)
    stream.put(rows(30)).run(WINDOWS, state="executors")
    applied = [command.id for batch in stream.metrics for command in batch.commands]
    assert applied[-2:] == [second, third] and len(applied) == 3


def test_a_move_is_rejected_before_anything_changes(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path).put(rows(10))
    with pytest.raises(ev.DataError, match="holds no state"):
        ev.move(stream.checkpoint, to="driver", spark=spark)
    stream.run(WINDOWS, state="driver")
    with pytest.raises(ev.PlanError, match="is in the driver already"):
        ev.move(stream.checkpoint, to="driver", spark=spark)
    with pytest.raises(ev.PlanError, match="needs the number of buckets"):
        ev.move(stream.checkpoint, to="executors", spark=spark)

    def fail(batch: Any, batch_id: int) -> None:
        raise OSError("the sink is away")

    with pytest.raises(Exception, match="the sink is away"):
        stream.put(rows(20)).run(WINDOWS, state="driver", sink=fail)
    with pytest.raises(ev.PlanError, match=r"Batch 1 of the checkpoint .* is pending"):
        ev.move(stream.checkpoint, to="executors", buckets=2, spark=spark)
    stream.run(WINDOWS, state="driver")
    assert ev.move(stream.checkpoint, to="executors", buckets=2, spark=spark).batch == 1
