"""Buckets, tasks and pages change no result: every transcript, over the stages of the Spark host."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from eventide.testing.transcripts import Transcript, load, run
from tests.spark.harness import PagesHost

FILES = sorted((Path(__file__).parent.parent / "transcripts").glob("*.yaml"))
# Spark asks every source in every batch, so it has no time in which a source is not polled.
UNPOLLED = "time in which the source is not polled makes nobody idle"
TRANSCRIPTS = [transcript for file in FILES for transcript in load(file) if transcript.name != UNPOLLED]


def _id(transcript: Transcript) -> str:
    return f"{Path(transcript.place).name.split('.')[0]}: {transcript.name}"


@pytest.mark.parametrize("knows", [True, False], ids=["watermark known", "watermark unknown"])
@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=_id)
def test_transcript_over_pages(transcript: Transcript, knows: bool) -> None:
    run(transcript, host=partial(PagesHost, buckets=3, tasks=2, knows=knows))
