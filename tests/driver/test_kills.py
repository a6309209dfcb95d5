"""A driver that is killed at random moments: its table is that of a driver that nobody killed.

``EVENTIDE_DRIVER_KILLS`` says how often it is killed (``make chaos``: 200).
"""

from __future__ import annotations

import os
import signal
from multiprocessing import get_context
from pathlib import Path
from random import Random

import pytest

from tests.driver.kill_harness import planned, run, table

pytestmark = pytest.mark.long  # processes are started and killed

KILLS = int(os.environ.get("EVENTIDE_DRIVER_KILLS", "20"))
_PROCESSES = get_context("forkserver")  # it has imported what a driver needs, which takes longer than many batches
_PROCESSES.set_forkserver_preload(["tests.driver.kill_harness"])


def test_a_driver_that_is_killed_anywhere_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    rng = Random(11)
    killed, never_killed = tmp_path / "killed", tmp_path / "never killed"
    killed.mkdir()
    never_killed.mkdir()
    for attempt in range(KILLS):
        goal = planned(killed) + rng.randint(0, 3)  # batches that it plans before it is killed
        driver = _PROCESSES.Process(target=run, args=(killed, attempt, None))
        driver.start()
        while driver.is_alive() and planned(killed) < goal:
            driver.join(0.005)
        driver.join(rng.random() * 0.05)
        driver.kill()
        driver.join()
        assert driver.exitcode == -signal.SIGKILL
    last = planned(killed) + 3
    for place in (killed, never_killed):
        driver = _PROCESSES.Process(target=run, args=(place, KILLS, last))
        driver.start()
        driver.join()
        assert driver.exitcode == 0
    assert last > KILLS
    assert table(killed) == table(never_killed) != []
