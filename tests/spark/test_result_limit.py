"""Batches that are larger than Spark lets the driver collect in one job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import polars as pl
import pytest
from pyspark.sql import SparkSession

import eventide as ev
from eventide.spark import driver_input
from tests.spark.running import Stream
from tests.spark.test_driver_state import rows

NOTES = (
    ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("1 hour"))
    .window(ev.tumbling("1 day"))
    .agg(notes=ev.collect_list("note"))
)
BY_NOTE = ev.stream(time="ts", key="note", watermark=ev.bounded_delay("1 hour"))


def many_notes() -> pl.DataFrame:
    """Rows whose notes are 1.6 MB and cannot be compressed."""
    random = Random(3)
    notes = [random.randbytes(400).hex() for _ in range(2000)]
    return rows(*range(2000)).with_columns(note=pl.Series(notes))


@contextmanager
def result_limit(spark: SparkSession, limit: str) -> Iterator[None]:
    """Change the limit for the results of a job. Spark reads it whenever a stage starts."""
    settings = spark.sparkContext._jsc.sc().conf()
    before = settings.get("spark.driver.maxResultSize", "1g")
    settings.set("spark.driver.maxResultSize", limit)
    try:
        yield
    finally:
        settings.set("spark.driver.maxResultSize", before)


@pytest.mark.parametrize("large", [-1, 64 << 20], ids=["stamps", "rows, then stamps"])
def test_a_batch_whose_rows_and_pages_exceed_the_limit_of_results_is_collected_by_partitions(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: int
) -> None:
    monkeypatch.setattr(driver_input, "_LARGE", large)
    stream = Stream(spark, tmp_path).put(many_notes())
    apart = stream.rows.repartition(8, "note")
    with result_limit(spark, "600k"):
        stream.run(NOTES, apart, sink=ev.sinks.files(f"{tmp_path}/out"), drain=True, state="driver")
    notes = pl.read_parquet(tmp_path / "out" / "**" / "*.parquet")["notes"].to_list()
    assert sorted(note for window in notes for note in window) == many_notes()["note"].sort().to_list()


def test_state_of_executors_that_exceeds_the_limit_of_results_is_read_by_partitions(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = Stream(spark, tmp_path).put(many_notes())
    pipeline = BY_NOTE.window(ev.tumbling("1 day")).agg(n=ev.count())
    stream.run(pipeline, state="executors")
    with result_limit(spark, "1m"):
        (operator,) = ev.inspect(stream.checkpoint, pipeline=pipeline, spark=spark)
    assert operator.bytes > 1_500_000
    assert operator.windows is not None and operator.windows["keys"].to_list() == [2000]


def test_a_table_that_exceeds_the_limit_of_results_is_read_by_partitions(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = ev.window_join(BY_NOTE, BY_NOTE, window=ev.tumbling("1 day"), how="full")
    stream = Stream(spark, tmp_path).put(many_notes().head(10))
    many_notes().write_parquet(tmp_path / "table.parquet")
    table = spark.read.parquet(str(tmp_path / "table.parquet")).repartition(8, "note")
    with result_limit(spark, "600k"):
        sides = {"left": stream.rows, "right": table}
        stream.run(pipeline, sides, sink=ev.sinks.files(f"{tmp_path}/out"), drain=True, state="driver")
    assert pl.read_parquet(tmp_path / "out" / "**" / "*.parquet").height == many_notes().height


def test_a_partition_that_exceeds_the_limit_of_results_names_the_setting(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_input, "_LARGE", -1)
    stream = Stream(spark, tmp_path).put(many_notes())
    with (
        result_limit(spark, "100k"),
        pytest.raises(Exception, match=r"One partition of a batch is larger than spark\.driver\.maxResultSize"),
    ):
        stream.run(NOTES, stream.rows.coalesce(1), drain=True, state="driver")
