"""Notes, marks, leases, controllers, groups of readers."""

from __future__ import annotations

import pytest

from eventide.errors import PlanError
from eventide.marks.errors import ConflictError, LeaseLostError
from eventide.marks.mark import Mark, Note
from eventide.marks.stores.store import Lease, Store, WriterHandle
from eventide.time import FIRST, LAST, MAX
from tests.marks.stores.cases import SECOND, Clock, config, part


@pytest.fixture
def handle(store: Store) -> WriterHandle:
    store.create_stream("orders", config(2))
    handle = store.open_writer("orders", "till")
    store.append(handle, 1, [part(0, 1, 2, 3), part(1, 4)])
    return handle


@pytest.fixture
def lease(store: Store, handle: WriterHandle, clock: Clock) -> Lease:
    acquired = store.acquire("orders", "c1", clock.time + 10 * SECOND)
    assert acquired is not None
    return acquired


def test_the_store_has_the_time_of_its_clock(store: Store, clock: Clock) -> None:
    clock.time += 5
    assert store.now() == clock.time


def test_the_last_note_of_each_writer_counts(store: Store, handle: WriterHandle, clock: Clock) -> None:
    other = store.open_writer("orders", "web")
    store.note(handle, 100, {0: 1})
    clock.time += 1
    store.note(other, 50, {})
    store.note(handle, 200, {0: 3, 1: 1})
    assert sorted(store.notes("orders"), key=lambda note: note.writer) == [
        Note("till", 200, {0: 3, 1: 1}, clock.time),
        Note("web", 50, {}, clock.time),
    ]


def test_notes_as_columns_are_the_same(store: Store, handle: WriterHandle) -> None:
    other = store.open_writer("orders", "web")
    store.note(handle, 200, {0: 3, 1: 1})
    store.note(other, 50, {1: 1})
    store.close_writer(other)
    columns = store.note_columns("orders")
    rows = list(zip(columns.writer, columns.segment, columns.offset, columns.is_noted, strict=True))
    notes = [
        Note(
            name,
            int(columns.times[writer]),
            {int(segment): int(offset) for index, segment, offset, noted in rows if index == writer and noted},
            int(columns.at[writer]),
            bool(columns.closed[writer]),
        )
        for writer, name in enumerate(columns.writers)
    ]
    assert sorted(notes, key=lambda note: note.writer) == sorted(store.notes("orders"), key=lambda note: note.writer)
    assert len(notes) == 2


def test_columns_of_no_notes_are_empty(store: Store, handle: WriterHandle) -> None:
    columns = store.note_columns("orders")
    assert (list(columns.writers), columns.times.size, columns.segment.size) == ([], 0, 0)


def test_a_time_that_goes_back_is_rejected_and_the_note_stays(store: Store, handle: WriterHandle) -> None:
    store.note(handle, 200, {0: 3})
    with pytest.raises(PlanError, match="noted time does not go back"):
        store.note(handle, 199, {0: 3})
    with pytest.raises(PlanError, match="noted time does not go back"):
        store.append(handle, 2, [part(0, 9)], note=199)
    assert store.lengths("orders") == {0: 3, 1: 1}
    assert [(note.time, dict(note.position)) for note in store.notes("orders")] == [(200, {0: 3, 1: 1})]


def test_a_position_that_goes_back_or_is_beyond_the_end_is_rejected(store: Store, handle: WriterHandle) -> None:
    store.append(store.open_writer("orders", "web"), 1, [part(0, 5, 6)])
    store.note(handle, 200, {0: 5})  # beyond its own events, which end at 3
    with pytest.raises(PlanError, match="positions do not go back"):
        store.note(handle, 300, {0: 4})
    with pytest.raises(PlanError, match="Segment 0 of stream 'orders' has 5 events"):
        store.note(handle, 300, {0: 6})
    with pytest.raises(PlanError, match="There is no segment 7"):
        store.note(handle, 300, {7: 0})
    assert [(note.time, dict(note.position)) for note in store.notes("orders")] == [(200, {0: 5, 1: 1})]


@pytest.mark.parametrize("position", [{}, {0: 1}, {1: 0}, {0: 3, 1: 1}])
def test_a_note_is_not_before_what_its_writer_has_written(
    store: Store, handle: WriterHandle, position: dict[int, int]
) -> None:
    for time in (200, 300):  # again: what the store knows better is no position that goes back
        store.note(handle, time, position)
        assert [(note.time, dict(note.position)) for note in store.notes("orders")] == [(time, {0: 3, 1: 1})]


