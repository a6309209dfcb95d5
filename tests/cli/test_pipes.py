"""A reader that goes away (``| head -1``) ends the program quietly; a disk that is full is no mistake."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from eventide.cli import query_runner as running
from eventide.cli import terminal as screen
from eventide.cli.shutdown import PrintingSink
from eventide.spark.metrics import BatchMetrics
from eventide.time import as_datetime

JOB = """
import eventide as ev
pipeline = ev.stream(time='ts', watermark=ev.bounded_delay('30s')).window(ev.tumbling('1 minute')).agg(n=ev.count())
"""


def explained(place: Path, output: int) -> tuple[int, str]:
    (place / "job.py").write_text(JOB, encoding="utf-8")
    words = [sys.executable, "-m", "eventide", "explain", str(place / "job.py")]
    done = subprocess.run(words, stdout=output, stderr=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stderr


def test_a_reader_that_is_gone_ends_a_command_quietly(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        assert explained(tmp_path, writer) == (141, "")
    finally:
        os.close(writer)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_full_disk_is_no_mistake_of_the_command(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        code, printed = explained(tmp_path, full.fileno())
    assert code == 1
    assert "No space left" in printed and "Traceback" not in printed


def gone(*words: Any) -> None:
    raise BrokenPipeError(32, "Broken pipe")


def test_a_query_whose_reader_is_gone_stops_after_its_batch_and_does_not_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def batch(order: Any, rows: Any, listeners: Any, asked: threading.Event) -> None:
        for listener in listeners:
            listener(BatchMetrics(batch=0, depth=0, at=as_datetime(5)))
        assert asked.is_set()

    monkeypatch.setattr(screen, "print_json", gone)
    monkeypatch.setattr(running, "_rows", lambda order, spark: None)
    monkeypatch.setattr(running, "_run", batch)
    spark: Any = SimpleNamespace(streams=SimpleNamespace(active=[]))
    job: Any = SimpleNamespace(pipeline=SimpleNamespace(plans=(None,), following=()))
    with pytest.raises(typer.Exit) as ended:
        running.run_request(running.RunRequest(job, {}, {}, "checkpoint", json=True), spark)
    assert ended.value.exit_code == 141
    assert capsys.readouterr().err == ""


def test_panes_that_nobody_reads_are_no_failure() -> None:
    reports: list[str] = []
    sink: Any = SimpleNamespace(write=gone)
    PrintingSink(sink, lambda: reports.append("nobody")).write(None, 0, None)  # type: ignore[arg-type]
    assert reports == ["nobody"]
