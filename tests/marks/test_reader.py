"""Readers give each event once, in order for each key, and go on where they had committed."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from eventide.errors import DataError, PlanError
from eventide.marks import Reader, ReaderGroup, Stream, Writer
from eventide.marks.errors import ReaderReplacedError
from eventide.marks.stores.memory import MemoryStore
from eventide.marks.stores.store import Config
from tests.marks.harness import SCHEMA, SHOPS, Clock, order, orders


def filled(stream: Stream, count: int, first: int = 0) -> Stream:
    with Writer(stream, "till", routing_key="shop") as writer:
        writer.append([order(n) for n in range(first, first + count)])
    return stream


def drained(reader: Reader, rows: int = 10_000) -> list[int]:
    """What is there, committed batch by batch."""
    numbers: list[int] = []
    while (batch := reader.read(rows)) is not None:
        numbers += batch.table["n"].to_pylist()
        reader.commit()
    return numbers


def test_events_have_their_position_in_the_segment() -> None:
    stream = filled(orders(segments=2), 8)
    batch = Reader(stream).read()
    assert batch is not None
    assert batch.table.column_names == ["shop", "n", "_segment", "_offset"]
    assert len(set(batch.frame.select("_segment", "_offset").rows())) == len(batch) == 8
    assert batch.position == stream.store.lengths("orders")


def test_nothing_is_read_where_nothing_is() -> None:
    assert Reader(orders()).read() is None


@pytest.mark.parametrize("rows", [1, 3, 1000])
def test_a_batch_has_no_more_rows_than_were_asked_for_and_nothing_is_left_out(rows: int) -> None:
    stream = orders(segments=2)
    for first in range(0, 40, 8):
        filled(stream, 8, first)
    reader = Reader(stream)
    batches = []
    while (batch := reader.read(rows)) is not None:
        assert 0 < len(batch) <= rows
        batches += batch.frame.select("_segment", "_offset", "n").rows()
    assert sorted(n for _, _, n in batches) == list(range(40))
    for segment in (0, 1):
        offsets = [offset for number, offset, _ in batches if number == segment]
        assert offsets == list(range(len(offsets)))


def test_a_large_blob_is_fetched_once_for_many_small_batches() -> None:
    stream = filled(orders(), 100)
    reader = Reader(stream)
    stream.store.calls.clear()  # type: ignore[attr-defined]
    for _ in range(50):
        reader.read(2)
    assert stream.store.calls.count("read") == 1  # type: ignore[attr-defined]


def test_segments_take_turns() -> None:
    stream = filled(orders(segments=2), 64)
    reader = Reader(stream)
    batches = [reader.read(2) for _ in range(4)]
    segments = [batch.table["_segment"][0].as_py() for batch in batches if batch is not None]
    assert segments == [0, 1, 0, 1]


def test_a_reader_that_died_before_its_commit_is_followed_from_the_last_one() -> None:
    stream = filled(orders(), 8)
    reader = Reader(stream, reader_id="one")
    reader.read(3)
    reader.commit()
    reader.read(3)
    assert drained(Reader(stream, reader_id="one")) == [3, 4, 5, 6, 7]


def test_a_commit_covers_what_was_read_and_not_what_was_fetched() -> None:
    stream = filled(orders(), 8)
    reader = Reader(stream)
    reader.read(3)
    reader.commit()
    assert reader.checkpoint() == {0: 3}


def test_successors_are_read_after_their_predecessors_were_committed() -> None:
    stream = filled(orders(), 8)
    stream.split(0)
    filled(stream, 8, 8)
    reader = Reader(stream)
    first = reader.read()
    assert first is not None and first.table["n"].to_pylist() == list(range(8))
    assert reader.read() is None
    reader.commit()
    assert (reader.segments, sorted(drained(reader))) == ([1, 2], list(range(8, 16)))


def test_events_of_a_key_come_in_order_through_splits_and_merges() -> None:
    stream = filled(orders(segments=2), 8)
    stream.split(0, into=3)
    filled(stream, 8, 8)
    stream.merge(3, 4, 1)
    filled(stream, 8, 16)
    numbers = drained(Reader(stream), rows=3)
    assert sorted(numbers) == list(range(24))
    for place in range(len(SHOPS)):
        assert [n for n in numbers if n % len(SHOPS) == place] == list(range(place, 24, len(SHOPS)))


def test_a_segment_that_is_sealed_after_it_was_read_is_left_at_once() -> None:
    stream = filled(orders(), 8)
    reader = Reader(stream)
    drained(reader)
    stream.split(0)
    filled(stream, 8, 8)
    assert sorted(drained(reader)) == list(range(8, 16))


def test_a_new_group_begins_where_it_is_reported() -> None:
    stream = filled(orders(), 8)
    latest = Reader(stream, "latest", start="latest")
    filled(stream, 2, 8)
    assert drained(latest) == [8, 9]
    assert drained(Reader(stream, "cut", start=json.loads(json.dumps({0: 6})))) == [6, 7, 8, 9]
    assert drained(Reader(stream, "cut", start="earliest")) == []  # the group is there already


def test_the_earliest_event_is_the_first_one_that_was_not_truncated() -> None:
    stream = filled(orders(), 8)
    stream.split(0)
    filled(stream, 8, 8)
    stream.truncate({1: 1, 2: 1})
    assert sorted(drained(Reader(stream))) == sorted(set(range(8, 16)) - _first_of(stream))


def _first_of(stream: Stream) -> set[int]:
    whole = orders()
    filled(whole, 8)
    whole.split(0)
    filled(whole, 8, 8)
    return {drained(Reader(whole, str(n), start={1: 0, 2: 0}), rows=1)[n] for n in (0, 1)}


def test_what_was_truncated_before_it_was_read_is_an_error_and_not_a_gap() -> None:
    stream = filled(orders(), 8)
    reader = Reader(stream)
    stream.truncate({0: 4})
    with pytest.raises(DataError, match="was truncated"):
        reader.read()


@pytest.mark.parametrize(
    ("start", "message"),
    [("yesterday", "not a start"), ({0: 1}, "not a cut"), ({0: 1, 1: 99}, "beyond"), ({"a": 1}, "not a start")],
)
def test_a_place_that_is_none_is_rejected(start: object, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        Reader(filled(orders(segments=2), 8), start=start)  # type: ignore[arg-type]


def test_a_stream_that_has_ended_is_at_its_end_when_all_was_read() -> None:
    stream = filled(orders(segments=2), 8)
    reader = Reader(stream)
    stream.seal()
    assert not reader.at_end
    assert reader.read() is not None
    assert reader.at_end
    assert reader.read(wait="1 hour") is None


def test_waiting_ends_when_an_event_comes() -> None:
    import threading

    stream = orders()
    reader = Reader(stream)
    later = threading.Timer(0.02, lambda: filled(stream, 1))
    later.start()
    batch = reader.read(wait="20 seconds")
    later.join()
    assert batch is not None and len(batch) == 1


def test_batches_can_be_iterated() -> None:
    assert [len(batch) for batch in Reader(filled(orders(), 8))] == [8]


def test_a_closed_reader_reads_nothing_more() -> None:
    with Reader(orders()) as reader:
        pass
    reader.close()
    with pytest.raises(PlanError, match="is closed"):
        reader.read()


@pytest.mark.parametrize("rows", [0, -1, 1.5, True])
def test_a_number_of_rows_that_is_none_is_rejected(rows: int) -> None:
    with pytest.raises(PlanError, match="1 or more"):
        Reader(orders()).read(rows)


def test_a_stream_with_a_column_of_the_readers_own_is_rejected() -> None:
    store = MemoryStore()
    store.create_stream("orders", Config(schema=pa.schema({"_offset": pa.int64()})))
    with pytest.raises(PlanError, match="_offset"):
        Reader(Stream(store, "orders"))


def test_a_group_that_was_set_back_reads_again_and_its_readers_must_be_opened_again() -> None:
    stream = filled(orders(), 8)
    reader, group = Reader(stream), ReaderGroup(stream)
    drained(reader)
    group.reset({0: 5})
    with pytest.raises(Exception, match="was reset"):
        reader.read()
    reader.close()
    assert drained(Reader(stream)) == [5, 6, 7]


def test_a_checkpoint_is_where_a_group_can_continue() -> None:
    stream = filled(orders(segments=2), 8)
    reader = Reader(stream)
    reader.read(5)
    reader.commit()
    saved = json.loads(json.dumps(reader.checkpoint()))
    rest = sorted(drained(reader))
    ReaderGroup(stream).reset(saved)
    assert sorted(drained(Reader(stream))) == rest


def test_a_group_that_nobody_has_joined_is_unknown_until_it_is_set() -> None:
    stream = filled(orders(), 8)
    group = ReaderGroup(stream, "billing")
    with pytest.raises(PlanError, match="There is no group 'billing'"):
        group.checkpoint()
    group.reset({0: 5})
    assert drained(Reader(stream, "billing")) == [5, 6, 7]


def test_a_group_that_was_deleted_and_made_again_does_not_know_its_former_readers() -> None:
    clock = Clock()
    stream = filled(orders(clock=clock), 8)
    old = Reader(stream, reader_id="old")
    old.read()
    ReaderGroup(stream).delete()
    clock.now += 1_000_000
    new = Reader(stream, reader_id="new")
    with pytest.raises(ReaderReplacedError, match="was reset or deleted"):
        old.commit()
    assert drained(new) == list(range(8))


def test_a_reader_of_a_stream_that_was_deleted_reads_nothing_of_the_next_one_of_its_name() -> None:
    clock = Clock()
    stream = filled(orders(clock=clock), 8)
    old = Reader(stream, reader_id="old")
    stream.split(0)
    old.read()
    old.commit()
    stream.delete()
    clock.now += 1_000_000
    stream.store.create_stream("orders", Config(schema=SCHEMA))
    filled(stream, 16)
    new = Reader(stream, reader_id="new")
    for call in (old.read, old.commit):
        with pytest.raises(ReaderReplacedError, match="was reset or deleted"):
            call()
    assert drained(new) == list(range(16))
