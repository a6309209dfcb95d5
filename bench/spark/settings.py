"""What can be turned: sizes, places, rounds. Every setting is an environment variable."""

from __future__ import annotations

import os
from pathlib import Path

# 10 files for any number of rows: fewer rows make smaller batches, not fewer.
ROWS = int(os.environ.get("EVENTIDE_BENCH_ROWS", "10_000_000"))
FILES = 10
# "key" is a bigint, "name" the same key as text.
KEY = os.environ.get("EVENTIDE_BENCH_KEY", "key")
ROUNDS = int(os.environ.get("EVENTIDE_BENCH_ROUNDS", "8"))
# No further round is begun after so long: a long run averages out by itself what short ones cannot.
ENOUGH_SECONDS = 120.0
CORES = 2
MEMORY = "6g"


def cache() -> Path:
    """Where generated files and checkpoints are kept."""
    place = Path(os.environ.get("EVENTIDE_BENCH_CACHE", "build/bench")).absolute()
    place.mkdir(parents=True, exist_ok=True)
    return place


def scaled(number: int) -> int:
    """A size that is meant for the full number of rows, for the number that was asked for."""
    return max(1, number * ROWS // 10_000_000)
