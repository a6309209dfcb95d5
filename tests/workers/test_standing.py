"""The watermark that stands on this machine, and what becomes of old ones."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from eventide.spark import standing
from eventide.time import MIN

_DAY = 86_400


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(standing, "own_directory", lambda name: tmp_path)
    return tmp_path


def _left_by(query: str, place: Path, *, age: float) -> Path:
    """What a query has left that said something so many seconds ago."""
    left = place / query / "operator"
    left.mkdir(parents=True)
    os.utime(left, (time.time() - age,) * 2)
    return left.parent


def test_a_batch_hears_of_the_one_before_it(place: Path) -> None:
    standing.note("query", "operator", 4, 1_000)
    assert standing.known("query", "operator", 4) == 1_000
    assert standing.known("query", "operator", 5) is None
    assert standing.known("query", "operator", -1) == MIN


def test_a_new_query_sweeps_what_has_been_silent_for_a_day(place: Path) -> None:
    old, young = _left_by("old", place, age=2 * _DAY), _left_by("young", place, age=60)
    standing.note("query", "operator", 0, 1_000)
    assert not old.exists()
    assert young.exists()


def test_sweeping_is_for_once_an_hour(place: Path) -> None:
    standing.note("first", "operator", 0, 1_000)
    old = _left_by("old", place, age=2 * _DAY)
    standing.note("second", "operator", 0, 1_000)
    assert old.exists()
    os.utime(place / "swept", (time.time() - 3_700,) * 2)
    standing.note("third", "operator", 0, 1_000)
    assert not old.exists()
    assert standing.known("first", "operator", 0) == 1_000
