"""Faults that change nothing: after kills and restarts the table in the sink is the one that no fault would have given.

``EVENTIDE_KILLS`` sets the number of random kills in addition to the chosen ones (``make chaos``: 40).
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from tests.spark.chaos import (
    EXECUTOR,
    SIDES,
    expected,
    expected_rows,
    found_rows,
    kill,
    kill_worker,
    prepare,
    processes_of,
    start,
    table,
)
from tests.spark.cluster import standalone
from tests.spark.remote import hdfs_address

__all__ = ["hdfs_address"]

pytestmark = pytest.mark.long  # drivers and workers are killed, on a cluster too

KILLS = int(os.environ.get("EVENTIDE_KILLS", "1"))
BUNDLES = 9


@pytest.mark.parametrize("state", ["executors", "driver"])
def test_a_driver_that_is_killed_loses_nothing_and_doubles_nothing(tmp_path: Path, state: str) -> None:
    prepare(tmp_path, BUNDLES)
    for point in ("before:2", "after:5"):  # between the log of what a batch reads and the log of its end
        job = start(tmp_path, die=point, state=state)
        job.communicate()
        assert job.returncode == -signal.SIGKILL, point
    rng = Random(7)
    for _ in range(KILLS):
        _killed_somewhere(start(tmp_path, state=state), after=rng.randint(1, 3), delay=rng.random())
    _run_to_end(start(tmp_path, state=state), tmp_path)
    assert table(tmp_path) == expected(BUNDLES)


def test_a_driver_that_is_killed_continues_from_its_checkpoint_in_hdfs(tmp_path: Path, hdfs_address: str) -> None:
    prepare(tmp_path, 5)
    place = f"{hdfs_address}/{tmp_path.name}"
    for point in ("before:1", "after:3"):
        job = start(tmp_path, die=point, checkpoint=place)
        job.communicate()
        assert job.returncode == -signal.SIGKILL, point
    _run_to_end(start(tmp_path, checkpoint=place), tmp_path)
    assert table(tmp_path) == expected(5)


@pytest.mark.parametrize(
    ("plan", "inputs", "columns"),
    [("join", SIDES, "shop, price, price_right"), ("rows", ("in",), "shop, window_start, orders, total")][:KILLS],
)
@pytest.mark.parametrize("state", ["executors", "driver"])
def test_joins_and_row_windows_continue_after_a_kill(
    tmp_path: Path, plan: str, inputs: Sequence[str], columns: str, state: str
) -> None:
    prepare(tmp_path, 5, inputs)
    job = start(tmp_path, die="before:1" if plan == "join" else "after:2", plan=plan, state=state)
    job.communicate()
    assert job.returncode == -signal.SIGKILL, _log(tmp_path)
    rng = Random(plan)
    for _ in range(KILLS - 1):
        _killed_somewhere(start(tmp_path, plan=plan, state=state), after=rng.randint(1, 3), delay=rng.random())
    _run_to_end(start(tmp_path, plan=plan, state=state), tmp_path)
    assert found_rows(tmp_path, columns) == expected_rows(plan, 5)


def _killed_somewhere(job: subprocess.Popen[str], *, after: int, delay: float) -> None:
    """Kill driver and JVM some time after a batch, wherever they are then."""
    assert job.stdout is not None
    for _ in range(after):
        if not job.stdout.readline():
            break
    try:
        job.wait(timeout=delay)
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
    job.communicate()


def _run_to_end(job: subprocess.Popen[str], place: Path) -> None:
    """Wait for the end of the last start. A kill after the commit of the drain leaves it nothing to do."""
    out, _ = job.communicate()
    assert "done" in out or "was drained: its stream has ended" in _log(place), _log(place)


def test_python_workers_that_are_killed_are_started_again(tmp_path: Path) -> None:
    prepare(tmp_path, 8)
    job = start(tmp_path, master="local[2,8]", state="executors")  # eight tries for a task
    assert job.stdout is not None
    killed = 0
    while line := job.stdout.readline():
        if line.startswith("batch") and killed < 3:
            killed += kill_worker(job.pid)
    job.communicate()
    assert killed
    if job.returncode:  # Spark gives a worker ten seconds to come back; after that the query is started again
        (again := start(tmp_path, state="executors")).communicate()
        assert again.returncode == 0, _log(tmp_path)
    assert table(tmp_path) == expected(8)


def test_an_executor_of_a_cluster_that_is_killed_is_replaced(tmp_path: Path) -> None:
    prepare(tmp_path, 5)
    with standalone(tmp_path / "cluster", workers=2) as cluster:
        job = start(tmp_path, master=cluster.url, state="executors")
        assert job.stdout is not None
        killed = 0
        while line := job.stdout.readline():
            if line.split()[:2] == ["batch", "1"]:
                running = (process for session in cluster.sessions for process in processes_of(session))
                killed += kill(next(pid for pid, command, _ in running if EXECUTOR in command))
        job.communicate()
        assert killed
        if job.returncode:  # a busy machine may not start Python workers in the ten seconds that Spark gives them
            (again := start(tmp_path, master=cluster.url, state="executors")).communicate()
            assert again.returncode == 0, _log(tmp_path)
    assert table(tmp_path) == expected(5)


def _log(place: Path) -> str:
    return (place / "log").read_text(encoding="utf-8")[-3000:]
