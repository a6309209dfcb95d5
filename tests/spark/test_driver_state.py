"""State in the driver, on a real Spark: what the session needs, what a repeated batch does, and how rows travel."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

import eventide as ev
from eventide.spark import driver_input
from eventide.spark import driver_scan as scan_input
from eventide.time import instant
from tests.spark.running import Stream, comparable

ROOT = Path(__file__).parents[2]
START = instant("2026-03-01T12:00:00Z")
WINDOWS = (
    ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("10 seconds"))
    .window(ev.tumbling("1 minute"))
    .trigger(
        ev.after_watermark(early=ev.on_update(), late=ev.on_update()), allowed_lateness="1 minute", mode="retracting"
    )
    .agg(n=ev.count(), total=ev.sum("price"))
)


def rows(*seconds: int) -> pl.DataFrame:
    """A row at each second."""
    times = pl.Series([START + second * 1_000_000 for second in seconds]).cast(pl.Datetime("us", "UTC"))
    shops = [f"shop {second % 3}" for second in seconds]
    return pl.DataFrame({"ts": times, "shop": shops, "price": [*seconds], "note": "unread"})


BUNDLES = [rows(*range(40)), rows(*range(35, 90)), rows(5, 100, 130), rows(70, 200)]


def test_both_placements_emit_the_same_panes(spark: SparkSession, tmp_path: Path) -> None:
    emitted = []
    for state in ("executors", "driver"):
        stream = Stream(spark, tmp_path / state).put(*BUNDLES)
        stream.run(WINDOWS, drain=True, state=state)
        emitted.append(
            (comparable(stream.all("panes")), stream.all("late").height, [batch.kept for batch in stream.metrics])
        )
    assert emitted[0] == emitted[1]


@pytest.mark.parametrize("large", [False, True], ids=["rows", "stamps"])
def test_results_do_not_depend_on_how_rows_travel(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    monkeypatch.setattr(driver_input, "_LARGE", -1 if large else 1 << 40)
    stream = Stream(spark, tmp_path).put(*BUNDLES)
    stream.run(WINDOWS, drain=True, state="driver")
    assert comparable(stream.all("panes")) == comparable(WINDOWS.local(BUNDLES).panes)


@pytest.mark.parametrize("how", ["driver", "parts", "tasks"])
def test_results_do_not_depend_on_who_reads_a_scan(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if how == "parts":
        monkeypatch.setattr(scan_input, "_PART", 100)
        monkeypatch.setattr(scan_input, "machine_cores", lambda: 3)
    if how == "tasks":
        monkeypatch.setattr(scan_input.ScanInput, "_reads", lambda *_: False)
    stream = Stream(spark, tmp_path).put(*BUNDLES)
    scan = ev.scan_parquet(str(tmp_path / "in"), files_per_batch=1, spark=spark)
    stream.run(WINDOWS, scan, drain=True)
    assert comparable(stream.all("panes")) == comparable(WINDOWS.local(BUNDLES).panes)


def test_each_input_of_a_join_reads_its_own_files(spark: SparkSession, tmp_path: Path) -> None:
    orders = ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("10 seconds"))
    visits = ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("10 seconds"))
    pairs = ev.join(orders, visits, within="0 seconds")
    stream = Stream(spark, tmp_path).put(rows(1, 2, 3))
    other = Stream(spark, tmp_path / "visits").put(rows(2, 3, 4), rows(200))
    scans = [ev.scan_parquet(str(place / "in"), files_per_batch=1, spark=spark) for place in (tmp_path, other.place)]
    stream.run(pairs, scans, drain=True)
    assert sorted(stream.all("panes")["price"].to_list()) == [2, 3]
    assert sum(metrics.rows for metrics in stream.metrics) == 7


def test_a_batch_larger_than_spark_collects_is_stamped_by_tasks(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path).put(*BUNDLES)
    tasks: list[str] = []
    collect = driver_input.BatchRows._collect_large

    def fails(batch: Any, *arguments: Any) -> Any:
        tasks.append("stamped")
        return collect(batch, *arguments)

    def too_large(batch: Any) -> Any:
        raise RuntimeError("Total size of serialized results is bigger than spark.driver.maxResultSize")

    from pyspark.sql.classic.dataframe import DataFrame

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver_input.BatchRows, "_collect_large", fails)
        real = DataFrame.toArrow

        def once(batch: Any) -> Any:
            return too_large(batch) if "e0c0" in batch.columns else real(batch)

        patch.setattr(DataFrame, "toArrow", once)
        stream.run(WINDOWS, drain=True, state="driver")
    assert tasks and comparable(stream.all("panes")) == comparable(WINDOWS.local(BUNDLES).panes)


def test_late_rows_have_the_columns_that_the_plan_reads_or_all(spark: SparkSession, tmp_path: Path) -> None:
    columns = []
    for whole in (False, True):
        stream = Stream(spark, tmp_path / str(whole)).put(rows(0, 200), rows(1))
        stream.run(WINDOWS, state="driver", whole_rows=whole)
        columns.append(set(stream.all("late").columns) & {"ts", "shop", "price", "note"})
    assert columns == [{"ts", "shop", "price"}, {"ts", "shop", "price", "note"}]


def test_late_rows_tell_where_the_source_has_them_and_explain_what_that_costs(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = Stream(spark, tmp_path).put(rows(0, 200), rows(201, 1, 2))
    query = stream.run(WINDOWS, stream.rows.where("price < 1000"), state="driver", source_position=True)
    late = stream.all("late").sort("price").select("price", "ev_source_file", "ev_source_row").rows()
    assert [(price, Path(file).name, row) for price, file, row in late] == [
        (1, "00001.parquet", 1),
        (2, "00001.parquet", 2),
    ]
    assert (
        "columns  3 of 4, and 2 for the position in the source; late rows have the columns that the plan reads, and "
        "their position\n"
    ) in query.explain()


@pytest.mark.parametrize("source", ["json", "union", "rate"])
def test_spark_logs_no_error_when_a_source_has_no_row_numbers(
    spark: SparkSession, tmp_path: Path, source: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "in").mkdir()
    files = spark.readStream.schema("ts timestamp, shop string, price long").json(str(tmp_path / "in"))
    rate = spark.readStream.format("rate").load().selectExpr("timestamp AS ts", "'kiel' AS shop", "value AS price")
    streams = {"json": files, "union": files.union(files), "rate": rate}
    logger = PySparkLogger.getLogger("DataFrameQueryContextLogger")  # for queries that Spark rejects
    logger.addHandler(caplog.handler)
    try:
        query = WINDOWS.run(
            streams[source],
            sink=ev.sinks.files(tmp_path / "out"),
            checkpoint=tmp_path / "checkpoint",
            source_position=True,
        )
        query.stop()
    finally:
        logger.removeHandler(caplog.handler)
    assert caplog.records == []
    assert ("the source has no positions" in query.explain()) == (source != "json")


def test_a_source_without_positions_changes_nothing_and_taken_names_are_rejected(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = Stream(spark, tmp_path).put(rows(0, 200), rows(1))
    both = stream.rows.union(stream.rows.where("false"))
    query = stream.run(WINDOWS, both, state="driver", source_position=True)
    assert not {"ev_source_file", "ev_source_row"} & set(stream.all("late").columns)
    assert "late rows have the columns that the plan reads, and the source has no positions\n" in query.explain()
    named = Stream(spark, tmp_path / "named").put(rows(0, 200).with_columns(ev_source_row=pl.lit("mine")))
    with pytest.raises(ev.PlanError, match=r"columns that Eventide adds to late rows.*'ev_source_row'"):
        named.run(WINDOWS, state="driver", source_position=True, whole_rows=True)


def test_a_checkpoint_stays_with_its_placement(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path).put(rows(10, 20))
    stream.run(WINDOWS, state="driver")
    with pytest.raises(ev.PlanError, match=r"is in the driver, and the query starts with state='executors'"):
        stream.run(WINDOWS, state="executors")


def test_a_placement_that_does_not_exist_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path).put(rows(10))
    with pytest.raises(ev.PlanError, match=r"run\(state='auto'\): state is kept in the 'driver' or on the 'executors'"):
        stream.run(WINDOWS, state="auto")


def test_state_in_the_driver_is_inspected_without_spark(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path).put(rows(10, 80))
    stream.run(WINDOWS, state="driver")
    code = f"import eventide as ev; print(ev.inspect({stream.checkpoint!r})[0].watermark_us)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT / "src", check=True)
    assert int(done.stdout) == START + 70 * 1_000_000


PLAIN = """
import sys
from pyspark.sql import SparkSession
import eventide as ev
from tests.spark.test_driver_state import WINDOWS
place = sys.argv[1]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.readStream.schema(spark.read.parquet(f"{place}/in").schema).parquet(f"{place}/in")
WINDOWS.run(rows, sink=ev.sinks.files(f"{place}/out"), checkpoint=f"{place}/checkpoint", drain=True, state="driver")
"""


@pytest.mark.long
def test_a_session_with_nothing_configured_and_neither_pandas_nor_protobuf_will_do(
    spark: SparkSession, tmp_path: Path
) -> None:
    Stream(spark, tmp_path).put(rows(*range(40)))
    for package in ("pandas", "google/protobuf"):
        (tmp_path / "absent" / package).mkdir(parents=True)
        (tmp_path / "absent" / package / "__init__.py").write_text("raise ModuleNotFoundError(__name__)")
    command = [sys.executable, "-c", PLAIN, str(tmp_path)]
    env = os.environ | {"PYTHONPATH": f"{tmp_path / 'absent'}:{ROOT / 'src'}:{ROOT}"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=180, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    panes = pl.read_parquet(tmp_path / "out" / "**" / "*.parquet", hive_partitioning=False)
    assert panes.select((pl.col("n") * pl.col("diff")).sum()).item() == 40


def test_a_flipped_byte_in_a_log_of_spark_is_noticed(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path).put(*BUNDLES)
    stream.run(WINDOWS)
    newest = max((tmp_path / "checkpoint/offsets").glob("[0-9]"))
    content = bytearray(newest.read_bytes())
    content[-3] ^= 1
    newest.write_bytes(content)
    stream.put(rows(300))
    with pytest.raises(Exception, match="Checksum error"):
        stream.run(WINDOWS)


def test_rows_that_go_to_a_writer_of_spark_keep_their_order(spark: SparkSession) -> None:
    from eventide.sinks.batch import SinkBatch

    batch = SinkBatch(pl.DataFrame({"n": range(50_000)}).to_arrow(), spark).dataframe
    assert batch.rdd.getNumPartitions() == 1
    assert batch.toArrow()["n"].to_pylist() == [*range(50_000)]
