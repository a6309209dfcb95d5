"""``eventide repair``: what it rejects before Spark is started, and what it tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eventide.cli.state_commands import repair_lines
from eventide.spark.repair import LIMIT, Repair
from tests.cli.typed import typed

MINUTE = 60_000_000


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*words: Any, **options: Any) -> None:
        raise AssertionError("Spark would have been started")

    monkeypatch.setattr("eventide.cli.spark_options.open_session", started)


def test_a_directory_that_is_no_checkpoint_is_rejected(tmp_path: Path) -> None:
    result = typed("repair", str(tmp_path), "--watermark", "2026-03-01T12:00Z")
    assert result.exit_code == 2 and "is not the checkpoint" in result.stderr


def test_a_watermark_must_be_an_instant(tmp_path: Path) -> None:
    result = typed("repair", str(tmp_path), "--watermark", "yesterday")
    assert result.exit_code == 2 and "--watermark" in result.stderr


def test_closed_windows_are_listed() -> None:
    lines = repair_lines(Repair(9 * MINUTE, MINUTE, [(MINUTE, 2 * MINUTE)]))
    assert lines[0].startswith("The watermark is lowered from 1970-01-01T00:09:00Z to 1970-01-01T00:01:00Z")
    assert "  1970-01-01T00:01:00Z to 1970-01-01T00:02:00Z" in lines and "  and later ones" not in lines


def test_many_closed_windows_are_cut_short() -> None:
    closed = [(number * MINUTE, (number + 1) * MINUTE) for number in range(LIMIT + 1)]
    lines = repair_lines(Repair(9 * MINUTE, MINUTE, closed))
    assert lines.count("  and later ones") == 1 and len([line for line in lines if " to 1970" in line]) == LIMIT + 1


def test_without_the_job_closed_windows_are_not_known() -> None:
    assert any("name it with --job" in line for line in repair_lines(Repair(9 * MINUTE, MINUTE, None)))
