"""Commands to a query, as files beside its checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eventide.time import instant
from tests.cli.typed import typed


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    (tmp_path / "eventide" / "control").mkdir(parents=True)
    return tmp_path


def sent(checkpoint: Path) -> list[dict[str, Any]]:
    files = (checkpoint / "eventide" / "control").glob("*.json")
    told = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    return [{name: value for name, value in one.items() if name != "sent"} for one in told]


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["drain"], {"do": "drain"}),
        (["retire", "west"], {"do": "retire", "origin": "west"}),
        (["skip", "west", "--up-to", "41"], {"do": "skip", "origin": "west", "up_to": 41}),
        (["skip"], {"do": "skip", "origin": None, "up_to": None}),
        (["note", "2026-03-01T12:00Z"], {"do": "note", "watermark": instant("2026-03-01T12:00Z")}),
    ],
)
def test_a_command_is_sent(checkpoint: Path, words: list[str], command: dict[str, Any]) -> None:
    done = typed("control", str(checkpoint), *words)
    assert done.exit_code == 0
    assert sent(checkpoint) == [command]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["retire"], "needs an origin"),
        (["note"], "needs a time"),
        (["note", "yesterday"], "yesterday"),
        (["drain", "west"], "takes no 'west'"),
        (["drain", "--up-to", "5"], "--up-to is for skip"),
        (["retire", "west", "--up-to", "5"], "--up-to is for skip"),
        (["note", "2026-03-01T12:00Z", "--up-to", "5"], "--up-to is for skip"),
        (["retire"], "Example: eventide control checkpoints/shop retire till-west"),
        (["note"], "Example: eventide control checkpoints/shop note 2026-03-01T12:00Z"),
        (["stop"], "stop"),
    ],
)
def test_a_command_that_cannot_be_meant_is_refused_and_not_sent(checkpoint: Path, words: list[str], said: str) -> None:
    told = typed("control", str(checkpoint), *words)
    assert told.exit_code == 2 and said in told.stderr
    assert sent(checkpoint) == []


def test_a_checkpoint_that_is_misspelt_is_not_made(tmp_path: Path) -> None:
    told = typed("control", str(tmp_path / "revenu"), "drain")
    assert told.exit_code == 2 and "is not the checkpoint" in told.stderr
    assert not (tmp_path / "revenu").exists()
