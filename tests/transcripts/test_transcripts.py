"""Every transcript of this folder, on the local host."""

from pathlib import Path

import pytest

from eventide.testing.transcripts import Transcript, load, run

HERE = Path(__file__).parent
TRANSCRIPTS = [transcript for file in sorted(HERE.glob("*.yaml")) for transcript in load(file)]


def _id(transcript: Transcript) -> str:
    return f"{Path(transcript.place).name.split('.')[0]}: {transcript.name}"


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=_id)
def test_transcript(transcript: Transcript) -> None:
    run(transcript)


def test_names_are_unique() -> None:
    names = [transcript.name for transcript in TRANSCRIPTS]
    assert sorted(names) == sorted(set(names))
