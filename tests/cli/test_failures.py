"""How errors are reported, and where the log of Java is written."""

from __future__ import annotations

import os
import re

import pytest

from eventide._familiar_options import COMMAND_OPTIONS, COMMANDS
from eventide.cli import terminal as failing
from eventide.cli.app import app
from eventide.cli.spark_options import open_session
from eventide.cli.terminal import quiet_java
from eventide.errors import DataError, PlanError
from eventide.spark.query import understood
from tests.cli.typed import typed


class SparkError(Exception):
    """As Spark's errors are."""


SparkError.__module__ = "pyspark.errors.exceptions.captured"


def test_the_stack_of_java_is_left_out() -> None:
    cause = SparkError(
        "[PATH_NOT_FOUND] Path does not exist: /in. SQLSTATE: 42K03\n\tat org.apache.spark.Some.thing(X.scala)"
    )
    message = failing.error_text(cause)
    assert message.startswith("Spark failed: [PATH_NOT_FOUND] Path does not exist: /in. SQLSTATE: 42K03\n")
    assert "org.apache" not in message


def test_of_a_function_that_failed_only_its_own_line_is_reported() -> None:
    trace = 'Traceback (most recent call last):\n  File "py4j.py", line 1\nTraceback (most recent call last):\n'
    message = failing.error_text(
        SparkError(f'[STREAM_FAILED] Query {trace}  File "job.py", line 7, in boom\nValueError: no price')
    )
    assert message.startswith('Spark failed: File "job.py", line 7, in boom\nValueError: no price\n')


def test_frames_of_python_of_spark_and_of_eventide_are_left_out() -> None:
    frames = [
        f'  File "{re.__file__}", line 1, in search\n    return 1\n           ^\n',
        '  File "/usr/lib/site-packages/py4j/clientserver.py", line 644, in _call_proxy\n    return getattr(a)\n',
        f'  File "{failing.__file__}", line 3, in write\n    write()\n    ^^^^^^^\n',
        '  File "/home/me/job.py", line 7, in boom\n    float("x")\n    ~~~~~^^^^^\n',
    ]
    message = failing.error_text(
        SparkError(f"Traceback (most recent call last):\n{''.join(frames)}ValueError: no price\nin all")
    )
    frame = 'File "/home/me/job.py", line 7, in boom\n    float("x")\nValueError: no price\nin all\n'
    assert message.startswith(f"Spark failed: {frame}")


def test_that_something_was_called_in_java_is_left_out() -> None:
    cause = SparkError(
        "An error occurred while calling o64.parquet.\n: org.apache.spark.SparkException: [FAILED] Not it."
    )
    assert failing.error_text(cause).startswith("Spark failed: [FAILED] Not it.")


@pytest.mark.parametrize(
    "rest", [" SQLSTATE: 39000 SQLSTATE: XXKST", "\n=== Streaming Query ===\nIdentifier: a", "\n\n"]
)
def test_what_spark_adds_to_our_own_words_is_left_out(rest: str) -> None:
    text = f"eventide.errors.PlanError: another plan:\n  window: was 'a', is 'b'{rest}"
    assert str(understood(Exception(text))) == "another plan:\n  window: was 'a', is 'b'"


@pytest.mark.parametrize("memory", ["lots", "4", "-1g", "1.5g", ""])
def test_memory_that_is_none_is_rejected_before_java_starts(memory: str) -> None:
    with pytest.raises(PlanError, match="such as 4g or 512m"), open_session("test", memory=memory):
        pass


def test_messages_of_eventide_are_reported_unchanged() -> None:
    assert failing.error_text(DataError("A watermark goes back.")) == "A watermark goes back."


@pytest.mark.parametrize(
    ("cause", "code"),
    [
        (DataError("no state"), 2),
        (FileNotFoundError(2, "No such file", "job.py"), 2),
        (ModuleNotFoundError("No module named 'psycopg'"), 2),
        (SparkError("the query failed"), 1),
        (ZeroDivisionError("division by zero"), 1),
    ],
)
def test_the_exit_code_says_whose_turn_it_is(cause: Exception, code: int) -> None:
    assert failing.exit_with_error(cause).exit_code == code


def test_java_is_quiet_and_we_are_not(capfd: pytest.CaptureFixture[str]) -> None:
    with quiet_java():
        os.write(2, b"WARNING: Using incubator modules\n")
    os.write(2, b"ours\n")
    assert capfd.readouterr().err == "ours\n"
    assert "incubator" in failing.spark_log().read_text(encoding="utf-8")


def test_with_debug_java_is_heard(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failing, "_traces", True)
    with quiet_java():
        os.write(2, b"WARNING: Using incubator modules\n")
    assert "incubator" in capfd.readouterr().err


def test_where_spark_failed_its_log_is_named_and_kept(capfd: pytest.CaptureFixture[str]) -> None:
    with quiet_java():
        os.write(2, b"ERROR: disk full\n")
    log = failing.spark_log()
    failing.exit_with_error(SparkError("the query failed"))
    assert f"Spark's own log: {log}" in capfd.readouterr().err
    assert failing.spark_log() != log
    log.unlink()


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        (["run", "job.py", "--once"], "Possible options: --available-now"),
        (["run", "job.py", "--output", "x"], "Possible options: --sink"),
        (["control", "checkpoints/revenue", "drain"], "Use drain, retire, skip-gap, advance-watermark or end."),
        (["note", "checkpoints/revenue"], "Use advance-watermark."),
        (["docter"], "Did you mean 'doctor'?"),
    ],
)
def test_words_of_other_systems_have_a_hint(command: list[str], hint: str) -> None:
    typed_command = typed(*command)
    assert typed_command.exit_code == 2 and hint in " ".join(typed_command.stderr.split())


def test_familiar_words_are_no_commands_and_no_options_of_run() -> None:
    commands = {command.name for command in app.registered_commands}
    options = typed("run", "--help").stdout
    assert not commands & set(COMMANDS)
    assert not [word for word in COMMAND_OPTIONS if f" {word} " in options]
