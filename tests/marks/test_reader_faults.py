"""Readers whose store fails: nothing that was not given to anybody is ever committed."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventide.marks import Reader, ReaderGroup, Stream, Writer, create_stream
from eventide.marks.errors import ReaderReplacedError, SegmentsLostError
from eventide.marks.stores.sql_store import SqlStore
from tests.marks.harness import SCHEMA, UNANSWERED, Clock, FailingStore, order, orders


def filled(stream: Stream, count: int, first: int = 0) -> Stream:
    with Writer(stream, "till", routing_key="shop") as writer:
        writer.append([order(n) for n in range(first, first + count)])
    return stream


def failing(stream: Stream) -> FailingStore:
    assert isinstance(stream.store, FailingStore)
    return stream.store


def events_read(reader: Reader, faults: list[str]) -> Iterator[int]:
    """What a loop that shrugs off faults gets."""
    while True:
        try:
            batch = reader.read()
        except (ConnectionError, *UNANSWERED) as fault:
            faults.append(str(fault))
            continue
        if batch is None:
            return
        yield from batch.table["n"].to_pylist()


@pytest.mark.parametrize("reads", [1, 2, 3])
def test_a_segment_that_cannot_be_read_does_not_cost_the_events_of_another(reads: int) -> None:
    stream = filled(orders(segments=3), 24)
    reader, faults = Reader(stream), list[str]()
    failing(stream).fail_at("read", reads)
    assert sorted(events_read(reader, faults)) == list(range(24))
    reader.commit()
    assert reader.checkpoint() == stream.store.lengths("orders")


def test_what_was_read_before_a_fault_is_given_and_the_fault_comes_again() -> None:
    stream = filled(orders(segments=2), 16)
    reader = Reader(stream)
    lengths = stream.store.lengths("orders")
    stream.truncate({0: 0, 1: lengths[1]})  # beyond this reader in one of its segments
    batch = reader.read()
    assert batch is not None and len(batch) == lengths[0]
    for _ in range(2):
        with pytest.raises(Exception, match="was truncated"):
            reader.read()
    reader.commit()
    assert reader.checkpoint() == {0: lengths[0], 1: 0}


def test_a_reader_that_is_interrupted_reads_the_same_again() -> None:
    stream = filled(orders(segments=2), 16)
    reader = Reader(stream)
    failing(stream).fail_at("read", 2, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        reader.read()
    reader.commit()
    assert reader.checkpoint() == {0: 0, 1: 0}
    assert sorted(events_read(reader, [])) == list(range(16))


def test_a_commit_whose_answer_did_not_come_has_lost_nothing_that_it_gave_up() -> None:
    stream = filled(orders(segments=2), 16)
    first = Reader(stream, reader_id="one")
    first.read()
    second = Reader(stream, reader_id="two")  # so that the commit gives one segment up
    failing(stream).lose("put_group")
    with pytest.raises(UNANSWERED):
        first.commit()
    first.commit()
    assert second.read() is None and second.checkpoint() == stream.store.lengths("orders")


def test_a_commit_whose_answer_did_not_come_may_have_been_followed_by_successors() -> None:
    stream = filled(orders(), 16)
    first = Reader(stream, reader_id="one")
    first.read()
    stream.split(0)
    filled(stream, 8, 16)
    failing(stream).lose("put_group")
    with pytest.raises(UNANSWERED):
        first.commit()
    assert sorted(events_read(first, [])) == list(range(16, 24))
    first.commit()


@pytest.mark.parametrize("call", ["fail", "lose"])
def test_what_another_has_read_after_a_commit_that_failed_is_lost(call: str) -> None:
    clock = Clock()
    stream = filled(orders(clock=clock), 16)
    first = Reader(stream, reader_id="one", reader_lease="10 seconds")
    first.read(4)
    getattr(failing(stream), call)("put_group")
    with pytest.raises(UNANSWERED):
        first.commit()
    clock.now += 10_000_000
    second = Reader(stream, reader_id="two")
    batch = second.read(2)
    assert batch is not None and batch.table["n"].to_pylist() == ([0, 1] if call == "fail" else [4, 5])
    second.commit()
    if call == "lose":
        first.commit()
    else:
        with pytest.raises(SegmentsLostError):
            first.commit()


def test_a_reader_that_joined_again_without_an_answer_knows_itself() -> None:
    clock = Clock()
    stream = filled(orders(clock=clock), 16)
    first = Reader(stream, reader_id="one", reader_lease="10 seconds")
    clock.now += 10_000_000
    Reader(stream, reader_id="two").close()  # which takes it for dead
    failing(stream).lose("put_group")
    with pytest.raises(UNANSWERED):
        first.read()
    assert sorted(events_read(first, [])) == list(range(16))
    first.commit()
    assert len(ReaderGroup(stream).readers()) == 1


def test_another_of_the_same_id_is_still_distinguished() -> None:
    stream = filled(orders(), 16)
    first = Reader(stream, reader_id="one")
    other = Reader(stream, reader_id="one")
    with pytest.raises(ReaderReplacedError):
        first.read()
    assert sorted(events_read(other, [])) == list(range(16))


def test_a_copy_of_a_reader_cannot_set_its_group_back() -> None:
    stream = filled(orders(), 16)
    first = Reader(stream)
    first.read(2)
    forked = copy.copy(first)  # as a process that was forked has it
    forked._cursors = {0: copy.copy(first._cursors[0])}
    first.read(8)
    first.commit()
    with pytest.raises(SegmentsLostError):
        forked.commit()
    assert first.checkpoint() == {0: 10}


def test_a_reader_that_cannot_say_that_it_goes_still_lets_go_of_its_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"sqlite:///{tmp_path}/marks.db#orders"
    create_stream(address, schema=SCHEMA)
    reader = Reader(address)
    store = reader.stream.store
    assert isinstance(store, SqlStore)

    def broken(*_: object) -> None:
        raise ConnectionError("the network is down")

    monkeypatch.setattr(store, "put_group", broken)
    with pytest.raises(ConnectionError):
        reader.close()
    assert store._database._pool.idle == []