def test_a_position_beyond_the_writers_own_events_stays_when_it_is_not_named(
    store: Store, handle: WriterHandle
) -> None:
    store.append(store.open_writer("orders", "web"), 1, [part(0, 5, 6)])
    store.note(handle, 200, {0: 5})
    store.note(handle, 300, {})
    store.append(handle, 2, [part(1, 7)], note=400)
    assert [(note.time, dict(note.position)) for note in store.notes("orders")] == [(400, {0: 5, 1: 2})]


@pytest.mark.parametrize("time", [LAST + 1, MAX, FIRST - 1])
def test_a_time_that_is_none_is_rejected_and_nothing_is_written(store: Store, handle: WriterHandle, time: int) -> None:
    with pytest.raises(PlanError, match="not an instant"):
        store.note(handle, time, {})
    with pytest.raises(PlanError, match="not an instant"):
        store.append(handle, 2, [part(0, 9)], note=time)
    assert store.lengths("orders") == {0: 3, 1: 1} and store.notes("orders") == []
    store.note(handle, min(max(time, FIRST), LAST), {})


def test_what_was_written_since_a_note_is_known(store: Store, handle: WriterHandle) -> None:
    store.note(handle, 200, {})
    store.append(handle, 2, [part(1, 5, 6)])
    store.close_writer(handle)
    (note,) = store.notes("orders")
    assert (dict(note.position), dict(note.written), note.closed) == ({0: 3, 1: 1}, {0: 3, 1: 3}, True)
    columns = store.note_columns("orders")
    places = zip(columns.segment.tolist(), columns.offset.tolist(), columns.is_noted.tolist(), strict=True)
    assert set(columns.writer.tolist()) == {0} and sorted(places) == [
        (0, 3, False),
        (0, 3, True),
        (1, 1, True),
        (1, 3, False),
    ]


def test_an_append_notes_at_the_position_that_results(store: Store, handle: WriterHandle, clock: Clock) -> None:
    store.append(handle, 2, [part(0, 5)], note=700)
    assert store.notes("orders") == [Note("till", 700, {0: 4, 1: 1}, clock.time)]


def test_an_append_without_events_can_note(store: Store, handle: WriterHandle, clock: Clock) -> None:
    assert store.append(handle, 2, [], note=700) == {}
    assert store.notes("orders") == [Note("till", 700, {0: 3, 1: 1}, clock.time)]


def test_a_note_after_scaling_leaves_predecessors_behind(store: Store, handle: WriterHandle) -> None:
    store.note(handle, 100, {0: 3, 1: 1})
    store.scale("orders", [0], [(0.0, 0.5)])
    store.append(handle, 2, [part(2, 5)], note=200)
    assert [dict(note.position) for note in store.notes("orders")] == [{1: 1, 2: 1}]


def test_closing_marks_the_note_and_a_new_note_opens_it(store: Store, handle: WriterHandle) -> None:
    store.note(handle, 100, {0: 3})
    store.close_writer(handle)
    assert [note.closed for note in store.notes("orders")] == [True]
    store.note(store.open_writer("orders", "till"), 200, {0: 3})
    assert [note.closed for note in store.notes("orders")] == [False]


@pytest.mark.parametrize("closing", [True, False])
def test_a_writer_that_comes_back_is_bound_by_its_last_note(
    store: Store, handle: WriterHandle, clock: Clock, closing: bool
) -> None:
    store.note(handle, 100, {0: 3})
    if closing:
        store.close_writer(handle)
    clock.time += 40 * SECOND
    store.open_writer("orders", "till")
    assert [(note.time, note.at, note.closed) for note in store.notes("orders")] == [(100, clock.time, False)]


def test_a_writer_that_comes_back_without_a_note_has_none(store: Store, handle: WriterHandle) -> None:
    store.close_writer(handle)
    store.open_writer("orders", "till")
    assert store.notes("orders") == []


def test_closing_without_a_note_leaves_none(store: Store, handle: WriterHandle) -> None:
    store.close_writer(handle)
    assert store.notes("orders") == []


def mark(number: int, time: int = 5) -> Mark:
    return Mark(number, time, time + 1, {0: number, 1: 1}, 77)


