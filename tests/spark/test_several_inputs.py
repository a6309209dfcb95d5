"""Pipelines with several inputs give on Spark what they give in process, also after a restart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import DataFrame, SparkSession

import eventide as ev
from eventide.errors import PlanError
from eventide.operators.operator import Counts
from eventide.time import as_datetime
from tests.processors.test_process import WITH_TWO_TIMES, sides
from tests.spark.running import Stream
from tests.spark.test_query import at
from tests.spark.test_streaming import bundle

pytestmark = pytest.mark.usefixtures("placement")

SALES = [bundle(number, 60) for number in range(6)]
VISITS = [bundle(number + 100, 40).rename({"price": "spent"}) for number in range(6)]
VISITS = [
    frame.with_columns(pl.col("ts") - pl.duration(seconds=3000), pl.col("shop").alias("place")).drop("shop")
    for frame in VISITS
]
VISITS = [frame.sort(*frame.columns, nulls_last=True) for frame in VISITS]

SHOP = ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("10 seconds", origin="till"))
PLACE = ev.stream(time="ts", key="place", watermark=ev.bounded_delay("5 seconds"))
OFTEN = {
    "trigger": ev.after_watermark(early=ev.on_update(), late=ev.on_update()),
    "allowed_lateness": "30 seconds",
    "mode": "retracting",
}
SHOPS = ev.union(shops=SHOP, stalls=ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("1 minute")))
PIPELINES: dict[str, tuple[ev.Pipeline, Sequence[Sequence[pl.DataFrame]]]] = {
    "inner window join": (ev.window_join(SHOP, PLACE, window=ev.tumbling("20 seconds")), (SALES, VISITS)),
    "full window join": (
        ev.window_join(SHOP, PLACE, window=ev.tumbling("20 seconds"), how="full", **OFTEN),  # type: ignore[arg-type]
        (SALES, VISITS),
    ),
    "cogroup": (ev.cogroup({"sales": SHOP, "visits": PLACE}, window=ev.sessions("2 seconds")), (SALES, VISITS)),
    "interval join": (ev.join(SHOP, PLACE, within=("-2 seconds", "3 seconds")), (SALES, VISITS)),
    "full interval join": (ev.join(SHOP, PLACE, within="1 second", how="full"), (SALES, VISITS)),
    "left join over rows": (
        ev.join(SHOP, PLACE, last=3, keep="1 minute", how="left"),
        (SALES, VISITS),
    ),
    "union": (SHOPS.window(ev.tumbling("1 minute")).agg(n=ev.count(), total=ev.sum("price")), (SALES, SALES[::-1])),
}


class Streams:
    """As many streams as a pipeline has inputs; the outputs are collected in the first."""

    def __init__(self, spark: SparkSession, place: Path, names: Sequence[str]) -> None:
        self.inputs = {name: Stream(spark, place / name) for name in names}
        self.first = next(iter(self.inputs.values()))

    def put(self, bundles: Sequence[Sequence[pl.DataFrame]]) -> Streams:
        for stream, frames in zip(self.inputs.values(), bundles, strict=True):
            stream.put(*frames)
        return self

    @property
    def rows(self) -> Mapping[str, DataFrame]:
        return {name: stream.rows for name, stream in self.inputs.items()}

    def run(self, pipeline: ev.Pipeline, **options: Any) -> None:
        self.first.run(pipeline, self.rows, **options)


def counted(rows: pl.DataFrame) -> list[str]:
    """Rows in no order, without what the clock decides."""
    if rows.is_empty():
        return []
    panes = "pane_timing" in rows.columns
    plain = rows.drop("emitted_at").with_columns(pl.col("pane_timing").cast(pl.String)) if panes else rows
    return sorted(map(repr, plain.to_dicts()))


def names_of(pipeline: ev.Pipeline) -> list[str]:
    return [edge.name for edge in pipeline.plan.edges]


QUICK = ("full window join", "full interval join", "union")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.long]) for name in PIPELINES]
)
def test_the_same_bundles_give_the_same_rows_as_in_process(spark: SparkSession, tmp_path: Path, name: str) -> None:
    pipeline, bundles = PIPELINES[name]
    names = names_of(pipeline)
    streams = Streams(spark, tmp_path, names).put([frames[:3] for frames in bundles])
    streams.run(pipeline)
    streams.put([frames[3:] for frames in bundles]).run(pipeline, drain=True)
    local = pipeline.local(dict(zip(names, bundles, strict=True)))
    observed = streams.first
    assert counted(observed.all("panes")) == counted(local.panes)
    assert local.panes.height > 10, "there is something to compare"
    assert observed.all("late").height == local.late.height
    assert observed.all("dead").height == local.dead.height > 0
    assert all(batch.balanced for batch in observed.metrics)
    counts = local.metrics
    assert _sum(observed) == Counts(counts.rows, counts.kept, counts.late, counts.dead)


def test_a_batch_gives_what_the_drained_stream_gives(spark: SparkSession) -> None:
    pipeline, bundles = PIPELINES["inner window join"]
    tables = [pl.concat(frames).to_arrow(compat_level=pl.CompatLevel.oldest()) for frames in bundles]
    left, right = (spark.createDataFrame(table) for table in tables)
    query = pipeline.start_local(
        dict(zip(("left", "right"), (pl.from_arrow(table).schema for table in tables), strict=True))
    )
    query.push(dict(zip(("left", "right"), tables, strict=True)))
    query.drain()
    expected = counted(query.result.panes)
    assert counted(_collected(left.transform(pipeline, right))) == expected
    assert counted(_collected(pipeline({"right": right, "left": left}))) == expected


def test_what_is_missing_or_too_much_is_rejected(spark: SparkSession) -> None:
    pipeline, _ = PIPELINES["inner window join"]
    table = spark.range(1)
    with pytest.raises(PlanError, match="several inputs"):
        pipeline(table)
    with pytest.raises(PlanError, match=r"inputs \['left', 'right'\], but rows were given for \['left', 'other'\]"):
        pipeline({"left": table, "other": table})
    with pytest.raises(PlanError, match="some are streaming and some are not"):
        pipeline(table, spark.readStream.format("rate").load())


def test_inputs_are_noted_retired_and_ended_by_name(spark: SparkSession, tmp_path: Path) -> None:
    plain = ev.stream(time="ts", key="shop", watermark=ev.ascending())
    pipeline = ev.union(a=plain, b=plain).window(ev.tumbling("1 minute")).agg(n=ev.count())
    first, second = (pl.DataFrame({"ts": [at(second)], "shop": ["kiel"]}) for second in (50, 10))
    streams = Streams(spark, tmp_path, ["a", "b"]).put([[first], [second]])
    control = streams.first.run(pipeline, streams.rows).control
    metrics = streams.first.metrics
    assert (metrics[-1].watermark, metrics[-1].least_origin) == (at(10), "b")
    control.advance_watermark(at(30), key="b")
    streams.run(pipeline)
    assert metrics[-1].watermark == at(30)
    control.retire("b")
    streams.run(pipeline)
    assert metrics[-1].watermark == at(50)
    control.end("a")
    control.end("b")
    streams.run(pipeline)
    assert metrics[-1].drained and streams.first.all("panes")["n"].to_list() == [2]


def test_watermark_keys_pass_a_processor_that_does_not_use_them(spark: SparkSession, tmp_path: Path) -> None:
    bundles = [sides(1, 2), sides(3)]
    streams = Streams(spark, tmp_path, ["left", "right"])
    streams.put([[bundle[name] for bundle in bundles] for name in ("left", "right")])
    streams.first.run(WITH_TWO_TIMES, streams.rows)
    windows = [batch for batch in streams.first.metrics if batch.depth == 2]
    assert windows[-1].watermark == as_datetime(3 * 60_000_000)
    assert streams.first.all("panes")["n"].to_list() == [1, 1]


def test_a_table_next_to_a_stream_is_read_once_and_ends(spark: SparkSession, tmp_path: Path) -> None:
    known = SALES[0].with_columns(pl.col("ts") - pl.duration(seconds=30))
    pipeline = ev.window_join(SHOP, SHOP, window=ev.tumbling("20 seconds"), how="full")
    query = pipeline.start_local()
    query.push({"left": SALES[0], "right": known})
    query.end("right")
    for frame in SALES[1:]:
        query.push({"left": frame})
    query.drain()
    stream = Stream(spark, tmp_path).put(*SALES[:3])
    table = spark.createDataFrame(known.to_arrow(compat_level=pl.CompatLevel.oldest()))
    with pytest.raises(PlanError, match="state='driver'"):
        stream.run(pipeline, {"left": stream.rows, "right": table}, state="executors")
    stream.run(pipeline, {"left": stream.rows, "right": table}, state="driver")
    stream.put(*SALES[3:])
    stream.run(pipeline, {"left": stream.rows, "right": table}, state="driver", drain=True)
    assert counted(stream.all("panes")) == counted(query.result.panes)
    assert stream.all("late").height == query.result.late.height > 0


def test_a_table_without_rows_next_to_a_stream_ends_at_once(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = ev.window_join(SHOP, SHOP, window=ev.tumbling("20 seconds"), how="full")
    stream = Stream(spark, tmp_path).put(SALES[0])
    table = spark.createDataFrame(SALES[0].clear().to_arrow(compat_level=pl.CompatLevel.oldest()))
    stream.run(pipeline, {"left": stream.rows, "right": table}, state="driver", drain=True)
    empty = {"left": SALES[0], "right": SALES[0].clear()}
    assert counted(stream.all("panes")) == counted(pipeline.local(empty).panes)


def _collected(rows: DataFrame) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(rows.toArrow()))


def _sum(stream: Stream) -> Counts:
    counts = [Counts(batch.rows, batch.kept, batch.late, dict(batch.dead)) for batch in stream.metrics]
    return sum(counts, Counts())
