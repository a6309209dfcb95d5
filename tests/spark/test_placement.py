"""What a query shows of its placement, and how rows reach the driver when Python workers lack Eventide."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from eventide.spark.driver_input import row_pieces, workers_have_eventide
from tests.spark.running import Stream
from tests.spark.test_driver_state import BUNDLES, ROOT, WINDOWS


def test_the_log_and_explain_show_where_state_is_and_how_rows_travel(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stream = Stream(spark, tmp_path).put(BUNDLES[0])
    with caplog.at_level(logging.INFO, logger="eventide"):
        query = stream.run(WINDOWS, state="driver", state_memory="2g", name="orders")
    (line,) = [record.getMessage() for record in caplog.records if record.name == "eventide"]
    assert line == (
        "Starting the query 'orders': state: driver, up to 2.0 GB in memory, transport: rows up to 64 MB, then stamps, "
        "columns: 3 of 4; late rows have the columns that the plan reads, batches: when there is data"
    )
    assert query.explain().startswith(WINDOWS.explain())
    assert "\n    state  driver, up to 2.0 GB in memory\ntransport  rows up to 64 MB, then stamps\n" in query.explain()


def test_state_on_the_executors_is_shown_too(spark: SparkSession, tmp_path: Path) -> None:
    query = Stream(spark, tmp_path).put(BUNDLES[0]).run(WINDOWS, state="executors")
    assert "\n    state  executors, in 2 buckets, for up to 2 cores\n" in query.explain()


def test_pieces_are_the_rows_of_the_batch_in_their_order(spark: SparkSession) -> None:
    rows = spark.range(0, 1000, 1, 4).selectExpr(
        "id",
        "timestamp_micros(id * 1000003) AS ts",
        "if(id % 7 = 0, NULL, concat('shop ', id % 5)) AS shop",
        "cast(id AS decimal(20, 3)) / 7 AS price",
        "named_struct('a', array(id, NULL), 'b', id % 2 = 0) AS nested",
    )
    pieces = list(row_pieces(rows, size=1))
    assert len(pieces) >= 4
    assert pa.concat_tables(pieces).cast(rows.toArrow().schema).equals(rows.toArrow())
    (whole,) = row_pieces(rows)
    assert whole.num_rows == 1000
    assert list(row_pieces(rows.where("false"))) == []


def test_workers_of_this_session_have_eventide(spark: SparkSession) -> None:
    assert workers_have_eventide(spark)


WITHOUT = """
import sys
from pyspark.sql import SparkSession
import eventide as ev
from eventide.spark import driver_input
from tests.spark.test_driver_state import WINDOWS
place, driver_input._LARGE = sys.argv[1], -1
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.readStream.schema(spark.read.parquet(f"{place}/in").schema).option("maxFilesPerTrigger", 1)
WINDOWS.run(rows.parquet(f"{place}/in"), sink=ev.sinks.files(f"{place}/out"), checkpoint=f"{place}/checkpoint",
            drain=True, state="driver")
"""


@pytest.mark.long
def test_a_query_runs_with_python_workers_that_have_another_eventide(spark: SparkSession, tmp_path: Path) -> None:
    Stream(spark, tmp_path).put(*BUNDLES)
    (tmp_path / "packages" / "eventide").mkdir(parents=True)
    (tmp_path / "packages" / "eventide" / "__init__.py").touch()
    worker = tmp_path / "python"
    worker.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path}/packages:$PYTHONPATH exec {sys.executable} "$@"\n')
    worker.chmod(0o755)
    env = {**os.environ, "PYSPARK_PYTHON": str(worker), "PYSPARK_DRIVER_PYTHON": sys.executable}
    env |= {"PYTHONPATH": f"{ROOT}/src:{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(tmp_path)], capture_output=True, text=True, env=env, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "The Python workers cannot import Eventide" in done.stderr
    panes = pl.read_parquet(tmp_path / "out" / "**" / "*.parquet")
    assert panes["total"].sum() == WINDOWS.local(BUNDLES).panes["total"].sum()
