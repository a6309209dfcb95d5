"""Commands to a query, as files next to its checkpoint, and what a user learns of their effect."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from eventide.errors import PlanError
from eventide.spark import control as control_module
from eventide.spark.control import Control
from eventide.spark.metrics import BatchMetrics, CommandEffect
from eventide.time import as_datetime, instant
from tests.cli.typed import typed

ADVANCE = "advance_watermark"
NOON = instant("2026-03-01T12:00Z")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    (tmp_path / "eventide" / "control").mkdir(parents=True)
    return tmp_path


def sent(checkpoint: Path) -> list[dict[str, Any]]:
    files = (checkpoint / "eventide" / "control").glob("*.json")
    commands = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    return [{name: value for name, value in command.items() if name not in ("sent", "id")} for command in commands]


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["drain"], {"do": "drain"}),
        (["retire", "west"], {"do": "retire", "origin": "west"}),
        (["skip-gap", "west", "--up-to", "41"], {"do": "skip_gap", "origin": "west", "up_to": 41}),
        (["skip-gap"], {"do": "skip_gap", "origin": None, "up_to": None}),
        (["advance-watermark", "2026-03-01T12:00Z"], {"do": ADVANCE, "watermark": NOON, "to": None}),
        (["advance-watermark", "1970-01-01", "--key", "clicks"], {"do": ADVANCE, "watermark": 0, "to": "clicks"}),
        (["advance-watermark", "1970-01-01", "--key", "1"], {"do": ADVANCE, "watermark": 0, "to": 1}),
        (["end"], {"do": "end", "input": None}),
        (["end", "clicks"], {"do": "end", "input": "clicks"}),
    ],
)
def test_a_command_is_sent(checkpoint: Path, words: list[str], command: dict[str, Any]) -> None:
    done = typed(words[0], str(checkpoint), *words[1:])
    assert done.exit_code == 0
    assert sent(checkpoint) == [command]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["retire"], "Missing argument"),
        (["advance-watermark"], "Missing argument"),
        (["advance-watermark", "yesterday"], "yesterday"),
        (["drain", "west"], "unexpected extra argument"),
        (["drain", "--up-to", "5"], "No such option: --up-to"),
        (["retire", "west", "--key", "5"], "No such option: --key"),
        (["stop"], "No such command 'stop'"),
    ],
)
def test_a_command_that_cannot_be_meant_is_rejected_and_not_sent(
    checkpoint: Path, words: list[str], message: str
) -> None:
    result = typed(words[0], str(checkpoint), *words[1:])
    assert result.exit_code == 2 and message in result.stderr
    assert sent(checkpoint) == []


def test_a_checkpoint_that_is_misspelt_is_not_made(tmp_path: Path) -> None:
    result = typed("drain", str(tmp_path / "revenu"))
    assert result.exit_code == 2 and "is not the checkpoint" in result.stderr
    assert not (tmp_path / "revenu").exists()


@pytest.fixture
def running(checkpoint: Path) -> Iterator[Control]:
    """A query that runs on the checkpoint."""
    query = Control(str(checkpoint))
    query.show_running()
    yield query
    query.show_stopped()


Answers = Callable[..., None]


@pytest.fixture
def answers(checkpoint: Path, running: Control, monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Lets the query apply each command when the user begins to wait, in a batch with these metrics."""

    def answer(*, known: bool = True, committed: bool = True, **metrics: Any) -> None:
        def pause(seconds: float) -> None:
            for file in (checkpoint / "eventide" / "control").glob("*.json"):
                command = json.loads(file.read_text(encoding="utf-8"))
                effect = CommandEffect(command["id"], command["do"], command.get("origin"), known)
                running.report([BatchMetrics(batch=7, depth=0, at=as_datetime(0), commands=(effect,), **metrics)])
            (checkpoint / "commits").mkdir(exist_ok=True)
            if committed:
                (checkpoint / "commits" / "7").touch()

        monkeypatch.setattr(control_module.time, "sleep", pause)

    return answer


def test_a_stopped_query_applies_a_command_at_its_next_start(checkpoint: Path) -> None:
    done = typed("drain", str(checkpoint))
    assert done.exit_code == 0
    assert "The query is not running: it applies the command when it starts again." in done.stderr


