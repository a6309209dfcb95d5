"""Progress that is coalesced in one place on Spark: outputs, metrics and state are those of direct progress."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

import eventide as ev
from eventide.errors import PlanError
from eventide.spark.buckets import BUCKETS
from eventide.spark.coalesced_progress import PROGRESS
from eventide.spark.control import Control
from tests.spark.running import Stream, comparable, settings

pytestmark = pytest.mark.long

MINUTES = (
    ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("10 seconds", origin="device", sequence="n"))
    .window(ev.tumbling("1 minute"))
    .agg(rows=ev.count(), total=ev.sum("price"))
)
HOURS = ev.stream(time="window_time", key="shop").window(ev.tumbling("1 hour")).agg(total=ev.sum("total"))


@pytest.fixture(autouse=True)
def three_buckets(spark: SparkSession) -> Iterator[None]:
    with settings(spark, {BUCKETS: "3", PROGRESS: None}):
        yield


def bundle(start: int, missing: int | None = None) -> pl.DataFrame:
    """Rows of three devices, numbered, a few minutes long; device 2 lacks a number."""
    rows = [
        {"ts": (start + 17 * i + d) * 1_000_000, "shop": f"s{i % 5}", "device": d, "n": start + i, "price": i}
        for d in range(3)
        for i in range(20)
        if not (d == 2 and i == missing)
    ]
    return pl.DataFrame(rows).with_columns(pl.col("ts").cast(pl.Datetime("us", "UTC")))


def history(spark: SparkSession, place: Path, progress: str) -> tuple[Any, ...]:
    """Two starts on the executors with a gap and a command, then the driver: outputs, metrics and origins."""
    spark.conf.set(PROGRESS, progress)
    stream, pipeline = Stream(spark, place), MINUTES.then(HOURS)
    stream.put(bundle(1, missing=7)).run(pipeline, state="executors")
    Control(stream.checkpoint, spark).skip_gap("2")
    stream.put(bundle(21), bundle(1).head(1)).run(pipeline, state="executors")
    seen = [
        [(origin.name, origin.status, origin.watermarks) for origin in operator.origins]
        for operator in ev.inspect(stream.checkpoint, spark=spark)
    ]
    spark.conf.unset(PROGRESS)
    ev.rescale(stream.checkpoint, to="driver", spark=spark)
    stream.put(bundle(41)).run(pipeline, state="driver", drain=True)
    metrics = [(m.depth, m.rows, m.kept, m.late, m.watermark, m.origins, m.slowest, m.gaps) for m in stream.metrics]
    commands = [[effect.action for effect in m.commands] for m in stream.metrics]
    return (
        comparable(stream.all("panes")),
        stream.all("late").height,
        stream.all("dead").height,
        metrics,
        commands,
        seen,
    )


def test_a_chain_with_coalesced_progress_is_that_with_direct_progress(spark: SparkSession, tmp_path: Path) -> None:
    direct, coalesced = (history(spark, tmp_path / way, way) for way in ("direct", "coalesced"))
    assert direct == coalesced
    panes, late, _, _, commands, seen = coalesced
    assert panes and late and ["skip_gap"] in commands and len(seen[0]) == 3


def test_a_checkpoint_keeps_the_progress_that_it_was_started_with(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path)
    spark.conf.set(PROGRESS, "coalesced")
    query = stream.put(bundle(1)).run(MINUTES, state="executors")
    assert "coalesced: tasks send it to one place" in query.explain()
    spark.conf.set(PROGRESS, "direct")
    with pytest.raises(PlanError, match=r"was started with .* = 'coalesced'"):
        stream.put(bundle(21)).run(MINUTES, state="executors")
