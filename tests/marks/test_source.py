"""Spark's source of streams, asked as Spark asks it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from eventide import marks
from eventide.errors import PlanError
from eventide.marks.mark import Mark
from eventide.spark.marks_source import EventsReader, MarksReader, source_schema

SCHEMA = pa.schema({"n": pa.int64()})


@pytest.fixture
def address(tmp_path: Path) -> str:
    address = f"sqlite:///{tmp_path}/shop.db#orders"
    marks.create_stream(address, schema=SCHEMA)
    return address


def put(address: str, *numbers: int) -> None:
    stream = marks.open_stream(address)
    with marks.Writer(stream, "till", routing_key="n", take_over=True) as till:
        till.append(pl.DataFrame({"n": numbers}))


def events(address: str, **options: str) -> EventsReader:
    return EventsReader(address, None, source_schema(address, options), options)


def read(source: EventsReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    return [n for part in source.partitions(start, end) for batch in source.read(part) for n in batch["n"].to_pylist()]


def all_of(source: EventsReader, limit: Any = None) -> list[list[int]]:
    """What each batch reads, as long as there is more."""
    start, rows = source.initialOffset(), []
    while (end := source.latestOffset(start, limit or ReadAllAvailable())) != start:
        rows.append(read(source, start, end))
        start = json.loads(json.dumps(end))
    return rows


def test_a_limit_holds_for_every_batch(address: str) -> None:
    put(address, *range(10))
    assert all_of(events(address), ReadMaxRows(4)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


@pytest.mark.parametrize(
    ("places", "names"), [("true", ["n", "_segment", "_offset", "_mark"]), ("false", ["n"]), ("False", ["n"])]
)
def test_events_come_with_their_places_unless_they_are_not_wanted(address: str, places: str, names: list[str]) -> None:
    put(address, 7, 8)
    source = events(address, places=places)
    start = source.initialOffset()
    (part,) = source.partitions(start, source.latestOffset(start, ReadAllAvailable()))
    (batch,) = source.read(part)
    whole = {"n": [7, 8], "_segment": [0, 0], "_offset": [0, 1], "_mark": [0, 0]}
    assert batch.to_pydict() == {name: whole[name] for name in names}


def sent(address: str, rows: int) -> list[dict[str, list[int]]]:
    """The Arrow batches for Spark."""
    source = events(address)
    start = source.initialOffset()
    (part,) = source.partitions(start, source.latestOffset(start, ReadMaxRows(rows)))
    return [batch.to_pydict() for batch in source.read(part)]


def test_small_appends_are_sent_to_spark_together(address: str) -> None:
    for first in range(0, 30, 10):
        put(address, *range(first, first + 10))
    (batch,) = sent(address, 25)
    assert batch["n"] == batch["_offset"] == list(range(25)) and set(batch["_segment"]) == {0}


def test_large_appends_are_sent_to_spark_as_they_are(address: str) -> None:
    for first in range(0, 60_000, 20_000):
        put(address, *range(first, first + 20_000))
    batches = sent(address, 55_000)
    assert [len(batch["n"]) for batch in batches] == [20_000, 20_000, 15_000]
    for column in ("n", "_offset"):
        assert [number for batch in batches for number in batch[column]] == list(range(55_000))
    assert {number for batch in batches for number in batch["_mark"]} == {0}


def test_a_stream_without_events_has_no_batch(address: str) -> None:
    assert all_of(events(address)) == []


def test_the_earliest_position_is_behind_all_that_was_truncated(address: str) -> None:
    stream = marks.open_stream(address)
    for first in (0, 100, 200):
        put(address, *range(first, first + 10))
        if first < 200:
            stream.split(stream.segments.open[0].number)
    lengths = stream.store.lengths("orders")
    stream.truncate({segment.number: lengths[segment.number] for segment in stream.segments.open})
    put(address, *range(300, 310))
    assert sorted(n for batch in all_of(events(address)) for n in batch) == list(range(300, 310))


def test_a_first_batch_that_is_asked_for_again_is_the_same(address: str) -> None:
    put(address, *range(5))
    source = events(address, start="latest")
    start = source.initialOffset()
    put(address, 5, 6)
    end = source.latestOffset(start, ReadAllAvailable())
    put(address, 7)
    again = events(address, start="latest")  # restarted, before anything was committed
    assert read(again, again.initialOffset(), end) == [5, 6]


def test_what_comes_meanwhile_is_not_read_by_available_now(address: str) -> None:
    put(address, 0, 1)
    source = events(address)
    source.prepareForTriggerAvailableNow()
    put(address, 2)
    assert all_of(source) == [[0, 1]]


@pytest.mark.parametrize("start", ['{"0": 1000}', '{"0": -5}'])
def test_a_start_where_nothing_is_is_rejected(address: str, start: str) -> None:
    put(address, 0)
    with pytest.raises(PlanError, match="has 1 events"):
        events(address, start=start).initialOffset()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": "yesterday"}, "it must be 'earliest', 'latest', or a cut"),
        ({"start": '{"7": 0}'}, "is not a cut of stream 'orders'"),
        ({"rows_per_batch": "0"}, "whole number, 1 or more"),
        ({"places": "no"}, "must be 'true' or 'false'"),
    ],
)
def test_options_that_cannot_be_used_are_rejected(address: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        events(address, **options).initialOffset()


def test_a_stream_that_was_made_anew_is_not_taken_for_the_old_one(address: str) -> None:
    put(address, *range(5))
    source = events(address)
    end = source.latestOffset(source.initialOffset(), ReadAllAvailable())
    marks.open_stream(address).delete()
    marks.create_stream(address, schema=SCHEMA)
    with pytest.raises(PlanError, match="beyond them"):
        source.latestOffset(end, ReadAllAvailable())


def test_where_an_event_was_is_never_null_and_its_own_columns_may_be(address: str) -> None:
    nullable = {field.name: field.nullable for field in source_schema(address, {})}
    assert nullable == {"n": True, "_segment": False, "_offset": False, "_mark": False}


def test_columns_that_spark_has_no_type_for_are_rejected(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/shop.db#odd"
    marks.create_stream(address, schema=pa.schema({"n": pa.uint64()}))
    with pytest.raises(PlanError, match="Spark has no type for column 'n' of stream 'odd'"):
        source_schema(address, {})


def test_marks_say_only_what_earlier_ones_did_not(address: str) -> None:
    stream = marks.open_stream(address)
    put(address, *range(4))
    stream.split(0)
    put(address, *range(4, 10))
    lease = stream.store.acquire("orders", "controller", stream.store.now() + 10**9)
    assert lease is not None
    lengths = stream.store.lengths("orders")
    for number, cut in ((1, {0: 3}), (2, {1: 0, 2: lengths[2]}), (3, {1: lengths[1], 2: lengths[2]})):
        stream.store.put_mark(lease, Mark(number, number * 10, 90, cut, 0))
    source = MarksReader(address, None, "orders of mine")
    start = source.initialOffset()
    end = source.latestOffset(start, ReadAllAvailable())
    entries = [json.loads(line) for part in source.partitions(start, end) for (line,) in source.read(part)]
    assert [entry["time"] for entry in entries] == [10, 20, 30]
    assert [entry["reached"] for entry in entries] == [{"0": 3}, {"0": 4, "2": lengths[2]}, {"1": lengths[1]}]
    assert {entry["stream"] for entry in entries} == {"orders of mine"}
    (later,) = source.partitions({"mark": 2}, end)
    assert [json.loads(line)["reached"] for (line,) in source.read(later)] == [{"1": lengths[1]}]
