"""``eventide rescale`` and ``eventide outputs``: what they reject before Spark is started, and what they tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventide.cli.state_commands import rescale_lines, state_in_use
from eventide.spark.query_record import FILE, OperatorRecord, QueryRecord, write_record
from eventide.spark.replacement import FOLDER
from eventide.spark.rescale import RescaleResult
from eventide.spark.storage import LocalStorage
from tests.cli.test_repair import no_spark
from tests.cli.typed import typed

__all__ = ["no_spark"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--to", "moon"], "'driver' or on the 'executors'"),
        (["--to", "executors"], "--buckets 8"),
        ([], "--buckets 8"),
        (["--buckets", "0"], "an integer from 1 to 65535"),
        (["--to", "driver", "--buckets", "2"], "has no buckets"),
        (["--to", "driver"], "is not the checkpoint"),
    ],
)
def test_a_rescale_that_cannot_work_is_rejected(tmp_path: Path, words: list[str], message: str) -> None:
    result = typed("rescale", str(tmp_path), *words)
    assert result.exit_code == 2 and message in result.stderr


def test_a_rescale_says_where_the_state_is_and_how_to_start() -> None:
    observed = rescale_lines(RescaleResult("driver", "executors", 17, [1, 1], [8, 1], 12_345), "checkpoints/revenue")
    assert observed == [
        "The state of checkpoints/revenue was in the driver, and is on the executors in 8, 1 buckets now: "
        "12,345 bytes after batch 17.",
        "Start the query with state='executors' (eventide run --state executors).",
    ]
    resumed = RescaleResult("executors", "executors", 17, [2], [1], 5, resumed=True)
    first, second, _ = rescale_lines(resumed, "c")
    assert "interrupted" in first and "in 2 buckets, and is on the executors in 1 bucket now" in second


def test_a_rescale_that_fails_says_which_state_is_in_use(tmp_path: Path) -> None:
    operator = OperatorRecord({}, 4, {}, {})
    write_record(LocalStorage(tmp_path), QueryRecord((operator,), "executors"))
    assert state_in_use(LocalStorage(tmp_path)) == "Nothing was changed."  # the query has finished no batch
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits/0").touch()
    assert state_in_use(LocalStorage(tmp_path)) == "The query uses the state on the executors, in 4 buckets."
    LocalStorage(tmp_path).replace(f"{FOLDER}/1.json", b'{"phase": "abandoned"}')
    assert "in 4 buckets" in state_in_use(LocalStorage(tmp_path))
    LocalStorage(tmp_path).replace(f"{FOLDER}/2.json", b'{"phase": "move"}')
    assert "The new state is complete" in state_in_use(LocalStorage(tmp_path))


def test_outputs_are_discarded_only_after_they_were_exported(tmp_path: Path) -> None:
    result = typed("outputs", str(tmp_path), "--discard")
    assert result.exit_code == 2 and "--discard needs --export" in result.stderr


def test_a_checkpoint_without_pending_outputs_says_so(tmp_path: Path) -> None:
    (tmp_path / "eventide").mkdir()
    (tmp_path / FILE).write_text(QueryRecord((), "driver").to_text())
    result = typed("outputs", str(tmp_path))
    assert result.exit_code == 0 and result.stdout == "No outputs are pending.\n"
