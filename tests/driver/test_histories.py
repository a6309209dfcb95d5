"""Random histories with state in the driver: restarts, repeated batches, evicted pages and the way in which rows
travel change no result.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from eventide.testing.hosts import LocalHost
from tests.driver.harness import DriverHost
from tests.effort import SEED, examples
from tests.oracle.histories import FAMILIES, SCHEMA, History, frame_of, pipeline_of, random_histories
from tests.pages.test_histories import seen

HISTORIES = examples(100)
_EACH = examples(3)
_PLANS = max(1, HISTORIES // (len(FAMILIES) * _EACH))
_FATES = ("", "", "", "restart", "repeat")


def difference(history: History, rng: Random, place: Path) -> str | None:
    """Return where a history with state in the driver differs from one in process."""
    pipeline = pipeline_of(history.spec, history.source)
    memory = rng.choice([0, 1 << 30])
    local = LocalHost(pipeline, SCHEMA)
    tasks = rng.choice([0, 1, 3])
    driver = DriverHost(place, pipeline, SCHEMA, memory=memory, tasks=tasks, fate=lambda: rng.choice(_FATES))
    for number, push in enumerate(history.pushes):
        rows = frame_of(push.rows)
        expected, actual = (
            seen(host.bundle(rows, now=push.now, watermark=push.note, polled=True)) for host in (local, driver)
        )
        if expected != actual:
            return f"bundle {number} of {history!r} (memory {memory}, {tasks} tasks)\n{expected}\n{actual}"
    return None


@pytest.mark.parametrize("family", FAMILIES)
def test_state_in_the_driver_and_one_process_agree(family: str, tmp_path: Path) -> None:
    for number in range(_PLANS):
        seed = f"{SEED}/driver/{family}/{number}"
        rng = Random(seed)
        for count, history in enumerate(random_histories(rng, family, _EACH)):
            mismatch = difference(history, rng, tmp_path / f"{number}-{count}")
            assert mismatch is None, f"seed {seed!r}: {mismatch}"
