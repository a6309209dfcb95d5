"""Writer sessions, appends and reads."""

from __future__ import annotations

import pytest

from eventide.errors import PlanError
from eventide.marks.errors import WriterFencedError
from eventide.marks.mark import Note
from eventide.marks.stores.store import Store, WriterHandle
from tests.marks.stores.cases import SECOND, Clock, addition, config, numbers_in, part


@pytest.fixture
def handle(store: Store) -> WriterHandle:
    store.create_stream("orders", config(2))
    return store.open_writer("orders", "till")


def test_events_are_read_as_they_were_appended(store: Store, handle: WriterHandle) -> None:
    assert store.append(handle, 1, [part(0, 1, 2), part(1, 10)]) == {0: 2, 1: 1}
    assert store.append(handle, 2, [part(0, 3)]) == {0: 3}
    assert store.lengths("orders") == {0: 3, 1: 1}
    blobs = store.read("orders", 0, 0, rows=100)
    assert [(blob.offset, blob.rows, blob.writer) for blob in blobs] == [(0, 2, "till"), (2, 1, "till")]
    assert numbers_in(store, "orders", 0) == [1, 2, 3] and numbers_in(store, "orders", 1) == [10]


def test_two_parts_for_one_segment_follow_each_other(store: Store, handle: WriterHandle) -> None:
    assert store.append(handle, 1, [part(0, 1), part(0, 2, 3)]) == {0: 3}
    assert numbers_in(store, "orders", 0) == [1, 2, 3]


def test_an_empty_part_takes_no_room(store: Store, handle: WriterHandle) -> None:
    assert store.append(handle, 1, [part(0), part(1, 5)]) == {0: 0, 1: 1}
    assert store.append(handle, 2, [part(0, 6)]) == {0: 1}
    assert numbers_in(store, "orders", 0) == [6]


def test_a_repeated_append_changes_nothing_and_gives_the_same_answer(store: Store, handle: WriterHandle) -> None:
    first = store.append(handle, 1, [part(0, 1, 2)])
    last = store.append(handle, 7, [part(1, 3)])
    assert store.append(handle, 7, [part(1, 3)]) == last == {1: 1}
    assert store.append(handle, 1, [part(0, 1, 2)]) == {} != first
    assert store.lengths("orders") == {0: 2, 1: 1}


def test_a_repeated_append_still_notes_its_time(store: Store, handle: WriterHandle, clock: Clock) -> None:
    store.append(handle, 1, [part(0, 1, 2)])
    store.append(handle, 1, [part(0, 1, 2)], note=500)
    assert store.notes("orders") == [Note("till", 500, {0: 2}, clock.time)]


def test_sequences_and_positions_outlive_the_writer(store: Store, handle: WriterHandle) -> None:
    store.append(handle, 5, [part(0, 1, 2)])
    store.append(handle, 6, [part(1, 3)])
    store.close_writer(handle)
    again = store.open_writer("orders", "till")
    assert (again.sequence, dict(again.position)) == (6, {0: 2, 1: 1})
    assert store.append(again, 6, [part(1, 3)]) == {1: 1}
    assert store.lengths("orders") == {0: 2, 1: 1}


def test_an_unknown_segment_is_rejected_and_nothing_is_appended(store: Store, handle: WriterHandle) -> None:
    with pytest.raises(PlanError, match=r"There is no segment 9. Open are: 0, 1."):
        store.append(handle, 1, [part(0, 1), part(9, 2)])
    with pytest.raises(PlanError, match=r"There is no segment 9. Open are: 0, 1."):
        store.read("orders", 9, 0, rows=1)
    assert store.lengths("orders") == {0: 0, 1: 0}
    assert store.append(handle, 1, [part(0, 1)]) == {0: 1}


def test_an_id_in_use_is_rejected_until_its_lease_ends(store: Store, handle: WriterHandle, clock: Clock) -> None:
    clock.time += 20 * SECOND
    store.append(handle, 1, [part(0, 1)])
    clock.time += 30 * SECOND - 1
    with pytest.raises(PlanError, match="Writer id 'till' is in use at stream 'orders'"):
        store.open_writer("orders", "till")
    clock.time += 1
    assert store.open_writer("orders", "till").epoch == handle.epoch + 1


@pytest.mark.parametrize("step", ["append", "retry", "note", "begin", "add", "abort"])
def test_every_step_prolongs_the_lease(store: Store, handle: WriterHandle, clock: Clock, step: str) -> None:
    store.append(handle, 1, [part(0, 1)])
    begun = store.begin(handle, timeout=1000 * SECOND)
    clock.time += 20 * SECOND
    {
        "append": lambda: store.append(handle, 2, [part(0, 1)]),
        "retry": lambda: store.append(handle, 1, [part(0, 1)]),
        "note": lambda: store.note(handle, 1, {0: 1}),
        "begin": lambda: store.begin(handle, timeout=SECOND),
        "add": lambda: store.add(handle, begun.id, 1, *addition((1, 0.5))),
        "abort": lambda: store.abort(handle, begun.id),
    }[step]()
    clock.time += 29 * SECOND
    with pytest.raises(PlanError, match="is in use"):
        store.open_writer("orders", "till")


