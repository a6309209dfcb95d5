"""A controller compacts the blobs that appends have written."""

from __future__ import annotations

import logging

import pytest

from eventide.marks import compaction
from eventide.marks.compaction import CompactionPolicy
from eventide.marks.controller import Controller
from eventide.marks.stores.memory import MemoryStore
from tests.marks.stores.cases import OFTEN, config, numbers_in, part


class Counting(MemoryStore):
    """Records the steps of compaction."""

    def __init__(self) -> None:
        super().__init__(clock=lambda: 0)
        self.steps: list[tuple[str, int, int]] = []

    def compact(self, stream: str, segment: int, offset: int) -> int:
        self.steps.append((stream, segment, offset))
        return super().compact(stream, segment, offset)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Counting:
    """A stream of 40 and 20 blobs of two rows, which an older version has left so."""
    monkeypatch.setattr(compaction, "POLICY", CompactionPolicy(min_blobs=1 << 40))
    store = Counting()
    fill(store)
    monkeypatch.setattr(compaction, "POLICY", OFTEN)
    return store


def fill(store: Counting) -> None:
    store.create_stream("orders", config(2))
    handle = store.open_writer("orders", "till")
    for number in range(40):
        rows = [part(segment, 2 * number, 2 * number + 1) for segment in ((0, 1) if number < 20 else (0,))]
        store.append(handle, number + 1, rows)


def sizes(store: Counting, segment: int) -> list[int]:
    return [blob.rows for blob in store.read("orders", segment, 0, rows=1 << 40)]


def test_each_round_compacts_in_one_segment_the_one_that_is_furthest_behind_first(store: Counting) -> None:
    controller = Controller(store, "c")
    controller.step()
    assert (sizes(store, 0), sizes(store, 1)) == ([16] * 5, [2] * 20)
    controller.step()
    assert (sizes(store, 0), sizes(store, 1)) == ([16] * 5, [16, 16, 2, 2, 2, 2])
    assert numbers_in(store, "orders", 0) == list(range(80)) and numbers_in(store, "orders", 1) == list(range(40))


def test_where_nothing_is_left_nothing_is_asked(store: Counting) -> None:
    controller = Controller(store, "c")
    for _ in range(5):
        controller.step()
    assert store.steps == [("orders", 0, 0), ("orders", 1, 0)]


def test_only_the_owner_of_a_stream_compacts_it(store: Counting) -> None:
    store.acquire("orders", "another", 1_000_000)
    Controller(store, "c").step()
    assert store.steps == []


def test_a_new_stream_of_an_old_name_is_compacted_from_its_beginning(
    store: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = Controller(store, "c")
    controller.step()
    store.delete_stream("orders")
    store.create_stream("orders", config())
    controller.step()
    store.steps.clear()
    monkeypatch.setattr(compaction, "POLICY", CompactionPolicy(min_blobs=1 << 40))
    handle = store.open_writer("orders", "till")
    for number in range(20):
        store.append(handle, number + 1, [part(0, number)])
    monkeypatch.setattr(compaction, "POLICY", OFTEN)
    controller.step()
    assert store.steps == [("orders", 0, 0)] and sizes(store, 0) == [16, 1, 1, 1, 1]


def test_a_fault_during_compaction_is_reported_and_time_advances(
    store: Counting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fault(*_: object) -> int:
        raise OSError("the disk is full")

    monkeypatch.setattr(store, "compact", fault)
    store.now = lambda: 10_000_000
    handle = store.open_writer("orders", "web")
    store.append(handle, 1, [part(0, 1)], note=5)
    with caplog.at_level(logging.WARNING):
        controller = Controller(store, "c")
        controller.step()
    assert [mark.lower for mark in store.marks("orders")] == [5] and controller.streams == ("orders",)
    assert caplog.messages == ["Stream 'orders' was not compacted: the disk is full"]
