"""Compaction of small blobs: readers see the same events in fewer blobs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eventide.errors import DataError, PlanError
from eventide.marks import compaction
from eventide.marks.compaction import CompactionPolicy
from eventide.marks.stores.remote import RemoteStore
from eventide.marks.stores.store import Blob, Part, Store, WriterHandle
from tests.marks.stores.cases import OFTEN, SECOND, addition, config, numbers_in, part

NEVER = CompactionPolicy(min_blobs=1 << 40)


@pytest.fixture(autouse=True)
def handle(store: Store) -> WriterHandle:
    store.create_stream("orders", config(2))
    return store.open_writer("orders", "till")


def appended(store: Store, *rows: int) -> None:
    """One append to the first segment for each number: of so many rows, which go on counting."""
    handle = store.open_writer("orders", "till", take_over=True)
    number = store.lengths("orders")[0]
    for sequence, count in enumerate(rows, start=handle.sequence + 1):
        store.append(handle, sequence, [part(0, *range(number, number + count))])
        number += count


def blobs(store: Store, segment: int = 0) -> list[Blob]:
    return store.read("orders", segment, 0, rows=1 << 40)


def sizes(store: Store, segment: int = 0) -> list[int]:
    return [blob.rows for blob in blobs(store, segment)]


def test_appends_of_one_row_are_compacted_a_hundred_at_a_time(store: Store, handle: WriterHandle) -> None:
    for number in range(130):
        assert store.append(handle, number + 1, [part(0, number)]) == {0: number + 1}
    assert sizes(store) == [128, 1, 1]
    assert numbers_in(store, "orders", 0) == list(range(130))


def test_appends_of_hundreds_of_rows_are_compacted_when_there_are_thousands(store: Store, handle: WriterHandle) -> None:
    for number in range(34):
        rows = [part(segment, *range(number * 500, number * 500 + 500)) for segment in (0, 1)]
        assert store.append(handle, number + 1, rows) == {0: number * 500 + 500, 1: number * 500 + 500}
    assert sizes(store, 0) == sizes(store, 1) == [16_500, 500]
    assert numbers_in(store, "orders", 1) == list(range(17_000))


def test_appends_that_are_large_by_themselves_stay_as_they_are(store: Store) -> None:
    appended(store, *[2_048] * 9)
    assert sizes(store) == [2_048] * 9


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Appends leave all blobs as they are, as older versions did."""
    monkeypatch.setattr(compaction, "POLICY", NEVER)


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("offset", range(17))
def test_a_reader_continues_in_the_middle_of_what_was_compacted(store: Store, offset: int) -> None:
    appended(store, *[1] * 15)
    before = numbers_in(store, "orders", 0, offset)
    appended(store, 1)
    assert sizes(store) == [16]
    assert numbers_in(store, "orders", 0, offset) == [*before, *range(max(offset, 15), 16)]


@pytest.mark.usefixtures("often")
def test_the_append_that_compacted_is_repeated_without_harm(store: Store, handle: WriterHandle) -> None:
    ends = [store.append(handle, number, [part(0, number, number)], note=number) for number in range(1, 9)]
    again = store.append(handle, 8, [part(0, 8, 8)], note=8)
    assert again == ends[-1] == {0: 16} and sizes(store) == [16]
    assert [(note.time, dict(note.position)) for note in store.notes("orders")] == [(8, {0: 16})]


@pytest.mark.usefixtures("often")
def test_segments_are_compacted_each_by_itself(store: Store, handle: WriterHandle) -> None:
    for number in range(1, 9):
        store.append(handle, number, [part(0, number, number), *([part(1, number)] if number < 4 else [])])
    assert (sizes(store, 0), sizes(store, 1)) == ([16], [1, 1, 1])


@pytest.mark.usefixtures("often")
def test_a_compacted_blob_of_several_writers_names_none(store: Store, handle: WriterHandle) -> None:
    other = store.open_writer("orders", "web")
    for number in range(1, 5):
        store.append(handle if number % 2 else other, number, [part(0, number)])
    store.append(handle, 5, [part(0, 5)])
    assert [blob.writer for blob in blobs(store)] == ["", "till"]
    assert numbers_in(store, "orders", 0) == [1, 2, 3, 4, 5]


