"""Readers whose store fails: nothing that was not given to anybody is ever committed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from eventide.marks import Reader, Stream, Writer
from tests.marks.orders import FailingStore, order, orders


def filled(stream: Stream, count: int, first: int = 0) -> Stream:
    with Writer(stream, "till", routing_key="shop") as writer:
        writer.append([order(n) for n in range(first, first + count)])
    return stream


def failing(stream: Stream) -> FailingStore:
    assert isinstance(stream.store, FailingStore)
    return stream.store


def given(reader: Reader, faults: list[str]) -> Iterator[int]:
    """What a loop that shrugs off faults gets."""
    while True:
        try:
            batch = reader.read()
        except ConnectionError as fault:
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
    assert sorted(given(reader, faults)) == list(range(24))
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
    assert sorted(given(reader, [])) == list(range(16))
