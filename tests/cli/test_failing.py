"""What is told of an error, and where the noise of Java goes."""

from __future__ import annotations

import os

import pytest

from eventide.cli import failing
from eventide.cli.screen import quiet_java
from eventide.errors import DataError


class SparkError(Exception):
    """As Spark's errors are."""


SparkError.__module__ = "pyspark.errors.exceptions.captured"


def test_the_stack_of_java_is_left_out() -> None:
    cause = SparkError(
        "[PATH_NOT_FOUND] Path does not exist: /in. SQLSTATE: 42K03\n\tat org.apache.spark.Some.thing(X.scala)"
    )
    said = failing.told(cause)
    assert said.startswith("Spark says: [PATH_NOT_FOUND] Path does not exist: /in. SQLSTATE: 42K03\n")
    assert "org.apache" not in said


def test_of_a_function_that_failed_only_its_own_place_is_told() -> None:
    trace = 'Traceback (most recent call last):\n  File "py4j.py", line 1\nTraceback (most recent call last):\n'
    said = failing.told(
        SparkError(f'[STREAM_FAILED] Query {trace}  File "job.py", line 7, in boom\nValueError: no price')
    )
    assert said.startswith('Spark says: File "job.py", line 7, in boom\nValueError: no price\n')


def test_our_own_words_are_told_as_they_are() -> None:
    assert failing.told(DataError("A watermark goes back.")) == "A watermark goes back."


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
    assert failing.failed(cause).exit_code == code


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
    failing.failed(SparkError("the query failed"))
    assert f"Spark's own log: {log}" in capfd.readouterr().err
    assert failing.spark_log() != log
    log.unlink()
