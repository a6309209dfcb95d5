"""Batches that the executors write to PostgreSQL, while executors, drivers and the server are killed at random.

``EVENTIDE_KILLS`` is the number of kills (``make chaos``: 40). ``tests/sinks/test_staging_kills.py`` has more of
them in the same time, because its tasks and drivers need no Spark.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from tests.effort import SEED
from tests.postgres import cluster, crash
from tests.services import running
from tests.sinks.places import Place
from tests.sinks.test_staging import TABLES
from tests.spark.chaos import EXECUTOR, expected, kill, kill_worker, prepare, processes_of, put_bundle
from tests.spark.staging import PANES, start

pytestmark = pytest.mark.long  # a cluster, which starts again and again

KILLS = int(os.environ.get("EVENTIDE_KILLS", "3"))
MASTER = "local-cluster[2,1,512]"  # executors have processes of their own
FAULTS = ("executor", "executor", "worker", "server", "driver")


@pytest.fixture
def server() -> Iterator[str]:
    """A PostgreSQL of its own, because it is killed."""
    yield from running(cluster())


def test_random_kills_lose_no_row_double_none_and_leave_no_staged_rows(server: str, tmp_path: Path) -> None:
    place = Place("postgres", server)
    prepare(tmp_path, 3)
    (tmp_path / "killed").touch()  # the job kills nothing by itself
    rng, done = Random(f"{SEED}/staging"), Counter[str]()
    job = start(tmp_path, server, MASTER, "endless")
    while done.total() < KILLS:
        put_bundle(tmp_path, 3 + done.total())
        if job.poll() is not None:  # a fault stopped the query, or killed it
            job.communicate()
            job = start(tmp_path, server, MASTER, "endless")
        _await_batch(job, delay=rng.random() * 2)
        fault = rng.choice(FAULTS)
        done[fault] += _inject(fault, job, server)
    os.killpg(job.pid, signal.SIGKILL)
    job.communicate()
    out = ""
    for _ in range(3):  # a busy machine may not start Python workers in the ten seconds that Spark gives them
        out += start(tmp_path, server, MASTER).communicate()[0]
        if "done" in out:
            break
    assert "done" in out, (tmp_path / "log").read_text()[-3000:]
    print("kills:", dict(done))
    assert sorted(place.ask(PANES)) == expected(3 + KILLS)
    assert place.ask(TABLES) == []


def _await_batch(job: subprocess.Popen[str], *, delay: float) -> None:
    """Wait for the end of a batch, and some time of the next one."""
    assert job.stdout is not None
    if job.stdout.readline():
        with suppress(subprocess.TimeoutExpired):
            job.wait(timeout=delay)


def _inject(fault: str, job: subprocess.Popen[str], server: str) -> int:
    """Kill something. Return how many processes were there to kill."""
    match fault:
        case "server":
            crash(server)
            return 1
        case "worker":
            return kill_worker(job.pid)
        case "executor":
            executors = [pid for pid, command, _ in processes_of(job.pid) if EXECUTOR in command]
            return sum(map(kill, executors[:1]))
    if job.poll() is not None:
        return 0
    os.killpg(job.pid, signal.SIGKILL)
    return 1
