"""Rescales that are killed at random, also while their files are installed, lose and double nothing.

``EVENTIDE_RESCALE_KILLS`` is the number of kills (``make chaos``: 30); ``EVENTIDE_SEED`` chooses them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from eventide.spark.buckets import BUCKETS
from eventide.spark.query_record import placement_of
from eventide.spark.replacement import is_between, settle
from eventide.spark.storage import LocalStorage
from tests.effort import SEED
from tests.spark.chaos import ROOT
from tests.spark.running import Stream, comparable, settings
from tests.spark.test_driver_state import WINDOWS, rows

pytestmark = pytest.mark.long  # each rescale starts Spark

KILLS = int(os.environ.get("EVENTIDE_RESCALE_KILLS", "3"))
STEPS = 9  # of an installation: the journal, removals and moves, its phases
LONGEST = 4.0  # seconds after the state begins to be written


@pytest.fixture(autouse=True)
def any_number_of_buckets(spark: SparkSession) -> Iterator[None]:
    """A session that names no number of buckets: the checkpoint does."""
    with settings(spark, {BUCKETS: None}):
        yield


def rescale_and_kill(checkpoint: str, target: str, *, step: int, seconds: float) -> bool:
    """Kill a rescale before a step of its installation, or some seconds after it begins to write (step 0)."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.rescale_job", checkpoint, target, str(step)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT}/src:{ROOT}"},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    with process, process.stdout:
        assert process.stdout.readline() == "staging\n"
        if not step:
            time.sleep(seconds)  # the moment of the kill
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        return "done" not in process.stdout.read()


def test_a_query_continues_after_rescales_that_were_killed(spark: SparkSession, tmp_path: Path) -> None:
    rng = Random(f"{SEED}/killed rescale")
    bundles = [rows(*range(20 * number, 20 * number + 40, 3)) for number in range(KILLS + 1)]
    stream = Stream(spark, tmp_path / "rescaled")
    files = LocalStorage(stream.checkpoint)
    state, killed, between = "executors", 0, 0
    for number, bundle in enumerate(bundles[:-1]):
        stream.put(bundle).run(WINDOWS, state=state)
        buckets = files.list("state/0") if state == "executors" else []
        target = "driver" if state == "executors" and rng.random() < 0.5 else str(rng.choice([3, 5, 7]) + len(buckets))
        step = 0 if number % 3 == 2 else rng.randrange(1, STEPS)
        killed += rescale_and_kill(stream.checkpoint, target, step=step, seconds=rng.uniform(0, LONGEST))
        between += is_between(files)
        settle(files)
        state = placement_of(files) or state
    stream.put(bundles[-1]).run(WINDOWS, state=state, drain=True)
    assert killed and (between or KILLS < 3), "some kills hit, and some of them the installation"
    assert comparable(stream.all("panes")) == comparable(WINDOWS.local(bundles).panes) != []