def test_the_lease_is_that_of_the_stream(store: Store, clock: Clock) -> None:
    store.create_stream("short", config(writer_lease=5))
    store.open_writer("short", "till")
    clock.time += 5
    store.open_writer("short", "till")


def test_a_closed_id_is_free_at_once(store: Store, handle: WriterHandle) -> None:
    store.close_writer(handle)
    store.close_writer(handle)
    assert store.open_writer("orders", "till").epoch == handle.epoch + 1


def test_a_handle_that_was_taken_over_is_good_for_nothing(store: Store, handle: WriterHandle) -> None:
    store.append(handle, 1, [part(0, 1)])
    begun = store.begin(handle, timeout=SECOND)
    new = store.open_writer("orders", "till", take_over=True)
    for step in (
        lambda: store.append(handle, 2, [part(0, 2)]),
        lambda: store.append(handle, 1, [part(0, 1)]),
        lambda: store.note(handle, 9, {0: 1}),
        lambda: store.begin(handle, timeout=SECOND),
        lambda: store.add(handle, begun.id, 1, *addition((1, 0.5))),
        lambda: store.commit(handle, begun.id),
        lambda: store.abort(handle, begun.id),
        lambda: store.close_writer(handle),
    ):
        with pytest.raises(WriterFencedError, match="Another writer 'till' has taken over"):
            step()
    assert store.append(new, 2, [part(0, 2)]) == {0: 2}
    assert store.notes("orders") == []


def test_a_closed_handle_appends_nothing(store: Store, handle: WriterHandle) -> None:
    store.close_writer(handle)
    with pytest.raises(WriterFencedError):
        store.append(handle, 1, [part(0, 1)])


def test_writers_of_different_ids_do_not_disturb_each_other(store: Store, handle: WriterHandle) -> None:
    other = store.open_writer("orders", "web")
    assert store.append(handle, 1, [part(0, 1)]) == {0: 1}
    assert store.append(other, 1, [part(0, 2)]) == {0: 2}
    assert store.append(handle, 2, [part(0, 3)]) == {0: 3}
    assert [blob.writer for blob in store.read("orders", 0, 0, rows=9)] == ["till", "web", "till"]


@pytest.mark.parametrize(
    ("offset", "rows", "until", "offsets"),
    [
        (0, 1, None, [0]),
        (0, 2, None, [0]),
        (0, 3, None, [0, 2]),
        (1, 1, None, [0]),
        (1, 2, None, [0, 2]),
        (2, 1, None, [2]),
        (3, 3, None, [2, 5]),
        (5, 1, None, [5]),
        (6, 100, None, []),
        (99, 100, None, []),
        (0, 100, None, [0, 2, 5]),
        (0, 100, 5, [0, 2]),
        (0, 100, 3, [0, 2]),
        (0, 100, 2, [0]),
        (0, 100, 0, []),
        (4, 100, 3, [2]),
        (0, 0, None, []),
    ],
)
def test_a_read_gives_whole_blobs(
    store: Store, handle: WriterHandle, offset: int, rows: int, until: int | None, offsets: list[int]
) -> None:
    for sequence, numbers in enumerate(((0, 1), (2, 3, 4), (5,)), start=1):
        store.append(handle, sequence, [part(0, *numbers)])
    blobs = store.read("orders", 0, offset, rows=rows, until=until)
    assert [blob.offset for blob in blobs] == offsets


def test_nothing_is_left_of_a_writer_without_an_id_of_its_own_but_its_events(store: Store) -> None:
    store.create_stream("orders", config())
    handle = store.open_writer("orders", "writer-" + 32 * "a")
    store.append(handle, 7, [part(0, 1, 2)])
    store.close_writer(handle)
    store.close_writer(handle)  # as one does whose answer did not come
    assert numbers_in(store, "orders", 0) == [1, 2]
    assert store.open_writer("orders", handle.writer).sequence == 0


@pytest.mark.parametrize(("writer", "note"), [("till", None), ("writer-" + 32 * "a", 5)])
def test_a_writer_that_has_an_id_or_a_note_is_remembered(store: Store, writer: str, note: int | None) -> None:
    store.create_stream("orders", config())
    handle = store.open_writer("orders", writer)
    store.append(handle, 7, [part(0, 1, 2)], note=note)
    store.close_writer(handle)
    assert store.open_writer("orders", writer).sequence == 7