def test_marks_are_kept_in_order(store: Store, lease: Lease) -> None:
    assert store.last_mark("orders") is None and store.marks("orders") == []
    for number in range(1, 13):
        store.put_mark(lease, mark(number))
    assert store.last_mark("orders") == mark(12)
    assert store.marks("orders") == [mark(number) for number in range(1, 13)]
    assert store.marks("orders", after=8, limit=3) == [mark(9), mark(10), mark(11)]
    assert store.marks("orders", after=12) == [] == store.marks("orders", limit=0)


@pytest.mark.parametrize(
    ("cut", "first"), [({0: 0, 1: 0}, 1), ({0: 1, 1: 1}, 1), ({0: 3, 1: 0}, 1), ({0: 3, 1: 1}, 3), ({0: 9, 1: 2}, 9)]
)
def test_truncating_drops_the_marks_before_the_last_one_that_is_passed(
    store: Store, handle: WriterHandle, lease: Lease, cut: dict[int, int], first: int
) -> None:
    store.append(handle, 2, [part(0, *range(7)), part(1, 8)])
    for number in range(1, 11):
        store.put_mark(lease, mark(number))
    store.truncate("orders", cut)
    assert [mark.number for mark in store.marks("orders")] == list(range(first, 11))
    assert [mark.number for mark in store.marks("orders", after=9, limit=5)] == [10]
    assert [mark.number for mark in store.marks("orders", limit=2)] == [first, first + 1]
    store.put_mark(lease, mark(11))
    store.truncate("orders", {0: 10, 1: 2})
    assert [mark.number for mark in store.marks("orders")] == [10, 11]
    assert store.last_mark("orders") == mark(11)


def test_truncating_where_no_mark_is_drops_none(store: Store, handle: WriterHandle) -> None:
    store.truncate("orders", {0: 3, 1: 1})
    assert store.marks("orders") == []


@pytest.mark.parametrize("number", [0, 1, 3])
def test_a_mark_with_another_number_than_the_next_is_rejected(store: Store, lease: Lease, number: int) -> None:
    store.put_mark(lease, mark(1))
    with pytest.raises(LeaseLostError):
        store.put_mark(lease, mark(number), obsolete=[("till", 1 << 60)])
    assert store.marks("orders") == [mark(1)]


def test_a_mark_and_what_it_forgets_are_one_step(
    store: Store, handle: WriterHandle, lease: Lease, clock: Clock
) -> None:
    store.note(handle, 100, {0: 3})
    store.put_mark(lease, mark(1), obsolete=[("till", clock.time), ("nobody", clock.time)])
    assert store.notes("orders") == [] and store.marks("orders") == [mark(1)]


def test_a_note_that_is_newer_is_not_forgotten(store: Store, handle: WriterHandle, lease: Lease, clock: Clock) -> None:
    store.note(handle, 100, {0: 3})
    seen = clock.time
    clock.time += 1
    store.note(handle, 100, {0: 3})
    store.delete_notes(lease, [("till", seen)])
    assert len(store.notes("orders")) == 1
    store.delete_notes(lease, [("till", clock.time)])
    assert store.notes("orders") == []


def test_a_note_that_is_newer_on_a_clock_that_was_set_back_is_not_forgotten(
    store: Store, handle: WriterHandle, lease: Lease, clock: Clock
) -> None:
    store.note(handle, 100, {0: 3})
    seen = clock.time
    clock.time -= 500 * SECOND
    store.note(handle, 200, {0: 3})
    store.delete_notes(lease, [("till", seen)])
    assert [note.time for note in store.notes("orders")] == [200]


def test_a_forgotten_writer_may_note_again(store: Store, handle: WriterHandle, lease: Lease, clock: Clock) -> None:
    store.note(handle, 100, {0: 3})
    store.delete_notes(lease, [("till", clock.time)])
    store.note(handle, 300, {0: 3})
    assert [note.time for note in store.notes("orders")] == [300]


def test_a_lease_belongs_to_one_until_it_ends(store: Store, lease: Lease, clock: Clock) -> None:
    assert store.acquire("orders", "c2", clock.time + 99 * SECOND) is None
    assert store.leases() == [lease]
    clock.time = lease.until
    assert store.leases() == []
    taken = store.acquire("orders", "c2", clock.time + SECOND)
    assert taken is not None and taken.fence > lease.fence and store.leases() == [taken]


