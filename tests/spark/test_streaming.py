"""What a pipeline gives on Spark is what it gives in process, from the same bundles."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import eventide as ev
from eventide.panes import PANE
from tests.spark.running import Stream, comparable

pytestmark = pytest.mark.usefixtures("placement")

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
SCHEMA = {"ts": pl.Datetime("us", "UTC"), "shop": pl.String(), "price": pl.Float64(), "till": pl.Int32()}


def bundle(number: int, size: int = 200) -> pl.DataFrame:
    """Rows of half a minute, some of them late, some without a time; in the order in which Spark's hosts use them."""
    rng = np.random.default_rng(number)
    at = number * 30 + rng.integers(0, 40, size) - np.where(rng.random(size) < 0.05, 150, 0)
    times = [None if rng.random() < 0.01 else START + timedelta(seconds=int(second)) for second in at]
    shops = [["kiel", "bonn", "köln", None][i] for i in rng.integers(0, 4, size)]
    prices = (rng.integers(0, 400, size) / 4).tolist()
    rows = pl.DataFrame([times, shops, prices, rng.integers(0, 3, size).tolist()], schema=SCHEMA)
    return rows.sort(*SCHEMA, nulls_last=True)


BUNDLES = [bundle(number) for number in range(6)]
ORDERS = ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("10 seconds", origin="till"))
TOTALS = {"n": ev.count(), "total": ev.sum("price"), "last": ev.last("price")}
PIPELINES = {
    "tumbling": ORDERS.window(ev.tumbling("1 minute")).agg(**TOTALS),
    "sliding": ORDERS.window(ev.sliding("1 minute", every="20 seconds")).agg(**TOTALS, p=ev.quantile("price", 0.9)),
    "sessions": ORDERS.window(ev.sessions("3 seconds"))
    .emit(allowed_lateness="20 seconds", mode="retracting")
    .agg(**TOTALS),
    "triggers": ORDERS.window(ev.tumbling("1 minute"))
    .trigger(
        ev.after_watermark(early=ev.on_update(), late=ev.on_update()), allowed_lateness="1 minute", mode="retracting"
    )
    .agg(**TOTALS, shops=ev.collect_set("till")),
    "rows": ev.stream(time="ts", key="shop").window(ev.rows(50)).agg(**TOTALS),
    "global": ev.stream(time="ts", watermark=ev.no_watermark())
    .window(ev.global_window())
    .agg(n=ev.count(), m=ev.mean("price")),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_the_same_bundles_give_the_same_panes_as_in_process(spark: SparkSession, tmp_path: Path, name: str) -> None:
    pipeline = PIPELINES[name]
    stream = Stream(spark, tmp_path).put(*BUNDLES)
    stream.run(pipeline, drain=True)
    local = pipeline.local(BUNDLES)
    assert comparable(stream.all("panes")) == comparable(local.panes)
    assert stream.all("late").height == local.late.height
    assert stream.all("dead").height == local.dead.height
    assert sum(batch.rows for batch in stream.metrics) == sum(bundle.height for bundle in BUNDLES)
    assert sum(batch.kept for batch in stream.metrics) == local.metrics.kept
    assert all(batch.balanced for batch in stream.metrics)


def test_a_batch_gives_the_final_table_of_the_drained_stream(spark: SparkSession) -> None:
    frame = pl.concat([bundle(0), bundle(1)]).filter(pl.col("ts").is_not_null())
    rows = spark.createDataFrame(frame.to_arrow(compat_level=pl.CompatLevel.oldest()))
    for name in ("tumbling", "sliding", "sessions", "triggers", "global"):
        panes = pl.DataFrame(pl.from_arrow(rows.transform(PIPELINES[name]).toArrow()))
        query = PIPELINES[name].start_local(frame.schema)
        query.push(frame, now=START, watermark="9999-01-01T00:00:00Z")
        query.drain()
        columns = [column for column in panes.columns if column not in (*PANE, "diff")]
        assert _table(panes, columns) == _table(query.result.panes, columns), name


def _table(panes: pl.DataFrame, columns: list[str]) -> list[str]:
    kept = panes.filter(pl.col("diff") > 0).select(columns)
    return sorted(map(repr, kept.to_dicts()))


def test_a_query_continues_where_it_was_stopped(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = PIPELINES["triggers"]
    stream = Stream(spark, tmp_path).put(*BUNDLES[:3])
    stream.run(pipeline)
    stream.put(*BUNDLES[3:])
    stream.run(pipeline, drain=True)
    assert comparable(stream.all("panes")) == comparable(pipeline.local(BUNDLES).panes)


def test_panes_go_through_three_pipelines_in_one_query(spark: SparkSession, tmp_path: Path) -> None:
    first = PIPELINES["triggers"]
    second = (
        ev.stream(time="window_time")
        .window(ev.inherit())
        .emit(mode="retracting")
        .agg(shops=ev.count(), all=ev.sum("total"))
    )
    third = (
        ev.stream(time="window_time")
        .window(ev.tumbling("2 minutes"))
        .trigger(ev.after_watermark(early=ev.on_update()), mode="accumulating")
        .agg(comparable=ev.count(), most=ev.max("all"))
    )
    stream = Stream(spark, tmp_path).put(*BUNDLES)
    stream.run(first.then(second).then(third), drain=True)
    local = first.then(second).then(third).local(BUNDLES)
    assert comparable(stream.all("panes")) == comparable(local.panes)


def test_expressions_of_spark_are_columns(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = (
        ev.stream(
            time=F.col("ts") + F.expr("INTERVAL 1 HOUR"),
            key=F.upper("shop").alias("where"),
            watermark=ev.no_watermark(),
        )
        .window(ev.tumbling("1 minute"))
        .agg(cents=ev.sum(F.col("price") * 100))
    )
    frame = BUNDLES[0].filter(pl.col("ts").is_not_null())
    stream = Stream(spark, tmp_path).put(frame)
    stream.run(pipeline, drain=True)
    panes = stream.all("panes")
    assert panes["cents"].sum() == frame["price"].sum() * 100
    assert set(panes["where"].drop_nulls()) == {"KIEL", "BONN", "KÖLN"}
    assert panes["window_start"].min() >= START + timedelta(minutes=57)


KEYS = {
    "text": pl.Series(["a", "b", None, "a"]),
    "long text": pl.Series(["x" * 100, "x" * 99 + "y", "", "x" * 100]),
    "decimal": pl.Series(["1.50", "2.25", None, "1.5"]).cast(pl.Decimal(20, 2)),
    "date": pl.Series([date(2026, 1, 1), date(2026, 1, 2), None, date(2026, 1, 1)]),
    "timestamp": pl.Series([START, START + timedelta(seconds=1), None, START]).cast(pl.Datetime("us", "UTC")),
    "timestamp without zone": pl.Series([datetime(2026, 1, 1), datetime(2026, 1, 2), None, datetime(2026, 1, 1)]),
    "binary": pl.Series([b"a", b"b", None, b"a"]),
    "bool": pl.Series([True, False, None, True]),
    "byte": pl.Series([1, 2, None, 1], dtype=pl.Int8),
    "long": pl.Series([2**60, -(2**60), None, 2**60]),
    "float": pl.Series([0.0, float("nan"), None, -0.0], dtype=pl.Float32),
    "double": pl.Series([float("nan"), 1.0, None, -float("nan")]),
    "struct": pl.Series([{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": None, "b": None}, {"a": 1, "b": "x"}]),
    "list": pl.Series([[1, 2], [2, 1], [], [1, 2]]),
}


@pytest.mark.parametrize("name", KEYS)
def test_a_key_may_be_of_any_type_that_can_be_grouped(spark: SparkSession, name: str) -> None:
    frame = pl.DataFrame({"ts": [START] * 4, "key": KEYS[name], "v": [Decimal(1), Decimal(2), Decimal(3), Decimal(4)]})
    rows = spark.createDataFrame(frame.to_arrow(compat_level=pl.CompatLevel.oldest()))
    per_key = ev.stream(time="ts", key="key").window(ev.tumbling("1 minute")).agg(n=ev.count(), total=ev.sum("v"))
    panes = rows.transform(per_key)
    theirs = rows.groupBy("key").agg(F.count("*").alias("n"), F.sum("v").alias("total"))
    assert dict(panes.dtypes)["key"] == dict(rows.dtypes)["key"]
    ours = sorted(map(repr, panes.select("key", "n", F.col("total").cast("int")).collect()))
    assert ours == sorted(map(repr, theirs.select("key", "n", F.col("total").cast("int")).collect()))
