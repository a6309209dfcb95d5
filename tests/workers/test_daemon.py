"""What the process that forks workers says when one of them fails."""

from __future__ import annotations

import pytest

from pyspark_eventide.daemon import told_unless_left


@pytest.mark.parametrize(
    ("failure", "heard"), [(BrokenPipeError("gone"), ""), (ValueError("a mistake"), "ValueError: a mistake")]
)
def test_a_worker_that_spark_has_left_goes_without_a_word(
    failure: Exception, heard: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        raise failure
    except Exception:
        told_unless_left()
    said = capsys.readouterr().err.strip()
    assert said.endswith(heard) if heard else not said
