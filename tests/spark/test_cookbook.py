"""The jobs of the cookbook on Spark: the table that each keeps is what the same rows give in process."""

from __future__ import annotations

import ast
import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

import eventide as ev
from tests.docs.cookbook import JOBS, Job
from tests.spark.running import Stream
from tests.spark.test_deadlines import until

ON_SPARK = {job.page: job for job in JOBS if job.on_spark}


def started(job: Job, names: dict[str, Any], home: Path) -> Any:
    """Run the code of a page. Return the query that its last line starts."""
    # Paths of the pages are relative, and the Spark of all tests has another working directory.
    code = re.sub(r'"(sqlite:///|)(\w+\.db#|checkpoints/|data/)', rf'"\1{home}/\2', job.on_spark)
    *before, last = ast.parse(code).body
    assert isinstance(last, ast.Expr)
    exec(compile(ast.Module(before, []), "page", "exec"), names)
    return eval(compile(ast.Expression(last.value), "page", "eval"), names)


def finish(query: Any) -> None:
    query.process_all_available()
    query.control.wait(query.control.drain())
    query.process_all_available()
    query.stop()


def plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row with its times to the second: SQLite has them as text."""
    texts = (value.isoformat() if isinstance(value, datetime) else value for value in row)
    return tuple(value[:19] if isinstance(value, str) and "T" in value[10:11] else value for value in texts)


def table(home: Path, name: str, columns: list[str]) -> list[tuple[Any, ...]]:
    (path,) = home.glob("*.db")
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute(f"SELECT {', '.join(columns)} FROM {name}").fetchall()
    return sorted(map(plain, rows))


def sum_of_diffs(panes: pl.DataFrame) -> pl.DataFrame:
    columns = [name for name in panes.columns if not name.startswith(("pane_", "emitted_at", "window_time", "diff"))]
    return panes.group_by(columns).agg(pl.col("diff").sum()).filter(pl.col("diff") != 0).select(columns)


def check(home: Path, job: Job, expected: pl.DataFrame) -> None:
    assert expected.height
    assert table(home, job.pipeline, expected.columns) == sorted(map(plain, expected.rows()))


def frames(value: Any) -> list[pl.DataFrame]:
    bundles = list(value.iter_slices(1)) if isinstance(value, pl.DataFrame) else value
    return [bundle for bundle in bundles if bundle.height]


@pytest.mark.parametrize("page", [page for page in ON_SPARK if page not in ("backfill-then-live", "silent-keys")])
def test_the_table_of_a_job_is_the_sum_of_its_diffs_in_process(
    page: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = ON_SPARK[page]
    names = job.run()
    bundles = names["bundles"] if "bundles" in names else names["rows"]
    local = bundles if isinstance(bundles, dict) else frames(bundles)
    sources = {
        name: Stream(spark, tmp_path / name).put(*frames(names[source] if source in names else bundles[source])).rows
        for name, source in job.rows.items()
    }
    monkeypatch.setattr(ev, "scan_kafka", lambda topic, servers, schema: sources[topic], raising=False)
    finish(started(job, names | sources, tmp_path))
    check(tmp_path, job, sum_of_diffs(names[job.pipeline].local(local).panes))


def test_a_backfill_reads_the_files_that_exist_and_then_those_that_arrive(spark: SparkSession, tmp_path: Path) -> None:
    job = ON_SPARK["backfill-then-live"]
    names = job.run()
    source = tmp_path / "data/orders"
    source.mkdir(parents=True)
    names["past"].write_parquet(source / "past.parquet")
    query = started(job, names, tmp_path)
    query.process_all_available()
    names["live"].write_parquet(tmp_path / "live.parquet")
    (tmp_path / "live.parquet").rename(source / "live.parquet")
    finish(query)
    check(tmp_path, job, sum_of_diffs(names["revenue"].local(names["bundles"]).panes))


def test_an_early_result_is_in_the_table_before_the_window_is_complete(spark: SparkSession, tmp_path: Path) -> None:
    job = ON_SPARK["early-results"]
    names = job.run()
    first, *others = frames(names["rows"])
    stream = Stream(spark, tmp_path / "orders").put(first)
    query = started(job, names | {"orders": stream.rows}, tmp_path)
    query.process_all_available()
    until(lambda: early(query) and table(tmp_path, "live", ["total", "pane_timing"]) == [(5, "EARLY")])
    stream.put(*others)
    finish(query)
    check(tmp_path, job, sum_of_diffs(names["live"].local(frames(names["rows"])).panes))


def early(query: Any) -> int:
    return sum(batch.panes.get("EARLY", 0) for batch in query.history)


def test_keys_that_are_silent_now_are_reported(spark: SparkSession, tmp_path: Path) -> None:
    job = ON_SPARK["silent-keys"]
    names = job.run()
    # Its watermark follows the clock, five minutes behind: now the pump has been silent for ten minutes.
    passed = datetime.now(UTC) - datetime(2026, 3, 1, 12, 15, 1, tzinfo=UTC)
    shifted = pl.col("ts").str.to_datetime(time_zone="UTC") + timedelta(seconds=passed.total_seconds())
    rows = pl.concat(frames(names["bundles"])).with_columns(shifted)
    readings = Stream(spark, tmp_path / "readings").put(rows).rows
    query = started(job, names | {"readings": readings}, tmp_path)
    query.process_all_available()
    assert ("pump",) in table(tmp_path, "silent", ["device"])  # nobody has drained the query
    finish(query)
    expected = sum_of_diffs(names["silent"].local(rows).panes)
    check(tmp_path, job, expected)
    assert sorted(expected["device"].to_list()) == ["fan", "pump"]
