"""The projects of examples/, each started with its own command. Their tables are computed here again, row by row."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from examples.devices import generator as devices
from examples.files_to_delta import generator as files
from examples.kafka_to_postgres import servers
from tests.kafka import JARS, ROOT, connector, fetch
from tests.services import running

pytestmark = pytest.mark.long  # whole jobs, and a Kafka broker

HOME = ROOT / "examples"
PROJECTS = sorted(path.parent.name for path in HOME.glob("*/__main__.py"))


def run(*words: object) -> str:
    """Run Python in examples/, as the README of a project does, and return what it prints."""
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, *map(str, words)]
    # As for the session of the tests: a short run would spend most of its time in Java's optimizing compiler.
    environment = os.environ | {"PYTHONPATH": path, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=HOME, env=environment, check=False, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done.stdout


def floor(at: datetime, unit: timedelta) -> datetime:
    return at - (at - datetime.min.replace(tzinfo=UTC)) % unit


def totals(orders: Iterable[dict[str, Any]], unit: timedelta) -> dict[tuple[str, datetime], tuple[int, int]]:
    """The number and the sum of the orders of each shop and window."""
    cents = defaultdict(list)
    for order in orders:
        cents[order["shop"], floor(order["ts"], unit)].append(order["cents"])
    return {key: (len(values), sum(values)) for key, values in cents.items()}


def parsed(lines: Iterable[str], time: str) -> tuple[list[dict[str, Any]], list[Any]]:
    """The rows that have a time before the year 2062, and the identities of all others."""
    valid, dead = [], []
    for line in lines:
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            dead.append(None)
            continue
        row[time] = row[time] and datetime.fromisoformat(row[time])
        if row[time] is None or row[time].year == 2062:
            dead.append(next(value for name, value in row.items() if name in ("order_id", "number")))
        else:
            valid.append(row)
    return valid, dead


@contextmanager
def _jars() -> Iterator[Path]:
    """The directory with the jars of a broker and of Spark's connector."""
    connector()
    fetch("kafka-broker", f"broker {servers.BROKER}", kafka=servers.BROKER)
    yield JARS


@pytest.fixture
def jars() -> Iterator[Path]:
    yield from running(_jars())


def test_each_message_of_kafka_is_in_one_table_of_postgresql(jars: Path, postgres_url: str, tmp_path: Path) -> None:
    import psycopg

    archive = tmp_path / "messages.parquet"
    options = ("--orders", 600, "--jars", jars, "--archive", archive)
    printed = run("-m", "kafka_to_postgres", "--postgres", postgres_url, *options)
    messages = pl.read_parquet(archive)
    kinds: Counter[str] = Counter(messages["kind"])
    assert min(kinds["window"], kinds["late"], kinds["dead"]) > 0
    sums = f"606 messages = {kinds['window']} in windows + {kinds['late']} late + {kinds['dead']} dead letters"
    assert sums in printed.splitlines()
    assert re.search(r"ALERT: the watermark is [\d.]+ minutes behind, held back by partition 2", printed)

    orders: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for kind, value in messages.select("kind", "value").rows():
        if value.startswith("{"):
            order = json.loads(value)
            orders[kind].append(order | {"ts": datetime.fromisoformat(order["ts"])})
    with psycopg.connect(postgres_url) as database:
        revenue = database.execute("SELECT shop, window_start, orders, cents FROM revenue").fetchall()
        late = database.execute("SELECT order_id FROM late_orders").fetchall()
        dead = database.execute("SELECT order_id FROM dead_orders WHERE order_id IS NOT NULL").fetchall()
        corrected = database.execute("SELECT count(*) FROM revenue WHERE pane_timing = 'LATE'").fetchone()
    assert len(revenue) == len({row[:2] for row in revenue})
    assert {row[:2]: row[2:] for row in revenue} == totals(orders["window"], timedelta(minutes=1))
    assert sorted(late) == sorted((order["order_id"],) for order in orders["late"])
    assert sorted(dead) == sorted((order["order_id"],) for order in orders["dead"])
    assert corrected and f"{corrected[0]} results in the table were corrected by late orders." in printed.splitlines()


def test_the_postgresql_of_the_kafka_project_runs_until_it_is_left(server: str) -> None:
    import psycopg

    assert server  # a machine without PostgreSQL skips
    with servers.postgres() as url, psycopg.connect(url) as database:
        assert database.execute("SELECT current_user").fetchone() == ("example",)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)


