"""What should not happen, and does: other columns, no origin, a checkpoint that was damaged, a disk that is full.

Either every row is accounted for, or the query stops with a reason; when the cause is gone, it goes on.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import SparkSession

import eventide as ev
from tests.spark.running import Stream, comparable
from tests.spark.test_query import rows

pytestmark = pytest.mark.long  # many queries that fail and start again

PIPELINE = (
    ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("10 seconds"))
    .window(ev.tumbling("1 minute"))
    .agg(n=ev.count(), total=ev.sum("price"))
)
FIRST, SECOND, THIRD = (
    rows((10, "kiel", 1), (20, "bonn", 2)),
    rows((70, "kiel", 3), (80, "ulm", 4)),
    rows((150, "kiel", 5)),
)


def expected(*bundles: pl.DataFrame) -> object:
    return comparable(PIPELINE.local(list(bundles)).panes)


def test_a_column_that_is_gone_makes_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path).put(FIRST).put(SECOND.drop("ts"))
    stream._schema = stream.put(THIRD)._schema
    stream.run(PIPELINE, drain=True)
    assert comparable(stream.all("panes")) == expected(FIRST, THIRD)
    assert stream.all("dead")["ev_reason"].to_list() == ["null_time"] * 2
    assert sum(batch.rows for batch in stream.metrics) == 5


def test_a_column_of_another_type_stops_the_query_until_it_is_fixed(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path).put(FIRST).put(SECOND.with_columns(pl.lit("much").alias("price"))).put(THIRD)
    with pytest.raises(Exception, match="price"):
        stream.run(PIPELINE, drain=True)
    wrong = tmp_path / "in" / "00001.parquet"
    when = wrong.stat().st_mtime_ns
    SECOND.write_parquet(wrong)
    assert wrong.stat().st_mtime_ns != when
    stream.run(PIPELINE, drain=True)
    assert comparable(stream.all("panes")) == expected(FIRST, SECOND, THIRD)


def test_rows_without_an_origin_are_an_origin_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    nobody = pl.lit(None, pl.String).alias("device")
    bundles = [
        FIRST.with_columns(pl.lit("a").alias("device")),
        SECOND.with_columns(nobody),
        THIRD.with_columns(pl.lit("a").alias("device")),
    ]
    keyed = ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("10 seconds", origin="device"))
    pipeline = keyed.window(ev.tumbling("1 minute")).agg(n=ev.count())
    stream = Stream(spark, tmp_path).put(*bundles)
    stream.run(pipeline, drain=True)
    local = pipeline.local(bundles)
    assert comparable(stream.all("panes")) == comparable(local.panes)
    assert sum(batch.rows for batch in stream.metrics) == 5


@pytest.mark.parametrize("damage", ["torn", "deleted"])
def test_a_damaged_state_store_stops_the_query(spark: SparkSession, tmp_path: Path, damage: str) -> None:
    stream = Stream(spark, tmp_path).put(FIRST, SECOND)
    stream.run(PIPELINE, state="executors")
    before = comparable(stream.all("panes"))
    copy = tmp_path / "copy"
    shutil.copytree(stream.checkpoint, copy)
    for file in copy.glob("state/0/*/2_*.changelog"):
        if damage == "deleted":
            file.unlink()
        else:
            file.write_bytes(file.read_bytes()[:-40])
    stream.put(THIRD)
    with pytest.raises(Exception, match=r"(?i)changelog|check ?sum|corrupt|does not exist"):
        stream.run(PIPELINE, checkpoint=str(copy), drain=True, state="executors")
    assert comparable(stream.all("panes")) == before
    stream.run(PIPELINE, drain=True, state="executors")
    assert comparable(stream.all("panes")) == expected(FIRST, SECOND, THIRD)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of some hundred kilobytes."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(place)], capture_output=True)
    if mount.returncode:
        pytest.skip("a small disk takes the right to mount one, which this user does not have")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_is_full_stops_the_query_until_there_is_room(
    spark: SparkSession, tmp_path: Path, small_disk: Path
) -> None:
    stream = Stream(spark, tmp_path).put(FIRST)
    stream.checkpoint = str(small_disk / "checkpoint")
    stream.run(PIPELINE)
    with pytest.raises(OSError, match="No space left"), (small_disk / "filler").open("wb") as filler:
        while True:
            filler.write(b"x" * 4096)
            filler.flush()
    stream.put(SECOND, THIRD)
    with pytest.raises(Exception, match="No space left on device"):
        stream.run(PIPELINE)
    (small_disk / "filler").unlink()
    stream.run(PIPELINE, drain=True)
    assert comparable(stream.all("panes")) == expected(FIRST, SECOND, THIRD)