@pytest.mark.usefixtures("often")
def test_bytes_that_are_no_events_are_appended_and_left_as_they_are(store: Store, handle: WriterHandle) -> None:
    """A controller rejects them; a store behind Python's own writers takes any bytes."""
    if isinstance(store, RemoteStore):
        with pytest.raises(PlanError, match="This is no append"):
            store.append(handle, 1, [Part(0, 1, b"no events")])
        return
    for number in range(1, 21):
        assert store.append(handle, number, [Part(0, 1, b"no events")]) == {0: number}
    assert sizes(store) == [1] * 20
    assert store.compact("orders", 0, 0) == 20


@pytest.mark.usefixtures("often")
def test_commits_are_compacted(store: Store, handle: WriterHandle) -> None:
    for number in range(8):
        begun = store.begin(handle, timeout=SECOND)
        store.add(handle, begun.id, 1, *addition((2 * number, 0.1), (2 * number + 1, 0.2)))
        assert store.commit(handle, begun.id) == {0: 2 * number + 2}
    assert sizes(store) == [16] and numbers_in(store, "orders", 0) == list(range(16))


@pytest.mark.usefixtures("often")
def test_what_was_compacted_is_truncated_when_the_cut_is_behind_all_of_it(store: Store) -> None:
    appended(store, *[2] * 9)
    store.truncate("orders", {0: 7, 1: 0})
    assert numbers_in(store, "orders", 0, 7) == list(range(7, 18))
    with pytest.raises(DataError, match="truncated"):
        store.read("orders", 0, 6, rows=1)
    store.truncate("orders", {0: 16, 1: 0})
    assert [blob.offset for blob in store.read("orders", 0, 16, rows=9)] == [16]


@pytest.mark.usefixtures("often")
def test_a_stretch_whose_beginning_is_truncated_is_compacted(store: Store) -> None:
    appended(store, *[2] * 6)
    store.truncate("orders", {0: 5, 1: 0})
    appended(store, *[2] * 2)
    assert [(blob.offset, blob.rows) for blob in store.read("orders", 0, 5, rows=99)] == [(4, 12)]
    assert numbers_in(store, "orders", 0, 5) == list(range(5, 16))


def packed_all(store: Store, segment: int = 0) -> int:
    """How many steps it takes, until nothing is left to do."""
    offset, steps = 0, 0
    while (further := store.compact("orders", segment, offset)) != offset:
        offset, steps = further, steps + 1
    return steps


@pytest.mark.usefixtures("unpacked")
def test_blobs_of_older_versions_are_compacted_but_for_the_end(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    appended(store, *[2] * 37)
    assert sizes(store) == [2] * 37
    monkeypatch.setattr(compaction, "POLICY", OFTEN)
    assert packed_all(store) == 1
    assert sizes(store) == [16, 16, 16, 16, 2, 2, 2, 2, 2]
    assert numbers_in(store, "orders", 0) == list(range(74))
    assert packed_all(store) == 1 and len(sizes(store)) == 9  # again there is nothing to pack


@pytest.mark.usefixtures("unpacked")
def test_a_step_of_compaction_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    appended(store, *[2] * 40)
    size = len(blobs(store)[0].body)
    monkeypatch.setattr(compaction, "POLICY", replace(OFTEN, step_bytes=16 * size))
    assert store.compact("orders", 0, 0) == 32
    assert sizes(store) == [16, 16] + [2] * 24
    monkeypatch.setattr(compaction, "POLICY", replace(OFTEN, step_blobs=10))
    assert store.compact("orders", 0, 32) == 48
    assert sizes(store) == [16, 16, 16] + [2] * 16
    assert numbers_in(store, "orders", 0) == list(range(80))


@pytest.mark.usefixtures("often")
def test_there_is_nothing_to_pack_where_nothing_is(store: Store) -> None:
    assert store.compact("orders", 0, 0) == 0 and store.compact("orders", 7, 5) == 5


def test_compaction_an_unknown_stream_is_rejected(store: Store) -> None:
    with pytest.raises(PlanError, match="no stream 'order'"):
        store.compact("order", 0, 0)
