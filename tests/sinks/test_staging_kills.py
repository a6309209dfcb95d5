"""Tasks, drivers and PostgreSQL are killed at random: no row is lost or doubled, and no staged row is left.

``EVENTIDE_SINK_KILLS`` is the number of kills (``make chaos``: 100). ``tests/spark/test_staging_faults.py`` kills the
processes of a real query.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.effort import SEED
from tests.postgres import cluster, crash
from tests.services import running
from tests.sinks.panes import MINUTE
from tests.sinks.places import Place
from tests.sinks.staging_driver import PROCESSES, committed, run, table_after
from tests.sinks.test_staging import TABLES

pytestmark = pytest.mark.long  # processes are started and killed

KILLS = int(os.environ.get("EVENTIDE_SINK_KILLS", "20"))
PANES = "SELECT (extract(epoch FROM window_start) * 1000000)::bigint, n FROM panes"


@pytest.fixture
def server() -> Iterator[str]:
    """A PostgreSQL of its own, because it is killed."""
    yield from running(cluster())


def test_random_kills_lose_no_row_double_none_and_leave_no_staged_rows(server: str, tmp_path: Path) -> None:
    place, rng, drivers, crashes = Place("postgres", server), Random(f"{SEED}/staging"), 0, 0
    (tmp_path / "committed").write_text("-1")
    (tmp_path / "killed tasks").touch()
    while drivers + crashes + (killed := (tmp_path / "killed tasks").stat().st_size) < KILLS:
        goal = committed(tmp_path) + rng.randint(0, 5)
        driver = start(server, tmp_path, f"{drivers}/{crashes}", None)
        while driver.is_alive() and committed(tmp_path) < goal:
            driver.join(0.01)
        driver.join(rng.random() * 0.3)
        if rng.random() < 0.3:
            crash(server)
            crashes += 1
            driver.join(rng.random() * 0.3)
        if driver.is_alive():
            driver.kill()
            drivers += 1
        driver.join()
    last = committed(tmp_path) + 3
    driver = start(server, tmp_path, "last", last)
    driver.join()
    assert driver.exitcode == 0
    print(f"killed: {killed} tasks, {drivers} drivers, the server {crashes} times; {last + 1} batches")
    assert dict(place.ask(PANES)) == {window * MINUTE: n for window, n in table_after(last).items()}
    assert place.ask("SELECT count(*) FROM panes") == [(len(table_after(last)),)]
    assert place.ask(TABLES) == []


def start(*arguments: Any) -> Any:
    driver = PROCESSES.Process(target=run, args=arguments)
    driver.start()
    return driver
