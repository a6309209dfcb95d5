"""``eventide move`` and ``eventide outputs``: what they reject before Spark is started, and what they tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventide.cli.state_commands import move_lines
from eventide.spark.move import MoveResult
from eventide.spark.query_record import FILE, QueryRecord
from tests.cli.test_repair import no_spark
from tests.cli.typed import typed

__all__ = ["no_spark"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--to", "moon"], "'driver' or on the 'executors'"),
        (["--to", "executors"], "--buckets 8"),
        (["--to", "driver", "--buckets", "2"], "has no buckets"),
        (["--to", "driver"], "is not the checkpoint"),
    ],
)
def test_a_move_that_cannot_work_is_rejected(tmp_path: Path, words: list[str], message: str) -> None:
    result = typed("move", str(tmp_path), *words)
    assert result.exit_code == 2 and message in result.stderr


def test_a_move_says_what_moved_and_how_to_start() -> None:
    lines = move_lines(MoveResult("driver", "executors", 17, [8, 1], 12_345), "checkpoints/revenue")
    assert lines == [
        "The state of checkpoints/revenue moved from the driver to the executors: 12,345 bytes after batch 17 "
        "in 8, 1 buckets.",
        "Start the query with state='executors' (eventide run --state executors).",
    ]


def test_outputs_are_discarded_only_after_they_were_exported(tmp_path: Path) -> None:
    result = typed("outputs", str(tmp_path), "--discard")
    assert result.exit_code == 2 and "--discard needs --export" in result.stderr


def test_a_checkpoint_without_pending_outputs_says_so(tmp_path: Path) -> None:
    (tmp_path / "eventide").mkdir()
    (tmp_path / FILE).write_text(QueryRecord((), "driver").to_text())
    result = typed("outputs", str(tmp_path))
    assert result.exit_code == 0 and result.stdout == "No outputs are pending.\n"
