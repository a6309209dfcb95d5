"""Sessions in which Eventide cannot run are rejected at the first call."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import eventide as ev
from eventide.spark.session import imports_eventide

PIPELINE = ev.stream(time="ts").window(ev.tumbling("1 minute")).agg(n=ev.count())


class Remote:
    """A DataFrame of Spark Connect, which makes a column of any name that it is asked for."""

    isStreaming = True  # noqa: N815

    def __getattr__(self, name: str) -> Any:
        raise TypeError("'Column' object is not callable")


Remote.__module__ = "pyspark.sql.connect.dataframe"


@pytest.mark.parametrize(
    "call",
    [
        PIPELINE,
        lambda rows: PIPELINE.run(rows, sink="console", checkpoint="x"),
        lambda rows: ev.outputs(PIPELINE, rows),
        lambda rows: PIPELINE({"rows": rows}),
    ],
    ids=["transform", "run", "outputs", "by name"],
)
def test_spark_connect_is_rejected_in_one_sentence(call: Any) -> None:
    with pytest.raises(
        ev.PlanError, match=r"^Eventide does not run over Spark Connect: [^.]*ev\.spark_session\(\)[^.]*\.$"
    ):
        call(Remote())


def test_a_session_on_spark_connect_is_rejected() -> None:
    with pytest.raises(ev.PlanError, match=r"does not run over Spark Connect \(sc://there\)"):
        ev.spark_session(master="sc://there")


def test_a_python_of_workers_must_be_able_to_import_eventide(tmp_path: Path) -> None:
    assert imports_eventide(sys.executable)
    assert not imports_eventide(str(tmp_path / "python"))