def test_a_lease_is_prolonged_by_its_owner(store: Store, lease: Lease, clock: Clock) -> None:
    clock.time += 9 * SECOND
    longer = store.acquire("orders", "c1", clock.time + 10 * SECOND)
    assert longer == lease._replace(until=clock.time + 10 * SECOND)
    clock.time += 9 * SECOND
    assert store.acquire("orders", "c2", clock.time + SECOND) is None


def test_a_controller_that_lost_its_lease_writes_nothing(
    store: Store, handle: WriterHandle, lease: Lease, clock: Clock
) -> None:
    store.note(handle, 100, {0: 3})
    clock.time = lease.until
    taken = store.acquire("orders", "c2", clock.time + SECOND)
    assert taken is not None
    with pytest.raises(LeaseLostError, match="Controller 'c1' has lost its lease"):
        store.put_mark(lease, mark(1))
    with pytest.raises(LeaseLostError):
        store.delete_notes(lease, [("till", clock.time)])
    store.release(lease)  # harmless
    assert store.leases() == [taken] and store.marks("orders") == [] and len(store.notes("orders")) == 1
    store.put_mark(taken, mark(1))


def test_a_released_lease_is_free_and_its_fence_is_over(store: Store, lease: Lease, clock: Clock) -> None:
    store.release(lease)
    assert store.leases() == []
    with pytest.raises(LeaseLostError):
        store.put_mark(lease, mark(1))
    again = store.acquire("orders", "c1", clock.time + SECOND)
    assert again is not None and again.fence > lease.fence
    with pytest.raises(LeaseLostError):
        store.put_mark(lease, mark(1))


def test_a_lease_of_the_time_before_a_clock_was_set_back_is_over(store: Store, lease: Lease, clock: Clock) -> None:
    store.heartbeat("c1", clock.time + 10 * SECOND)
    clock.time -= 9 * SECOND  # a small correction takes nothing from the living
    assert (store.leases(), store.controllers()) == ([lease], ["c1"])
    assert store.acquire("orders", "c2", clock.time + SECOND) is None
    clock.time -= 100 * SECOND
    assert (store.leases(), store.controllers()) == ([], [])
    taken = store.acquire("orders", "c2", clock.time + SECOND)
    assert taken is not None and taken.fence > lease.fence


def test_a_writers_id_is_free_when_the_clock_was_set_back_beyond_its_lease(
    store: Store, handle: WriterHandle, clock: Clock
) -> None:
    clock.time -= 20 * SECOND
    with pytest.raises(ConflictError):
        store.open_writer("orders", "till")
    clock.time -= 20 * SECOND
    assert store.open_writer("orders", "till").epoch > handle.epoch


def test_controllers_are_alive_until_their_heartbeat_expires(store: Store, clock: Clock) -> None:
    store.heartbeat("b", clock.time + 2)
    store.heartbeat("a", clock.time + 1)
    assert store.controllers() == ["a", "b"]
    clock.time += 1
    assert store.controllers() == ["b"]
    store.heartbeat("a", clock.time + 5)
    assert store.controllers() == ["a", "b"]


def test_a_controller_that_leaves_gives_its_leases_back(store: Store, lease: Lease, clock: Clock) -> None:
    store.create_stream("other", config())
    kept = store.acquire("other", "c2", clock.time + SECOND)
    store.heartbeat("c1", clock.time + SECOND)
    store.heartbeat("c2", clock.time + SECOND)
    store.leave("c1")
    store.leave("c1")
    assert store.controllers() == ["c2"] and store.leases() == [kept]
    assert store.acquire("orders", "c2", clock.time + SECOND) is not None


def test_a_group_changes_only_from_the_version_that_was_seen(store: Store, handle: WriterHandle) -> None:
    assert store.group("orders", "g") is None
    assert not store.put_group("orders", "g", 1, b"too early")
    assert store.put_group("orders", "g", 0, b"one")
    assert not store.put_group("orders", "g", 0, b"again")
    assert store.group("orders", "g") == (1, b"one")
    assert store.put_group("orders", "g", 1, b"two")
    assert not store.put_group("orders", "g", 1, b"late")
    assert store.group("orders", "g") == (2, b"two")
    assert store.group("orders", "h") is None


def test_a_deleted_group_is_gone(store: Store, handle: WriterHandle) -> None:
    store.put_group("orders", "g", 0, b"one")
    store.delete_group("orders", "g")
    store.delete_group("orders", "g")
    assert store.group("orders", "g") is None
    assert store.put_group("orders", "g", 0, b"new")
