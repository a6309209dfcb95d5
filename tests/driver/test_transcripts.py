"""Every transcript with state in the driver: restarts, repeated batches and stamps of tasks change no result."""

from __future__ import annotations

from functools import partial
from itertools import cycle
from pathlib import Path

import pytest

from eventide.testing.transcripts import Transcript, run
from tests.driver.harness import DriverHost
from tests.pages.test_transcripts import TRANSCRIPTS, transcript_id


@pytest.mark.parametrize(
    ("tasks", "memory"),
    [pytest.param(0, 1 << 30, id="rows"), pytest.param(2, 0, id="stamps and evicted pages", marks=pytest.mark.long)],
)
@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=transcript_id)
def test_transcript_in_the_driver(transcript: Transcript, tasks: int, memory: int, tmp_path: Path) -> None:
    fates = cycle(["", "restart", "repeat"])
    run(transcript, host=partial(DriverHost, tmp_path, tasks=tasks, memory=memory, fate=lambda: next(fates)))
