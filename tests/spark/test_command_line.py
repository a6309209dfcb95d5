"""The command line on Spark: a job runs, is looked into, replayed, drawn and stopped."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession
from typer.testing import Result

from eventide.cli import terminal as screen
from eventide.cli.live_progress import ProgressLines
from eventide.spark.control import Control
from eventide.spark.metrics import BatchMetrics
from tests.cli.typed import lines, typed

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
SCHEMA = {"ts": pl.Datetime("us", "UTC"), "shop": pl.String(), "till": pl.String(), "price": pl.Int64()}
STRETCH = ("--from", "2026-03-01T12:00Z", "--to", "2026-03-01T12:30Z")
JOB = """
import eventide as ev

pipeline = (
    ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("10 seconds", origin="till"))
    .window(ev.tumbling("1 minute"))
    .emit(early=ev.on_update())
    .agg(orders=ev.count(), total=ev.sum("price"))
)
"""
FAILS = """
import eventide as ev

pipeline = ev.stream(time="ts", watermark=ev.no_watermark()).window(ev.tumbling("1 minute")).agg(n=ev.count())

def rows(spark):
    def broken(batches):
        raise ValueError("the price is not a number")
        yield from batches
    return spark.readStream.schema("ts timestamp").parquet("{place}").mapInArrow(broken, "ts timestamp")
