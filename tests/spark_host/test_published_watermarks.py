"""Watermarks that tasks publish on their machine: who reads them, and when they are deleted."""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import eventide as ev
from eventide.spark import stamp
from eventide.spark.shuffle_pages import Stage, Task
from eventide.time import MIN

_DAY = 86_400
PLAN = ev.stream(time="t", watermark=ev.bounded_delay("0s")).window(ev.tumbling("1 minute")).agg(n=ev.count()).plan


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(stamp, "private_directory", lambda name: tmp_path)
    return tmp_path


def _leave_watermarks(query: str, root: Path, *, age: float) -> Path:
    """Create the directory of a query that published its last watermark ``age`` seconds ago."""
    directory = root / query / "operator"
    directory.mkdir(parents=True)
    os.utime(directory, (time.time() - age,) * 2)
    return directory.parent


def test_a_batch_reads_the_watermark_of_the_previous_one(root: Path) -> None:
    stamp.publish_watermark("query", "operator", 4, 1_000)
    assert stamp.read_watermark("query", "operator", 4) == 1_000
    assert stamp.read_watermark("query", "operator", 5) is None
    assert stamp.read_watermark("query", "operator", -1) == MIN


def test_a_new_query_deletes_watermarks_that_are_older_than_a_day(root: Path) -> None:
    old, young = _leave_watermarks("old", root, age=2 * _DAY), _leave_watermarks("young", root, age=60)
    stamp.publish_watermark("query", "operator", 0, 1_000)
    assert not old.exists()
    assert young.exists()


def test_old_watermarks_are_deleted_once_an_hour(root: Path) -> None:
    stamp.publish_watermark("first", "operator", 0, 1_000)
    old = _leave_watermarks("old", root, age=2 * _DAY)
    stamp.publish_watermark("second", "operator", 0, 1_000)
    assert old.exists()
    os.utime(root / "swept", (time.time() - 3_700,) * 2)
    stamp.publish_watermark("third", "operator", 0, 1_000)
    assert not old.exists()
    assert stamp.read_watermark("first", "operator", 0) == 1_000


def test_up_to_the_batch_of_a_repair_tasks_do_not_use_the_published_watermark() -> None:
    run, stage = uuid.uuid4().hex, Stage("repaired", PLAN, ({"t": pl.Int64()},), 1)
    for batch in (4, 5):
        stamp.publish_watermark(run, stage.name, batch, 7)
    before, after = Task(0, 0, 5, run), Task(0, 0, 6, run)
    assert stamp.start_watermark(stage, before) == 7
    repaired = replace(stage, repaired_in=5)
    assert stamp.start_watermark(repaired, before) is None
    assert stamp.start_watermark(repaired, after) == 7
