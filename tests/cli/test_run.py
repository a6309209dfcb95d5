"""What ``eventide run`` rejects before Spark is started, and what it says of a stream that has ended."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from eventide.cli.jobs import Job
from eventide.cli.shutdown import StopRequest
from tests.cli.typed import typed

PIPELINE = """
import eventide as ev
pipeline = ev.stream(time='ts', watermark=ev.bounded_delay('30s')).window(ev.tumbling('1 minute')).agg(n=ev.count())
"""
STATEMENT = """
CREATE STREAM ticks WATERMARK FOR timestamp AS timestamp - INTERVAL '10' SECOND;
SELECT window_start, COUNT(*) AS n FROM TUMBLE(ticks, DESCRIPTOR(timestamp), INTERVAL '1' MINUTE)
GROUP BY window_start, window_end
"""


class StartedError(Exception):
    """Spark would have been started."""


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*words: Any, **options: Any) -> None:
        raise StartedError

    monkeypatch.setattr("eventide.cli.spark_options.open_session", started)


def run(place: Path, *words: str, job: str = PIPELINE) -> Result:
    (place / "job.py").write_text(job, encoding="utf-8")
    return typed("run", str(place / "job.py"), "--checkpoint", str(place / "checkpoint"), *words)


def starts(result: Result) -> bool:
    return "StartedError" in result.stderr


def ran(place: Path, *, drained: bool, committed: bool = True) -> None:
    """A checkpoint whose last batch is the seventh."""
    checkpoint = place / "checkpoint"
    (checkpoint / "eventide").mkdir(parents=True)
    if drained:
        (checkpoint / "eventide" / "drained").write_text("7\n", encoding="utf-8")
    (checkpoint / "commits").mkdir()
    for batch in (6, 7) if committed else (6,):
        (checkpoint / "commits" / str(batch)).write_text("v1", encoding="utf-8")


def test_a_checkpoint_that_was_drained_is_rejected(tmp_path: Path) -> None:
    ran(tmp_path, drained=True)
    result = run(tmp_path, "rate:1", "--drain")
    assert result.exit_code == 2
    assert "was drained: its stream has ended" in result.stderr and "Use a new checkpoint" in result.stderr


def test_a_stream_without_a_watermark_is_rejected(tmp_path: Path) -> None:
    result = run(tmp_path, "rate:1", job=PIPELINE.replace(", watermark=ev.bounded_delay('30s')", ""))
    assert result.exit_code == 2 and "The stream has no watermark" in result.stderr


def test_a_checkpoint_that_was_not_drained_continues(tmp_path: Path) -> None:
    ran(tmp_path, drained=False)
    assert starts(run(tmp_path, "rate:1"))


def test_a_drain_that_a_crash_has_interrupted_continues(tmp_path: Path) -> None:
    ran(tmp_path, drained=True, committed=False)
    assert starts(run(tmp_path, "rate:1", "--drain"))


def test_a_job_without_rows_is_rejected_before_spark_starts(tmp_path: Path) -> None:
    result = run(tmp_path, "--sink", "noop")
    assert result.exit_code == 2 and "has no source" in result.stderr


def test_a_job_whose_rows_are_no_function_is_rejected_before_spark_starts(tmp_path: Path) -> None:
    result = run(tmp_path, job=f"{PIPELINE}rows = 5\n")
    assert result.exit_code == 2 and "rows is 5, and not a function" in result.stderr


@pytest.mark.parametrize("output", ["--sink", "--late", "--dead"])
def test_rows_are_not_printed_among_json(tmp_path: Path, output: str) -> None:
    sink = [] if output == "--sink" else ["--sink", "noop"]
    result = run(tmp_path, "rate:1", "--json", *sink, output, "console")
    assert result.exit_code == 2 and f"Name another {output}" in result.stderr


@pytest.mark.parametrize("command", ["explain", "run"])
def test_what_a_job_prints_is_no_result(tmp_path: Path, command: str) -> None:
    (tmp_path / "job.py").write_text(f"print('hello')\n{PIPELINE}", encoding="utf-8")
    words = ["rate:1", "--sink", "noop", "--json"] if command == "run" else []
    result = typed(command, str(tmp_path / "job.py"), *words)
    assert "hello" not in result.stdout and "hello" in result.stderr


def test_a_file_is_no_source(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").touch()
    result = run(tmp_path, f"parquet:{tmp_path}/a.parquet", "--sink", "noop")
    assert result.exit_code == 2 and "is a file. Name the directory" in result.stderr


def test_a_trace_that_cannot_be_written_is_rejected_before_spark_starts(tmp_path: Path) -> None:
    result = run(tmp_path, "rate:1", "--sink", "noop", "--trace", str(tmp_path))
    assert result.exit_code == 2 and "Is a directory" in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--trigger", "availableNow"], "There is no --trigger: write --available-now."),
        (["--trigger", "1 minute"], "There is no --trigger: write --interval '1 minute'."),
        (["--interval", "10s", "--available-now"], "--available-now ends the run with the available rows"),
        (["--interval", "10s", "--drain"], "--drain ends the run with the available rows"),
        (["--interval", "soon"], "--interval 'soon'"),
        (["--state", "auto"], "'auto' is not one of 'driver', 'executors'"),
        (["--on-missing-file", "ignore"], "'ignore' is not one of 'fail', 'skip'"),
        (["--storage", "nowhere"], "--storage 'nowhere'"),
        (["--state-memory", "much"], "--state-memory 'much' is not a size. Write 2g"),
        (["--state", "executors", "--single-writer"], "--single-writer is for commit records"),
        (["--sink", "noop", "--limit", "5"], "--limit has no effect"),
        (["--local", "--checkpoint", "x"], "--checkpoint has no effect with --local"),
    ],
)
def test_options_that_do_not_fit_are_rejected_before_spark_starts(
    tmp_path: Path, words: list[str], message: str
) -> None:
    result = run(tmp_path, "rate:1", *words)
    assert result.exit_code == 2 and message in result.stderr, result.stderr


@pytest.mark.parametrize(
    "words", [["--interval", "10 seconds"], ["--available-now"], ["--state", "executors"], ["--limit", "5"]]
)
def test_options_that_fit_start_spark(tmp_path: Path, words: list[str]) -> None:
    assert starts(run(tmp_path, "rate:1", *words))


def test_options_of_late_rows_have_no_effect_without_spark(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(PIPELINE, encoding="utf-8")
    for command in ("run", str(tmp_path / "job.py")), ("sql", STATEMENT):
        result = typed(*command, "rate:1", "--local", "--whole-rows")
        assert result.exit_code == 2 and "--whole-rows has no effect with --local" in result.stderr


@pytest.mark.parametrize("command", ["run", "sql"])
def test_options_reach_the_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    started: list[dict[str, Any]] = []

    def start(job: Job, rows: Any, **options: Any) -> Any:
        started.append(options)
        raise StartedError

    monkeypatch.setattr("eventide.cli.spark_options.open_session", lambda *_, **__: nullcontext())
    monkeypatch.setattr("eventide.cli.query_runner._rows", lambda *_: None)
    monkeypatch.setattr("eventide.cli.query_runner.stop_on_signal", lambda *_: nullcontext(StopRequest()))
    monkeypatch.setattr(Job, "start", start)
    words = ["rate:1", "--sink", "noop", "--state-memory", "1g", "--whole-rows", "--source-position"]
    expected: dict[str, Any] = {"state_memory": "1g", "whole_rows": True, "source_position": True}
    if command == "run":
        run(tmp_path, *words, "--single-writer")
        expected["single_writer"] = True
    else:
        typed("sql", STATEMENT, *words)
    assert [{name: options[name] for name in expected} for options in started] == [expected]