"""


def put(place: Path, number: int, *rows: tuple[float | None, str, str, int]) -> None:
    timed = [(None if second is None else START + timedelta(seconds=second), *rest) for second, *rest in rows]
    file = place / f"{number}.parquet"
    pl.DataFrame(timed, schema=SCHEMA, orient="row").write_parquet(file)
    os.utime(file, (1_760_000_000 + number, 1_760_000_000 + number))


SQL = """
CREATE STREAM sales WATERMARK FOR ts AS ts - INTERVAL '10' SECOND PER till;
SELECT shop, window_start, window_end, COUNT(*) AS orders, SUM(price) AS total
FROM TUMBLE(sales, DESCRIPTOR(ts), INTERVAL '1' MINUTE)
GROUP BY shop, window_start, window_end
"""


class Shop:
    """A directory with a job, its input and its output."""

    def __init__(self, place: Path) -> None:
        self.place, self.input = place, place / "in"
        self.job, self.database = str(place / "job.py"), place / "panes.db"
        self.checkpoint, self.trace = str(place / "checkpoint"), str(place / "trace.jsonl")
        self.input.mkdir()
        Path(self.job).write_text(JOB, encoding="utf-8")
        put(self.input, 0, (5, "kiel", "north", 3), (20, "bonn", "west", 4))
        put(self.input, 1, (70, "kiel", "north", 5), (130, "bonn", "west", 6), (None, "kiel", "west", 1))
        put(self.input, 2, (140, "kiel", "north", 5), (8, "kiel", "north", 50))

    @property
    def sink(self) -> str:
        return f"sqlite:///{self.database}#revenue"

    def run(self, *words: str) -> Result:
        source = f"parquet:{self.input}?maxFilesPerTrigger=1"
        return typed("run", self.job, source, "--sink", self.sink, "--checkpoint", self.checkpoint, *words)

    def replay(self, *words: str) -> Result:
        return typed("replay", self.job, f"parquet:{self.input}", "--sink", self.sink, *STRETCH, *words)

    def table(self) -> dict[tuple[str, str], tuple[int, int]]:
        observed = (
            sqlite3.connect(self.database).execute("SELECT shop, window_start, orders, total FROM revenue").fetchall()
        )
        return {(shop, start[11:16]): (orders, total) for shop, start, orders, total in observed}


@pytest.fixture(scope="module", params=["driver", pytest.param("executors", marks=pytest.mark.long)])
def ran(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Shop, Result]]:
    """A job that has read all there is, not drained."""
    shop = Shop(tmp_path_factory.mktemp("shop"))
    yield shop, shop.run("--available-now", "--trace", shop.trace, "--json", "--state", request.param)


def test_a_run_keeps_the_table_and_tells_each_batch(ran: tuple[Shop, Result]) -> None:
    shop, done = ran
    assert done.exit_code == 0, done.stderr
    assert shop.table() == {
        ("kiel", "12:00"): (1, 3),
        ("bonn", "12:00"): (1, 4),
        ("kiel", "12:01"): (1, 5),
        ("bonn", "12:02"): (1, 6),
        ("kiel", "12:02"): (1, 5),
    }
    observed = lines(done)
    assert [line["rows"] for line in observed] == [2, 3, 2]
    assert [line["late"] for line in observed] == [0, 0, 1]
    assert observed[1]["dead"] == {"null_time": 1}
    assert {origin["origin"] for origin in observed[1]["slowest"]} == {"north", "west"}
    assert observed[-1]["watermark"] == "2026-03-01T12:02:00Z"


def test_its_history_becomes_a_picture(ran: tuple[Shop, Result], tmp_path: Path) -> None:
    shop, _ = ran
    for source in (shop.checkpoint, shop.trace):
        picture = tmp_path / "picture.html"
        assert typed("plot", source, "--output", str(picture)).exit_code == 0
        html = picture.read_text(encoding="utf-8")
        assert "Origin west" in html
        assert 'class="pane EARLY"' in html


def test_its_state_can_be_looked_into(ran: tuple[Shop, Result]) -> None:
    shop, _ = ran
    (operator,) = lines(typed("inspect", shop.checkpoint, "--job", shop.job, "--json"))
    assert operator["watermark"] == "2026-03-01T12:02:00Z"
    assert {origin["name"]: origin["status"] for origin in operator["origins"]} == {"north": "active", "west": "active"}
    assert [(window["window_start"], window["keys"]) for window in operator["windows"]] == [("2026-03-01T12:02:00Z", 2)]
    shown = typed("inspect", shop.checkpoint).stdout
    assert "tumbling(1m), key shop" in shown and "north" in shown and "active" in shown


@pytest.mark.long
def test_a_replay_tells_windows_that_lack_their_late_rows(ran: tuple[Shop, Result]) -> None:
    shop, _ = ran
    done = shop.replay("--json")
    assert done.exit_code == 1
    (difference,) = lines(done)
    assert difference["kind"] == "differs"
    assert (difference["table"], difference["replay"]) == ({"orders": 1, "total": 3}, {"orders": 2, "total": 53})
    assert "5 windows compared, 1 differ" in done.stderr


def test_a_replay_of_a_stretch_that_is_right_says_so(ran: tuple[Shop, Result]) -> None:
    shop, _ = ran
    done = shop.replay("--from", "2026-03-01T12:01Z")
    assert (done.exit_code, "the table is equal" in done.stderr) == (0, True)


def test_a_replay_against_a_table_that_is_not_there_is_rejected(ran: tuple[Shop, Result]) -> None:
    shop, _ = ran
    observed = shop.replay("--sink", f"sqlite:///{shop.place}/other.db#revenue")
    assert observed.exit_code == 2 and "There is no table 'revenue'" in observed.stderr
    assert not (shop.place / "other.db").exists()


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
@pytest.mark.long
def test_a_replay_knows_values_of_every_kind_in_both_databases(
    spark: SparkSession, tmp_path: Path, database: str, request: pytest.FixtureRequest
) -> None:
    shop = Shop(tmp_path)
    Path(shop.job).write_text(JOB.replace("total=", 'prices=ev.collect_list("price"), mean=ev.mean("price"), total='))
    place = request.getfixturevalue("postgres_url") if database == "postgres" else f"sqlite:///{shop.database}"
    assert shop.run("--sink", f"{place}#every_kind", "--drain").exit_code == 0
    done = shop.replay("--sink", f"{place}#every_kind", "--from", "2026-03-01T12:01Z")
    assert "3 windows compared; the table is equal." in done.stderr
    observed = shop.replay("--sink", f"{place}#every_kind", "--json")
    assert [line["replay"] for line in lines(observed)] == [{"orders": 2, "prices": [3, 50], "mean": 26.5, "total": 53}]


def test_a_query_is_drained_by_a_command_and_continues_where_it_was(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    assert shop.run("--available-now").exit_code == 0
    assert typed("drain", shop.checkpoint).exit_code == 0
    done = shop.run("--available-now")
    assert done.exit_code == 0
    assert "0 rows = 0 in windows" in done.stderr
    (operator,) = lines(typed("inspect", shop.checkpoint, "--json"))
    assert operator["watermark"] == "drained"
    assert {origin["status"] for origin in operator["origins"]} == {"drained"}


def test_a_query_that_fails_has_its_own_exit_code(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    Path(shop.job).write_text(FAILS.replace("{place}", str(shop.input)), encoding="utf-8")
    observed = typed("run", shop.job, "--sink", "noop", "--checkpoint", shop.checkpoint, "--available-now")
    assert observed.exit_code == 1
    assert "ValueError: the price is not a number" in observed.stderr
    assert "at org.apache" not in observed.stderr and "py4j" not in observed.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["parquet:{place}/nowhere"], "There are no files"),
        (["kafka:orders@broker:9092?schema=ts timestamp"], "Add --conf spark.jars.packages=org.apache"),
        (["--interval", "1 mintue"], "Did you mean 'minute'?"),
        (["--interval", "10s", "--drain"], "--drain ends the run"),
        (["--sink", "console", "--json"], "Name another --sink"),
        (["--sink", "sqlit:///x.db"], "Did you mean 'sqlite'?"),
        (["rate:1", "--conf", "spark.ui.port"], "write NAME=VALUE"),
        ([], "has no source"),
    ],
)
def test_a_mistake_is_reported_before_anything_runs(
    spark: SparkSession, tmp_path: Path, words: list[str], message: str
) -> None:
    shop = Shop(tmp_path)
    spoken = [word.replace("{place}", str(tmp_path)) for word in words]
    observed = typed("run", shop.job, "--checkpoint", shop.checkpoint, *spoken)
    assert observed.exit_code == 2 and message in observed.stderr
    assert not (tmp_path / "checkpoint" / "offsets").exists()


@pytest.mark.long
def test_an_interrupt_stops_a_query_after_its_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = tmp_path / "rate.py"
    job.write_text(
        "import eventide as ev\n"
        "ticks = ev.stream(time='timestamp', watermark=ev.bounded_delay('1 s'))\n"
        "pipeline = ticks.window(ev.tumbling('2 s')).agg(n=ev.count())\n"
    )
    batches: list[int] = []

    def interrupt(line: dict[str, Any]) -> None:
        batches.append(line["batch"])
        if len(batches) == 1:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(screen, "print_json", interrupt)
    place = str(tmp_path / "checkpoint")
    often = ("--interval", "10 seconds")  # so that there is a pause to stop in, also on a machine that is busy
    done = typed("run", str(job), "rate:5", "--sink", "noop", "--json", "--checkpoint", place, *often)
    assert done.exit_code == 130
    assert batches
    assert spark.streams.active == []
    offsets, commits = (len(list((Path(place) / name).glob("[0-9]*"))) for name in ("offsets", "commits"))
    assert offsets == commits


def test_a_query_that_a_command_drains_finishes_and_the_command_reports_its_effect(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(tmp_path)
    ids: list[str] = []
    control = Control(shop.checkpoint)
    real = ProgressLines.__call__

    def command(lines: ProgressLines, metrics: BatchMetrics) -> None:
        real(lines, metrics)
        if metrics.batch == 2:
            assert control.is_running
            ids.extend([control.retire("nort"), control.drain()])

    monkeypatch.setattr(ProgressLines, "__call__", command)
    done = shop.run()
    assert done.exit_code == 0, done.stderr
    assert "2 rows (" in done.stderr and "slowest origin north" in done.stderr
    assert "watermark drained | panes 2 on time" in done.stderr and "applied retire nort, drain" in done.stderr
    assert "Finished: the stream is drained" in done.stderr
    assert not control.is_running
    for number, known in zip(ids, (False, True), strict=True):
        batch = control.applied(number)
        assert batch is not None and batch.drained
        assert [effect.known for effect in batch.commands if effect.id == number] == [known]


def test_sql_prints_the_columns_that_it_selects(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    statement = SQL.replace("shop, window_start, window_end, COUNT(*)", 'shop AS "The Shop", window_end, COUNT(*)')
    done = typed("sql", statement.replace("SUM(price) AS total", "SUM(price)"), f"parquet:{shop.input}")
    assert done.exit_code == 0, done.stderr
    header = next(line for line in done.stdout.splitlines() if "The Shop" in line)
    assert header.split() == ["The", "Shop", "window_end", "orders", "sum_price", "diff"]
    assert "2026-03-01T12:01:00Z" in done.stdout


PROCESSOR = """
import eventide as ev
import polars as pl


