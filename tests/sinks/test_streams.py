"""A stream as a sink, without Spark: how it is opened, and what it notes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructType

from eventide import marks, sinks
from eventide.errors import PlanError
from eventide.sinks import OutputInfo
from eventide.sinks import marks_stream as streams
from eventide.time import LAST, MAX, MIN

ABOUT = OutputInfo("panes", (), "discarding", query="q")
PANES = StructType().add("n", LongType())


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/shop.db#revenue"


def noted(address: str) -> list[tuple[str, int]]:
    stream = marks.open_stream(address)
    return [(note.writer, note.time) for note in stream.store.notes(stream.name)]


def test_a_stream_that_is_not_there_is_made_with_the_columns_of_the_rows(address: str) -> None:
    sinks.stream(address).open(PANES, ABOUT)
    assert marks.open_stream(address).schema == pa.schema({"n": pa.int64()})


def test_a_stream_without_a_column_of_the_rows_is_rejected_before_the_query_starts(address: str) -> None:
    marks.create_stream(address, schema=pa.schema({"m": pa.int64()}))
    with pytest.raises(PlanError, match="The stream has no column 'n'"):
        sinks.stream(address).open(PANES, ABOUT)


def test_what_is_no_address_is_rejected_before_the_query_starts() -> None:
    with pytest.raises(PlanError, match="is not the address of a stream"):
        sinks.stream("revenue").open(PANES, ABOUT)


def test_the_promise_is_noted_and_nothing_before_there_is_one(address: str) -> None:
    sink = sinks.stream(address)
    sink.open(PANES, ABOUT)
    sink.advance(MIN, ABOUT)
    assert noted(address) == []
    sink.advance(50, ABOUT)
    assert noted(address) == [("q-panes", 50)]
    sink.advance(MAX, ABOUT)
    assert noted(address) == [("q-panes", LAST)]


def test_an_output_watermark_that_does_not_advance_is_noted_again(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that says nothing would be forgotten, and time go on without it."""
    now = [100.0]
    monkeypatch.setattr(streams.clock, "monotonic", lambda: now[0])
    sink = sinks.stream(address, writer_id="job")
    sink.open(PANES, ABOUT)
    stream = marks.open_stream(address)
    noted = []
    for seconds in (0.0, 5.0, 6.0):
        now[0] += seconds
        sink.advance(50, ABOUT)
        noted.append(stream.store.notes("revenue")[0].at)
    assert noted[0] == noted[1] < noted[2]
