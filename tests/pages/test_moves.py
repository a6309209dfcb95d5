"""State that moves between numbers of buckets, at any time, changes no result."""

from __future__ import annotations

import os
from functools import partial
from itertools import cycle
from random import Random

import pytest

from eventide.testing.hosts import LocalHost
from eventide.testing.transcripts import Transcript, run
from tests.oracle.histories import FAMILIES, SCHEMA, History, frame_of, pipeline_of, random_histories
from tests.pages.test_histories import seen
from tests.pages.test_transcripts import TRANSCRIPTS, transcript_id
from tests.spark.harness import PagesHost

HISTORIES = int(os.environ.get("EVENTIDE_HISTORIES", "400")) // 10
SEED = os.environ.get("EVENTIDE_SEED", "0")
_EACH = 4
_PLANS = max(1, HISTORIES // (len(FAMILIES) * _EACH))
_MOVES = (None, None, 1, 2, 3, 5)


def difference(history: History, rng: Random) -> str | None:
    """Return where a history whose state moves differs from one in process."""
    pipeline = pipeline_of(history.spec, history.source)
    local = LocalHost([pipeline], SCHEMA)
    moved = PagesHost([pipeline], SCHEMA, buckets=rng.choice([1, 3]), moves=lambda: rng.choice(_MOVES))
    for number, push in enumerate(history.pushes):
        rows = frame_of(push.rows)
        expected, actual = (
            seen(host.bundle(rows, now=push.now, watermark=push.note, polled=True)) for host in (local, moved)
        )
        if expected != actual:
            return f"bundle {number} of {history!r}\n{expected}\n{actual}"
    return None


@pytest.mark.parametrize("family", FAMILIES)
def test_state_that_moves_gives_what_one_process_gives(family: str) -> None:
    for number in range(_PLANS):
        seed = f"{SEED}/moves/{family}/{number}"
        rng = Random(seed)
        for history in random_histories(rng, family, _EACH):
            found = difference(history, rng)
            assert found is None, f"seed {seed!r}: {found}"


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=transcript_id)
def test_every_transcript_holds_while_state_moves(transcript: Transcript) -> None:
    counts = cycle([2, 1, 3])
    run(transcript, host=partial(PagesHost, buckets=1, moves=lambda: next(counts)))