def test_the_effect_of_a_command_is_reported(checkpoint: Path, answers: Answers) -> None:
    answers(previous_watermark=as_datetime(1_000_000), watermark=as_datetime(9_000_000), panes={"ON_TIME": 3})
    done = typed("retire", str(checkpoint), "till-west")
    assert done.exit_code == 0
    assert done.stderr == (
        "Applied in batch 7: retire till-west. The watermark moved from 1970-01-01T00:00:01Z to 1970-01-01T00:00:09Z. "
        "Emitted: 3 on time.\n"
    )


def test_a_command_that_moves_nothing_says_so(checkpoint: Path, answers: Answers) -> None:
    answers(previous_watermark=as_datetime(9_000_000), watermark=as_datetime(9_000_000))
    done = typed("advance-watermark", str(checkpoint), "1970-01-01T00:00:05Z")
    assert done.exit_code == 0 and "The watermark did not move: it is 1970-01-01T00:00:09Z." in done.stderr


def test_a_drain_is_reported(checkpoint: Path, answers: Answers) -> None:
    answers(previous_watermark=as_datetime(9_000_000), drained=True, panes={"ON_TIME": 2})
    done = typed("drain", str(checkpoint))
    assert "The stream is drained; the watermark was 1970-01-01T00:00:09Z before. Emitted: 2 on time." in done.stderr


def test_an_origin_that_the_query_does_not_know_is_an_error(checkpoint: Path, answers: Answers) -> None:
    answers(known=False, slowest=(("till-west", None), ("till-east", None)))
    done = typed("retire", str(checkpoint), "till-wets")
    assert done.exit_code == 2
    assert "there is no such origin. Did you mean 'till-west'?" in done.stderr


def test_of_many_origins_only_the_slowest_are_named(checkpoint: Path, answers: Answers) -> None:
    answers(known=False, slowest=(("a", None), ("b", None)), origins=40)
    done = typed("retire", str(checkpoint), "till-west")
    assert "There are: 'a', 'b'. There are 38 more." in done.stderr


def test_a_watermark_without_origins_has_none_to_retire(checkpoint: Path, answers: Answers) -> None:
    answers(known=False)
    done = typed("retire", str(checkpoint), "till-west")
    assert done.exit_code == 2 and "nothing has this name" in done.stderr


@pytest.mark.filterwarnings("default")
def test_a_command_that_names_what_is_unknown_warns_in_the_query_and_is_an_error_to_who_waits(
    checkpoint: Path, answers: Answers, running: Control
) -> None:
    answers(known=False)
    command = running.retire("nort")
    with pytest.warns(UserWarning, match="The command retire nort was ignored"), pytest.raises(PlanError, match="nort"):
        running.wait(command)


def test_no_command_waits_longer_than_the_timeout(checkpoint: Path, running: Control) -> None:
    done = typed("drain", str(checkpoint), "--timeout", "0s")
    assert done.exit_code == 1 and "no batch has applied the command within 0 s" in done.stderr


def test_a_batch_that_spark_has_not_committed_has_applied_nothing(checkpoint: Path, answers: Answers) -> None:
    answers(committed=False)
    done = typed("drain", str(checkpoint), "--timeout", "10ms")
    assert done.exit_code == 1


def test_without_waiting_no_effect_is_reported(checkpoint: Path, running: Control) -> None:
    done = typed("drain", str(checkpoint), "--no-wait")
    assert done.exit_code == 0 and "applies the command in its next batch" in done.stderr


def test_a_query_that_has_ended_is_not_running(checkpoint: Path, running: Control) -> None:
    assert Control(str(checkpoint)).is_running
    running.show_stopped()
    assert Control(str(checkpoint)).is_running is False
    assert Control("s3a://shop/checkpoint").is_running is None


def test_two_queries_of_one_process_do_not_block_each_other(checkpoint: Path, running: Control) -> None:
    second = Control(str(checkpoint))
    second.show_running()
    running.show_stopped()
    assert Control(str(checkpoint)).is_running
    second.show_stopped()
    assert not Control(str(checkpoint)).is_running