class Visits(ev.RowProcessor):
    state_schema = {"visits": pl.Int64}

    def process_row(self, edge, row, state):
        state["visits"] = (state["visits"] or 0) + 1
        self.set_timer("2027-03-01T13:00Z", name="later")
        return {"shop": row["shop"], "visits": state["visits"]}


sales = ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("1 day"))
pipeline = sales.process(Visits(), output={"shop": pl.String, "visits": pl.Int64})
"""


def test_a_processor_reports_emitted_rows_and_shows_its_state_and_timers(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    Path(shop.job).write_text(PROCESSOR, encoding="utf-8")
    done = shop.run("--sink", "noop", "--available-now")
    assert done.exit_code == 0, done.stderr
    assert "2 rows emitted" in done.stderr and "7 rows = 6 processed + 0 late + 1 dead (1 null_time)" in done.stderr
    (operator,) = lines(typed("inspect", shop.checkpoint, "--job", shop.job, "--json"))
    assert operator["state"] == [{"shop": "bonn", "visits": 2}, {"shop": "kiel", "visits": 4}]
    assert [(timer["shop"], timer["timer"], timer["at"]) for timer in operator["timers"]] == [
        ("bonn", "later", "2027-03-01T13:00:00Z"),
        ("kiel", "later", "2027-03-01T13:00:00Z"),
    ]
    assert "none: there is one watermark for all rows" in typed("inspect", shop.checkpoint).stdout


def test_a_file_with_sql_is_a_job(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.job = str(tmp_path / "job.sql")
    Path(shop.job).write_text(SQL, encoding="utf-8")
    done = shop.run("--available-now", "--json")
    assert done.exit_code == 0, done.stderr
    assert shop.table() == {("kiel", "12:00"): (1, 3), ("bonn", "12:00"): (1, 4), ("kiel", "12:01"): (1, 5)}
    assert sum(line["late"] for line in lines(done)) == 1
