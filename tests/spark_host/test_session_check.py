"""Sessions in which Eventide cannot run are rejected at the first call."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import eventide as ev
from eventide.spark.checkpoint_storage import address_exists, storage_of
from eventide.spark.hadoop_storage import file_sizes
from eventide.spark.session import imports_eventide

PIPELINE = ev.stream(time="ts").window(ev.tumbling("1 minute")).agg(n=ev.count())


class Remote:
    """A DataFrame of Spark Connect, which makes a column of any name that it is asked for."""

    isStreaming = True  # noqa: N815

    def __getattr__(self, name: str) -> Any:
        if name == "sparkContext":
            raise AttributeError(name)
        raise TypeError("'Column' object is not callable")


Remote.__module__ = "pyspark.sql.connect.dataframe"


@pytest.mark.parametrize(
    "call",
    [
        lambda rows: PIPELINE.run(rows, sink="console", checkpoint="x", state="executors"),
        lambda rows: PIPELINE.run({"rows": rows}, sink="console", checkpoint="x", state="executors"),
        lambda rows: ev.scan_parquet("data/", spark=rows),
        lambda rows: ev.scan_stream("marks", spark=rows),
        lambda rows: ev.rescale("x", buckets=2, spark=rows),
        lambda rows: storage_of("s3://bucket/checkpoint", rows),
    ],
    ids=["executors", "executors by name", "scan", "scan of a stream", "rescale", "remote checkpoint"],
)
def test_what_cannot_work_over_spark_connect_is_rejected_in_one_sentence(call: Any) -> None:
    with pytest.raises(ev.PlanError, match=r"Spark Connect[^.]*: \w.*\.$") as rejected:
        call(Remote())
    assert ". " not in str(rejected.value)


def test_a_session_on_spark_connect_is_not_for_the_session_builder() -> None:
    with pytest.raises(ev.PlanError, match=r"not for Spark Connect \(sc://there\): create"):
        ev.spark_session(master="sc://there")


def test_files_that_a_client_cannot_look_up_are_not_missing(tmp_path: Path) -> None:
    remote: Any = Remote()
    assert address_exists("s3a://bucket/rows.parquet", remote)
    assert not address_exists(str(tmp_path / "rows.parquet"), remote)
    assert file_sizes(["s3a://bucket/rows.parquet"], remote) == {"s3a://bucket/rows.parquet": None}


def test_a_python_of_workers_must_be_able_to_import_eventide(tmp_path: Path) -> None:
    assert imports_eventide(sys.executable)
    assert not imports_eventide(str(tmp_path / "python"))
