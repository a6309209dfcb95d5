"""Row windows on offsets, retention, deduplication, processors and calls on Spark: what one process gives."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from pyspark.sql import SparkSession

import eventide as ev
from tests.spark.running import Stream
from tests.spark.test_several_inputs import counted
from tests.spark.test_streaming import START

pytestmark = pytest.mark.usefixtures("placement")

NUMBERED = ev.bounded_delay("10 seconds", origin="till", sequence="offset")


def bundle(number: int, size: int = 120) -> pl.DataFrame:
    """Rows of three tills, each with offsets of its own; a third of them come again in the next bundle."""
    rng = np.random.default_rng(number)
    offsets = np.arange(number * size, (number + 1) * size)
    if number:
        offsets = np.concatenate([rng.choice(np.arange((number - 1) * size, number * size), size // 3), offsets])
    rng.shuffle(offsets)
    return pl.DataFrame(
        {
            "ts": pl.Series(offsets // 4 * 1_000_000 + rng.integers(0, 3) * 1_000_000).cast(pl.Duration("us")) + START,
            "shop": pl.Series(offsets).map_elements(lambda n: f"shop {n % 7}", pl.String),
            "till": pl.Series(offsets % 3).cast(pl.String),
            "offset": pl.Series(offsets // 3 + 1, dtype=pl.Int64),
            "price": pl.Series(offsets % 50).cast(pl.Float64),
        }
    )


BUNDLES = [bundle(number) for number in range(5)]


class RunningTotal(ev.Processor):
    """What each shop has sold so far, with every bundle; and one minute after its last sale, that it is silent."""

    state_schema = {"total": pl.Float64}  # noqa: RUF012

    def process(self, edge: int, rows: pl.DataFrame) -> None:
        new = rows.group_by("shop").agg(pl.col("price").sum(), pl.col("__time").max())
        before = self.state.get(new.select("shop"))
        total = new.join(before, on="shop", how="left").with_columns(
            (pl.col("total").fill_null(0) + pl.col("price")).alias("total")
        )
        self.state.put(total.select("shop", "total"))
        self.timers.set(total.select("shop", (pl.col("__time") + pl.duration(minutes=1)).alias("at")))
        self.emit(total.select("shop", "total", pl.lit("sold").alias("what")))

    def on_timer(self, rows: pl.DataFrame) -> None:
        self.emit(self.state.get(rows.select("shop")).select("shop", "total", pl.lit("silent").alias("what")))


async def look_up(row: dict[str, Any]) -> dict[str, Any]:
    await asyncio.sleep(0)
    return {"city": {"shop 0": "kiel", "shop 1": "bonn"}[row["shop"]]}


SALES = ev.stream(time="ts", key="shop", watermark=NUMBERED)
PIPELINES = {
    "deduplicated": SALES.deduplicate().window(ev.tumbling("20 seconds")).agg(n=ev.count(), total=ev.sum("price")),
    "deduplicated by id": ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("10 seconds"))
    .deduplicate("till", "offset", within="1 hour")
    .window(ev.tumbling("20 seconds"))
    .agg(n=ev.count(), total=ev.sum(pl.col("price") * 2), dear=ev.count(where=pl.col("price") > 20)),
    "rows by offset": ev.stream(time="ts", watermark=NUMBERED)
    .deduplicate()
    .window(ev.rows(25, by="offset"))
    .agg(n=ev.count(), total=ev.sum("price")),
    "row sessions by offset": SALES.deduplicate().window(ev.row_sessions(absent=2, by="offset")).agg(n=ev.count()),
    "retained": SALES.window(ev.tumbling("10 seconds"))
    .emit(allowed_lateness="20 seconds")
    .limit_state(rows=20)
    .agg(prices=ev.collect_list("price")),
    "processor": SALES.deduplicate().process(
        RunningTotal(), output={"shop": pl.String, "total": pl.Float64, "what": pl.String}
    ),
    "calls": ev.stream(time="ts", key="city", watermark=ev.bounded_delay("10 seconds"))
    .map_async(look_up, output={"city": pl.String}, retries=0)
    .window(ev.tumbling("20 seconds"))
    .agg(n=ev.count()),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_the_same_bundles_give_the_same_rows_as_in_process(spark: SparkSession, tmp_path: Path, name: str) -> None:
    pipeline = PIPELINES[name]
    stream = Stream(spark, tmp_path).put(*BUNDLES[:2])
    stream.run(pipeline)
    stream.put(*BUNDLES[2:])
    stream.run(pipeline, drain=True)
    local = pipeline.local(BUNDLES)
    assert counted(stream.all("panes")) == counted(local.panes)
    assert local.panes.height > 10, "there is something to compare"
    assert reasons(stream.all("dead")) == reasons(local.dead)
    assert sum(reasons(local.dead).values()) > 2, "something is set aside"
    assert stream.all("late").height == local.late.height
    assert all(batch.balanced for batch in stream.metrics)


def reasons(dead: pl.DataFrame) -> dict[str, int]:
    return dict(dead["ev_reason"].value_counts().rows()) if dead.height else {}