def test_the_archive_and_new_files_are_in_delta_tables_and_a_day_is_replayed(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    printed = run("-m", "files_to_delta", "--orders", 200, "--root", root)
    revenue, late, dead = (pl.read_delta(f"{root}/{name}") for name in ("revenue", "late_orders", "dead_orders"))
    lines = [line for file in sorted((root / "incoming").glob("*.json")) for line in file.read_text().splitlines()]
    valid, invalid = parsed(lines, "ts")
    archived = pl.concat(map(pl.read_parquet, (root / "archive").glob("*.parquet"))).rows(named=True)

    too_late = set(late["order_id"])
    morning = files.FIRST_DAY + (files.DAYS - 1) * files.DAY
    assert too_late
    assert all(morning <= at < morning + files.DAY / 2 for at in late["ts"])
    on_time = [order for order in [*archived, *valid] if order["order_id"] not in too_late]
    expected = totals(on_time, timedelta(hours=1))
    assert {row[:2]: row[2:] for row in revenue.select("shop", "window_start", "orders", "cents").rows()} == expected
    assert revenue.height == len(expected)
    assert Counter(dead["order_id"]) == Counter(invalid)

    rows = len(archived) + len(lines)
    sums = f"{rows} rows = {len(on_time)} in windows + {late.height} late + {dead.height} dead letters"
    assert sums in printed.splitlines()
    day = files.FIRST_DAY + files.DAY
    hours = [at for shop, at in expected if shop == "kiel" and day <= at < day + files.DAY]
    assert f"replay of 2025-03-02: {len(hours)} results differed, 0 differ now" in printed.splitlines()


def test_the_devices_have_every_reading_but_those_that_one_sent_hours_later(tmp_path: Path) -> None:
    root = tmp_path / "plant"
    printed = run("-m", "devices", "--root", root)
    lines = [line for file in devices.generate(1) for line in file]
    valid, invalid = parsed(lines, "at")
    with closing(sqlite3.connect(root / "plant.db")) as database:
        table = database.execute("SELECT device, window_start, readings, mean, highest FROM temperatures").fetchall()
        late = database.execute("SELECT device, number, ev_source_file FROM late_readings").fetchall()
        dead = database.execute("SELECT number FROM dead_readings").fetchall()

    # The boiler has sent until 05:00. So the watermark is after 04:50 when the roof returns, and before 05:00.
    lost = devices.START + timedelta(hours=2), devices.START + timedelta(hours=2, minutes=50)
    too_late = {row["number"] for row in valid if row["device"] == "roof" and lost[0] <= row["at"] < lost[1]}
    assert sorted(row[:2] for row in late) == [("roof", number) for number in sorted(too_late)]
    assert {Path(file).name for *_, file in late} == {"5.json"}
    assert Counter(number for (number,) in dead) == Counter(invalid)
    heats = defaultdict(list)
    for row in valid:
        if row["device"] != "roof" or row["number"] not in too_late:
            heats[row["device"], floor(row["at"], timedelta(minutes=10))].append(row["celsius"])
    observed = {(device, datetime.fromisoformat(start)): result for device, start, *result in table}
    assert len(observed) == len(table)
    assert observed == {
        key: pytest.approx([len(all_), sum(all_) / len(all_), max(all_)]) for key, all_ in heats.items()
    }

    kept = len(valid) - len(too_late)
    sums = f"{len(lines)} readings = {kept} in windows + {len(late)} late + {len(dead)} dead letters"
    assert sums in printed.splitlines()
    assert [line for line in printed.splitlines() if line.startswith("  roof")] == [
        "  roof is idle: the watermark does not wait for it",
        "  roof has returned",
    ]


@pytest.mark.parametrize("project", PROJECTS)
def test_a_job_runs_alone_and_explains_itself(project: str) -> None:
    """A team copies job.py, so it imports nothing else of its folder."""
    assert "python job.py" in run(f"{project}/job.py", "--help")
    assert f"python -m {project}" in run("-m", project, "--help")


@pytest.mark.parametrize("project", PROJECTS)
def test_the_readme_of_a_project_names_its_files_and_extras_that_exist(project: str) -> None:
    readme = (HOME / project / "README.md").read_text(encoding="utf-8")
    tracked = [path.name for path in (HOME / project).iterdir() if path.suffix in (".py", ".xml")]
    assert [name for name in tracked if name != "__init__.py" and f"`{name}`" not in readme] == []
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    installed = re.search(r"pip install '\.\[([\w,]+)\]'", readme)
    assert installed and set(installed[1].split(",")) <= set(extras)
    links = re.findall(r"\]\(([^)#:]+)\)", readme)
    assert [link for link in links if not (HOME / project / link).exists()] == []


def test_the_table_of_examples_names_each_project() -> None:
    table = (HOME / "README.md").read_text(encoding="utf-8")
    assert [project for project in PROJECTS if f"({project}/README.md)" not in table] == []
