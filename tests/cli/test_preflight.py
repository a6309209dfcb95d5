"""Mistakes that ``run``, ``sql`` and ``replay`` report before Spark starts."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import Result

from tests.cli.typed import typed

JOB = """
import eventide as ev
sales = ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("1 m"))
pipeline = sales.window(ev.tumbling("1 minute")).agg(n=ev.count())
"""
JOIN = """
import eventide as ev
orders, payments = (ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("1 m")) for _ in range(2))
pipeline = ev.join(orders, payments, within="1 minute")
"""
TOTAL = """
import eventide as ev
pipeline = ev.stream(time="ts", watermark="1 m").window(ev.global_window()).agg(n=ev.count())
"""
SQL = """
CREATE STREAM sales WATERMARK FOR ts AS ts - INTERVAL '10' SECOND;
SELECT shop, COUNT(*) AS n FROM TUMBLE(sales, DESCRIPTOR(ts), INTERVAL '1' MINUTE)
GROUP BY shop, window_start, window_end
"""
STRETCH = ("--from", "2026-03-01T12:00Z", "--to", "2026-03-01T12:30Z")


class StartedError(Exception):
    """Spark would have been started."""


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*words: Any, **options: Any) -> None:
        raise StartedError

    monkeypatch.setattr("eventide.cli.spark_options.open_session", started)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with jobs, Parquet files, and a database with a table."""
    (tmp_path / "job.py").write_text(JOB, encoding="utf-8")
    (tmp_path / "join.py").write_text(JOIN, encoding="utf-8")
    (tmp_path / "total.py").write_text(TOTAL, encoding="utf-8")
    (tmp_path / "job.sql").write_text(SQL, encoding="utf-8")
    for name, columns in (("good", ("ts", "shop")), ("bad", ("time", "shop"))):
        (tmp_path / name).mkdir()
        rows = pl.DataFrame({columns[0]: [datetime(2026, 3, 1, tzinfo=UTC)], columns[1]: ["kiel"]})
        rows.write_parquet(tmp_path / name / "0.parquet")
    (tmp_path / "empty").mkdir()
    with closing(sqlite3.connect(tmp_path / "panes.db")) as database:
        database.execute("CREATE TABLE revenue (shop TEXT, window_start TEXT, window_end TEXT, n BIGINT)")
        database.execute("CREATE TABLE other (id BIGINT)")
    return tmp_path


def run(place: Path, job: str, *sources: str) -> Result:
    words = [source.replace("{place}", str(place)) for source in sources]
    return typed("run", str(place / job), "--sink", "noop", "--checkpoint", str(place / "checkpoint"), *words)


def starts(result: Result) -> bool:
    return "StartedError" in result.stderr


MISTAKES = [
    ("job.py", ["parquet:{place}/nowhere"], "There are no files in"),
    ("job.py", ["parquet:{place}/empty"], "There are no files in"),
    ("job.py", ["json:{place}/empty"], "There are no files in"),
    ("job.py", ["parquet:{place}/good/0.parquet"], "is a file"),
    ("job.py", ["parquet:{place}/bad"], "'ts'"),
    ("job.py", ["rows=parquet:{place}/good"], "the pipeline has one input, which has no name"),
    ("job.py", ["eventide:sqlite:///{place}/nowhere.db#orders"], "There is no store"),
    ("join.py", ["parquet:{place}/good"], "Give each its source: left=KIND:PLACE"),
    ("join.py", ["left=parquet:{place}/good", "rigth=parquet:{place}/good"], "Did you mean 'right'?"),
    ("join.py", ["left=parquet:{place}/good"], "The input 'right' has no source"),
    ("join.py", ["left=parquet:{place}/good", "right=parquet:{place}/bad"], "input 'right': "),
    ("job.sql", ["parquet:{place}/bad"], "ts"),
    ("job.sql", ["orders=parquet:{place}/good"], "there is no input 'orders'"),
    ("total.py", ["parquet:{place}/good"], "The global window is complete when the stream ends"),
]


@pytest.mark.parametrize(("job", "sources", "message"), MISTAKES)
def test_a_mistake_is_reported_before_spark_starts(place: Path, job: str, sources: list[str], message: str) -> None:
    result = run(place, job, *sources)
    assert result.exit_code == 2 and message in result.stderr, result.stderr
    assert not starts(result)


@pytest.mark.parametrize(
    ("job", "sources"),
    [
        ("job.py", ["parquet:{place}/good"]),
        ("job.py", ["json:{place}/empty?schema=ts timestamp, shop string"]),
        ("job.py", ["parquet:{place}/ba*"]),
        ("job.py", ["parquet:s3a://shop/orders"]),
        ("job.py", ["rate:1"]),
        ("join.py", ["left=parquet:{place}/good", "right=parquet:{place}/good"]),
        ("job.sql", ["parquet:{place}/good"]),
        ("total.py", ["parquet:{place}/good", "--drain"]),
        ("job.sql", ["sales=parquet:{place}/good"]),
    ],
)
def test_sources_that_fit_or_that_only_spark_knows_start_spark(place: Path, job: str, sources: list[str]) -> None:
    assert starts(run(place, job, *sources))


def test_columns_of_partitioned_directories_are_left_to_spark(place: Path) -> None:
    (place / "parted" / "shop=kiel").mkdir(parents=True)
    pl.DataFrame({"other": [1]}).write_parquet(place / "parted" / "shop=kiel" / "0.parquet")
    assert starts(run(place, "job.py", "parquet:{place}/parted"))


def test_bad_sql_is_reported_before_spark_starts(place: Path) -> None:
    result = typed("sql", "SELECT shop FROM", f"parquet:{place}/good")
    assert result.exit_code == 2 and not starts(result)


def test_an_unknown_column_in_sql_is_reported_before_spark_starts(place: Path) -> None:
    result = typed("sql", SQL.replace("shop", "shp"), f"parquet:{place}/good")
    assert result.exit_code == 2 and "shp" in result.stderr and not starts(result)


@pytest.mark.parametrize(
    ("job", "source", "sink", "message"),
    [
        ("job.sql", "good", "panes.db#revenue", "replay compares pipelines in Python"),
        ("join.py", "good", "panes.db#revenue", "this pipeline has none"),
        ("job.py", "nowhere", "panes.db#revenue", "There are no files"),
        ("job.py", "bad", "panes.db#revenue", "'ts'"),
        ("job.py", "good", "nowhere.db#revenue", "There is no table 'revenue'"),
        ("job.py", "good", "panes.db#nothing", "There is no table 'nothing'"),
        ("job.py", "good", "panes.db#other", "has no column 'shop', 'window_start', 'window_end'"),
    ],
)
def test_replay_reports_mistakes_before_spark_starts(
    place: Path, job: str, source: str, sink: str, message: str
) -> None:
    words = (f"parquet:{place}/{source}", "--sink", f"sqlite:///{place}/{sink}", *STRETCH)
    result = typed("replay", str(place / job), *words)
    assert result.exit_code == 2 and message in result.stderr, result.stderr
    assert not starts(result)
    assert not (place / "nowhere.db").exists()


def test_a_replay_that_can_be_compared_starts_spark(place: Path) -> None:
    words = (f"parquet:{place}/good/0.parquet", "--sink", f"sqlite:///{place}/panes.db#revenue", *STRETCH)
    assert starts(typed("replay", str(place / "job.py"), *words))
