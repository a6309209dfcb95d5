"""Batches that are larger than a controller takes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

from eventide.errors import PlanError
from eventide.marks import Stream, Writer
from eventide.marks.errors import TooLargeError
from eventide.marks.stores.memory import MemoryStore
from eventide.marks.stores.remote import RemoteStore
from eventide.marks.stores.store import Config, Part, WriterHandle
from tests.marks.harness import SCHEMA, UNANSWERED, Clock, FailingStore, noted, numbers, order
from tests.marks.server_harness import TOKEN, serving


class SmallStore(FailingStore):
    """A store that takes a few rows at once."""

    _most = 3

    def append(
        self, handle: WriterHandle, sequence: int, parts: Sequence[Part], *, note: int | None = None
    ) -> dict[int, int]:
        if sum(part.rows for part in parts) > self._most:
            raise TooLargeError(f"The request has more than {self._most} rows.")
        return super().append(handle, sequence, parts, note=note)

    def add(self, handle: WriterHandle, transaction: str, number: int, rows: int, body: bytes) -> None:
        if rows > self._most:
            raise TooLargeError(f"The request has more than {self._most} rows.")
        super().add(handle, transaction, number, rows, body)


@pytest.fixture
def stream() -> Stream:
    store = SmallStore(Clock())
    store.create_stream("orders", Config(schema=SCHEMA))
    return Stream(store, "orders")


def test_what_was_written_is_sent_in_smaller_batches_in_order_with_the_time_at_the_end(stream: Stream) -> None:
    writer = Writer(stream, "till")
    for n in range(10):
        writer.write(order(n))
    writer.note_time(50)
    assert (numbers(stream), noted(stream), writer.unsent) == (list(range(10)), [(50, {0: 10})], [])


def test_batches_that_wait_behind_a_large_one_are_sent_after_it(stream: Stream) -> None:
    writer = Writer(stream, "till")
    for rows in ([1], [2, 3, 4, 5], [6]):
        for n in rows:
            writer.write(order(n))
        stream.store.fail("append")  # type: ignore[attr-defined]
        with pytest.raises(UNANSWERED):
            writer.flush()
    writer.flush()
    assert numbers(stream) == [1, 2, 3, 4, 5, 6]


def test_rows_that_must_be_stored_together_are_rejected_and_hold_nothing_up(stream: Stream) -> None:
    writer = Writer(stream, "till")
    writer.write(order(1))
    with pytest.raises(TooLargeError, match=r"4 events .* were not accepted"):
        writer.append([order(n) for n in range(2, 6)])
    writer.append([order(6)])
    assert (numbers(stream), writer.unsent) == ([1, 6], [])


def test_one_event_that_is_too_large_is_rejected_and_holds_nothing_up(stream: Stream) -> None:
    stream.store._most = 0  # type: ignore[attr-defined]
    writer = Writer(stream, "till")
    writer.write(order(1))
    with pytest.raises(TooLargeError, match=r"1 event was not accepted"):
        writer.flush()
    assert writer.unsent == []


def test_a_batch_that_may_be_stored_already_stays_as_it_is(stream: Stream) -> None:
    store: Any = stream.store
    writer = Writer(stream, "till")
    writer.append([order(0)])
    for n in (1, 2, 3):
        writer.write(order(n))
    store.lose("append")
    with pytest.raises(UNANSWERED):
        writer.flush()
    store._most = 2
    with pytest.raises(PlanError):
        writer.flush()
    store._most = 3
    writer.flush()
    assert numbers(stream) == [0, 1, 2, 3]


def test_a_transaction_takes_large_batches_in_parts(stream: Stream) -> None:
    with Writer(stream, "till").begin() as transaction:
        transaction.append([order(n) for n in range(10)])
    assert numbers(stream) == list(range(10))


def test_a_controller_says_that_a_batch_is_too_large_so_that_its_writer_can_act() -> None:
    below = MemoryStore()
    with serving(below, max_body=4000) as url:
        store = RemoteStore(url, token=TOKEN)
        store.create_stream("orders", Config(schema=SCHEMA))
        with Writer(Stream(store, "orders"), "till") as writer:
            for n in range(200):
                writer.write(order(n, os.urandom(20).hex()))
        assert below.lengths("orders") == {0: 200}
