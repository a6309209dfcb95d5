"""A state that is small lies in the heads of its buckets: on Spark, where the map of pages is then never named."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

import eventide as ev
from tests.spark.running import Stream, comparable

pytestmark = pytest.mark.long  # counts the calls of Spark's state server

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
SCHEMA = {"ts": pl.Datetime("us", "UTC"), "shop": pl.String(), "price": pl.Int64()}
WINDOWS = ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("10 seconds")).window(ev.tumbling("1 minute"))
ONCE = WINDOWS.agg(n=ev.count(), total=ev.sum("price"))


def rows(first: int, count: int, shops: int = 5) -> pl.DataFrame:
    """A row a second, and after forty from the beginning again."""
    told_ = [(START + timedelta(seconds=first + i % 40), f"shop {i % shops}", i) for i in range(count)]
    return pl.DataFrame(told_, schema=SCHEMA, orient="row")


def maps(query: Any) -> list[int]:
    """How many maps the tasks of each batch have named, as Spark counts them."""
    return [
        int(operator["customMetrics"]["numMapStateVars"])
        for progress in query.spark.recentProgress
        for operator in progress["stateOperators"]
    ]


def test_only_a_state_that_has_grown_names_the_map(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path).put(rows(0, 50), rows(2, 50))
    assert maps(stream.run(ONCE, state="executors")) == [0, 0]
    stream.put(rows(4, 50), rows(6, 20_000, shops=8_000), rows(8, 50))
    assert maps(stream.run(ONCE, state="executors")) == [
        0,
        2,
        0,
    ]  # in the first of them workers have to read all; there are two buckets
    (grown,) = ev.inspect(stream.checkpoint, pipeline=ONCE, keys=True, spark=spark)
    assert grown.windows is not None and grown.windows["rows"].sum() == 20_200
    assert grown.keys.count == 8_000 and grown.keys.largest["rows"].max() > 3  # in two buckets
    assert (grown.pages, grown.bytes) == (stream.metrics[-1].pages, stream.metrics[-1].state_bytes)
    stream.put(rows(10, 50), rows(300, 50), rows(310, 50))
    assert maps(stream.run(ONCE, state="executors"))[-1] == 0  # the large window is gone, and the state is small again
    stream.run(ONCE, drain=True, state="executors")
    batch = spark.read.parquet(str(tmp_path / "in")).transform(ONCE)
    assert comparable(stream.all("panes")) == comparable(pl.DataFrame(pl.from_arrow(batch.toArrow())))
