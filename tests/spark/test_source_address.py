"""Sources and sinks by their addresses, in ``pipeline.run``."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import SparkSession

import eventide as ev
from eventide._addresses import read_address
from eventide.spark.sources import read_rows, source_at

MINUTES = ev.stream("ts", key="shop", watermark="30 seconds").window(ev.tumbling("1 minute"))
COUNTS = MINUTES.agg(n=ev.count())
ROWS = pl.DataFrame({"ts": ["2026-03-01T12:00:00Z", "2026-03-01T12:00:30Z"], "shop": ["kiel", "kiel"]})


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("in", "more"):
        (tmp_path / name).mkdir()
        ROWS.write_parquet(tmp_path / name / "0.parquet")
    (tmp_path / "csv").mkdir()
    ROWS.write_csv(tmp_path / "csv" / "0.csv")
    return tmp_path


def test_a_query_runs_from_an_address_to_an_address(spark: SparkSession, place: Path) -> None:
    sink = f"sqlite:///{place}/shop.db#counts"
    COUNTS.run(f"{place}/in", sink=sink, checkpoint=place / "checkpoint", drain=True)
    with closing(sqlite3.connect(place / "shop.db")) as database:
        assert database.execute("SELECT shop, n FROM counts").fetchall() == [("kiel", 2)]


def test_inputs_are_addresses_by_their_names(spark: SparkSession, place: Path) -> None:
    clicks = ev.stream("ts", watermark="30 seconds")
    both = ev.union(web=clicks, shop=clicks).window(ev.tumbling("1 minute")).agg(n=ev.count())
    sink = f"{place}/out/"
    both.run({"web": f"{place}/in", "shop": f"{place}/more"}, sink=sink, checkpoint=place / "checkpoint", drain=True)
    assert pl.read_parquet(f"{place}/out/**/*.parquet")["n"].to_list() == [4]


def test_options_of_an_address_reach_the_reader(spark: SparkSession, place: Path) -> None:
    table = source_at(spark, read_address(f"csv:{place}/csv?header=true", "source"), streaming=False)
    assert table.columns == ["ts", "shop"] and table.count() == 2  # type: ignore[union-attr]


def test_an_address_that_is_none_is_rejected(spark: SparkSession) -> None:
    with pytest.raises(ev.PlanError, match="Did you mean 'parquet'"):
        read_rows("parket:/in")
    with pytest.raises(ev.PlanError, match="console is no source"):
        read_rows({"left": "console"})


def test_a_spark_without_its_connector_says_what_to_add(spark: SparkSession) -> None:
    with pytest.raises(ev.PlanError, match=r"does not have its Kafka connector.*spark\.jars\.packages"):
        ev.scan_kafka("orders", servers=["a:9092", "b:9092"], schema="ts timestamp")


@pytest.mark.parametrize(("topic", "servers"), [("", "a:9092"), ("orders", []), ("orders", [5])])
def test_topics_and_servers_have_names(spark: SparkSession, topic: str, servers: list[str]) -> None:
    with pytest.raises(ev.PlanError, match=r"scan_kafka\(\): (topic|servers) is"):
        ev.scan_kafka(topic, servers=servers)
