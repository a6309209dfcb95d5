"""A process that is killed at any instant, again and again: nothing is lost, nothing is doubled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from random import Random

import pytest

from tests.standalone import kill_harness

pytestmark = pytest.mark.long  # processes are killed

COUNT = 60
KILLS = int(os.environ.get("EVENTIDE_KILLS", "4"))


@pytest.mark.parametrize("kind", ["aggregate", "join"])
def test_a_killed_operator_loses_and_doubles_nothing(tmp_path: Path, kind: str) -> None:
    rng = Random(os.environ.get("EVENTIDE_SEED", "0") + kind)
    taken = tmp_path / "taken.jsonl"
    command = [sys.executable, kill_harness.__file__, str(tmp_path / "s.db"), str(taken), kind, str(COUNT)]
    lives = [rng.choice([rng.randint(1, 150), -rng.randint(1, 8)]) for _ in range(KILLS)]
    ends = [subprocess.run([*command, str(life)], check=False).returncode for life in lives]
    assert ends[0] == -signal.SIGKILL and set(ends) <= {-signal.SIGKILL, 0}
    subprocess.run([*command, "0"], check=True)

    outputs: dict[int, tuple[int, list[int]]] = {}
    for line in taken.read_text().splitlines():
        number, start, offsets = json.loads(line)
        # The one output that was handed over when the process died may come again: the same, under the same number.
        assert outputs.setdefault(number, (start, offsets)) == (start, offsets)
    assert sorted(outputs) == list(range(1, len(outputs) + 1))
    rows = kill_harness.stream(COUNT)
    if kind == "join":
        emitted = [offset for _, (_, offsets) in sorted(outputs.items()) for offset in offsets]
        assert sorted(emitted) == [row["offset"] for row in rows]
    else:
        windows = defaultdict(set)
        for row in rows:
            windows[row["time"] // 10_000_000 * 10_000_000].add(row["offset"])
        last = {start: set(offsets) for _, (start, offsets) in sorted(outputs.items())}
        front = max(row["time"] for row in rows)
        assert last == {start: members for start, members in windows.items() if start + 10_000_000 <= front}
