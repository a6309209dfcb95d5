"""Queries over Spark Connect: the server runs them, and the client follows them through the checkpoint."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc", reason="Spark Connect needs the extra connect")

TOO_SLOW = "Python worker failed to connect back"


def job(place: Path, step: str) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-m", "tests.spark.connect_job", str(place), step]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    if TOO_SLOW in ended.stderr and os.getloadavg()[0] > 2 * (os.cpu_count() or 1):
        pytest.skip("Spark gives the process of a query ten seconds to begin, and this machine is too busy for that")
    assert ended.returncode == 0, ended.stderr[-5000:]
    seen: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return seen


def start_of(second: int) -> str:
    return f"1970-01-01T00:00:{second:02}.000000Z"


def test_a_query_continues_from_its_checkpoint_and_is_drained_by_a_command(tmp_path: Path) -> None:
    seen = job(tmp_path, "run")
    assert seen["ended"] == 2 and seen["history"] == [3, 2]
    assert seen["restarted"] == [2, 1]
    assert seen["running"] and seen["drained"] and not seen["stopped"]
    assert seen["reported"] == [[0, 3, 0, 1], [1, 2, 0, 0], [2, 2, 1, 0], [3, 0, 0, 0]]
    assert seen["panes"] == [
        ["bonn", start_of(0), 2, "ON_TIME"],
        ["kiel", start_of(0), 1, "ON_TIME"],
        ["kiel", start_of(20), 1, "ON_TIME"],
        ["kiel", start_of(40), 1, "ON_TIME"],
    ]
    assert (seen["late"], seen["dead"]) == (1, 1)


@pytest.mark.long
def test_tables_and_streams_are_transformed(tmp_path: Path) -> None:
    seen = job(tmp_path, "transform")
    assert seen["table"] == [["bonn", 2], ["kiel", 1], ["kiel", 1]]
    assert seen["chain"] == [4]
    assert seen["stream"] == [["bonn", 1], ["kiel", 1]]
    assert seen["progress"][:3] == [[3, 0, 1], [1, 0, 0], [1, 1, 0]]
    assert seen["outputs"] == {"panes": 2, "late": 1, "dead": 1}
    assert seen["heard"][:3] == [3, 1, 1]


@pytest.mark.long
def test_tables_rows_of_unknown_size_and_noted_time_are_read(tmp_path: Path) -> None:
    seen = job(tmp_path, "sources")
    assert seen["pairs"] == [1, 1]
    assert seen["rate"][1] == 10  # a batch, and one of the start that drains
    assert seen["noted"][1] == 35


@pytest.mark.long
def test_a_query_survives_its_process_and_errors_reach_the_client(tmp_path: Path) -> None:
    seen = job(tmp_path, "failures")
    assert seen["killed"] is not None and seen["continued"] is None
    assert seen["panes"] == [[shop, start_of(second), 1, "ON_TIME"] for shop in ("bonn", "kiel") for second in (0, 20)]
    assert seen["failed"] == "The table is gone."
    assert seen["failed in history"] == 1
    assert seen["rejected on the server"] == "The table is read-only. Name another one."
    assert seen["memory"] is None and seen["kept"] == 2
    assert all(
        "Spark Connect" in seen[name] and seen[name].count(". ") == 0
        for name in ("executors", "scan", "hadoop", "rescale")
    )
