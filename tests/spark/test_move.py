"""State that moves between the driver and the executors: the results are those of a query that was never moved."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
from pyspark.sql import SparkSession

import eventide as ev
from eventide.spark.query_record import placement_of
from tests.spark.running import Stream, told
from tests.spark.test_driver_state import BUNDLES, WINDOWS

PER_HOUR = ev.stream(key="shop").window(ev.tumbling("1 hour")).agg(windows=ev.count(), total=ev.sum("total"))
CHAIN = [
    ev.stream(time="ts", key="shop", watermark=ev.lag("10 seconds"))
    .window(ev.tumbling("1 minute"))
    .agg(total=ev.sum("price")),
    PER_HOUR,
]
MOVES = [("executors", 2), ("driver", None), ("executors", 3)]


def run_and_move(stream: Stream, pipeline: Any, bundles: Sequence[pl.DataFrame], **options: Any) -> None:
    """Run a bundle in each placement: driver, executors, driver, executors."""
    state = "driver"
    for bundle, (to, buckets) in zip(bundles, MOVES, strict=False):
        stream.put(bundle).run(pipeline, state=state, **options)
        moved = ev.move(stream.checkpoint, to=to, buckets=buckets, spark=stream.spark)  # type: ignore[arg-type]
        assert moved.after == placement_of(stream.checkpoint) == to
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
            run_and_move(stream, WINDOWS, BUNDLES, panes=sink)
        else:
            stream.put(*BUNDLES).run(WINDOWS, state="driver", drain=True, panes=sink)
        tables.append((table_of(database), stream.all("late").height, [one.kept for one in stream.metrics]))
    assert tables[0] == tables[1] and tables[0][0]


def test_a_chain_moves_as_a_whole(spark: SparkSession, tmp_path: Path) -> None:
    moved, stayed = Stream(spark, tmp_path / "moved"), Stream(spark, tmp_path / "stayed")
    run_and_move(moved, CHAIN, BUNDLES)
    stayed.put(*BUNDLES).run(CHAIN, state="driver", drain=True)
    assert told(moved.all("panes")) == told(stayed.all("panes")) != []
