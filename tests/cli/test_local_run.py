"""``eventide run --local``: jobs over files, in this process and without Java."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import Result

from tests.cli.typed import typed

JOB = """
import eventide as ev

orders = ev.stream("ts", key="shop", watermark="30 seconds")
minutes = orders.window(ev.tumbling("1 minute"))
revenue = minutes.agg(orders=ev.count(), total=ev.sum("price"), prices=ev.collect_list("price"))
pairs = ev.join(orders, orders, within="1 minute")
"""
SQL = """
CREATE STREAM orders WATERMARK FOR ts AS ts - INTERVAL '30' SECOND;
SELECT shop, window_end, SUM(price) AS total FROM TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE)
GROUP BY shop, window_start, window_end
"""
ROWS = [("2026-03-01T12:00:05Z", "kiel", 3), ("2026-03-01T12:00:40Z", "kiel", 4), ("2026-03-01T12:01:10Z", "bonn", 5)]


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*words: Any, **options: Any) -> None:
        raise AssertionError("Spark would have been started.")

    monkeypatch.setattr("eventide.cli.spark_options.open_session", started)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.py").write_text(JOB, encoding="utf-8")
    rows = pl.DataFrame(ROWS, schema=["ts", "shop", "price"], orient="row")
    (tmp_path / "data").mkdir()
    rows.head(1).write_parquet(tmp_path / "data" / "0.parquet")
    rows.tail(2).write_parquet(tmp_path / "data" / "1.parquet")
    rows.write_ndjson(tmp_path / "orders.json")
    rows.write_csv(tmp_path / "orders.csv")
    return tmp_path


def run(*words: str) -> Result:
    done = typed("run", "job.py:revenue", *words, "--local")
    assert done.exit_code == 0, done.stderr
    return done


@pytest.mark.parametrize("source", ["data/", "parquet:data", "data/*.parquet", "orders.json", "orders.csv?header=true"])
def test_files_of_every_format_are_read(place: Path, source: str) -> None:
    done = run(source)
    assert "panes, batch 0: 2 rows" in done.stdout and "[3,4]" in done.stdout
    assert "3 rows, 0 late, 0 dead letters" in done.stderr


def test_the_console_prints_as_many_rows_as_the_limit(place: Path) -> None:
    assert "1 of 2 rows" in run("data/", "--limit", "1").stdout


def test_a_table_equals_the_panes_also_after_a_second_run(place: Path) -> None:
    for _ in range(2):
        run("data/", "--sink", "sqlite:///panes.db#revenue")
    with closing(sqlite3.connect(place / "panes.db")) as database:
        rows = database.execute("SELECT shop, orders, total, prices FROM revenue ORDER BY shop").fetchall()
    assert rows == [("bonn", 1, 5, "[5]"), ("kiel", 2, 7, "[3,4]")]


def test_panes_are_written_to_parquet_files(place: Path) -> None:
    run("data/", "--sink", "out/panes/")
    assert sorted(pl.read_parquet(place / "out" / "panes" / "**" / "*.parquet")["total"]) == [5, 7]


def test_a_statement_runs_without_spark(place: Path) -> None:
    done = typed("sql", SQL, "data/", "--local")
    assert done.exit_code == 0, done.stderr
    assert "2026-03-01T12:01:00Z" in done.stdout and "kiel" in done.stdout


def test_several_inputs_have_names(place: Path) -> None:
    done = typed("run", "job.py:pairs", "left=data/", "right=orders.json", "--local", "--sink", "noop")
    assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "job.py has no source without Spark"),
        (["rate:1"], "cannot be read without Spark"),
        (["kafka:orders@a:9092"], "cannot be read without Spark"),
        (["orders.csv?multiLine=true"], "the option 'multiLine' cannot be used without Spark"),
        (["nowhere/"], "There are no files in 'nowhere/'"),
        (["job.py"], "there is no kind 'job.py'"),
        (["parquet:orders.csv"], "'orders.csv' cannot be read"),
        (["data/", "--sink", "kafka:panes@a:9092"], "is written by Spark. With --local the sinks are: console, noop"),
    ],
)
def test_what_needs_spark_is_rejected(place: Path, words: list[str], message: str) -> None:
    result = typed("run", "job.py:revenue", *words, "--local")
    assert result.exit_code == 2 and message in result.stderr, result.stderr
