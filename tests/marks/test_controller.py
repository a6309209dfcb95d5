"""One controller and several: who makes marks, when, and what becomes of a controller that was asleep."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from eventide.marks.controller import Controller
from eventide.marks.controller.controller import owner_of, streams_of
from eventide.marks.errors import LeaseLostError
from eventide.marks.mark import Mark
from eventide.marks.stores.memory import MemoryStore
from eventide.marks.stores.store import Config, Part, WriterHandle
from eventide.time import MAX

SECOND = 1_000_000
CONFIG = Config(schema=pa.schema({"n": pa.int64()}))


class Clock:
    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now

    def pass_(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> MemoryStore:
    return MemoryStore(clock)


def write(store: MemoryStore, handle: WriterHandle, sequence: int, time: int, rows: int = 1) -> None:
    store.append(handle, sequence, [Part(0, rows, b"")], note=time)


def numbers(store: MemoryStore, stream: str = "orders") -> list[int]:
    return [mark.lower for mark in store.marks(stream)]


@pytest.fixture
def till(store: MemoryStore) -> WriterHandle:
    store.create_stream("orders", CONFIG)
    return store.open_writer("orders", "till")


def test_a_new_stream_has_its_first_mark_after_its_period(store: MemoryStore, clock: Clock, till: WriterHandle) -> None:
    controller = Controller(store)
    write(store, till, 1, 100)
    clock.pass_(4.9)
    controller.step()
    assert numbers(store) == []
    clock.pass_(0.1)
    controller.step()
    assert numbers(store) == [100]


def test_marks_are_a_period_apart(store: MemoryStore, clock: Clock, till: WriterHandle) -> None:
    controller = Controller(store)
    for second in range(1, 21):
        clock.pass_(1)
        write(store, till, second, second * 10)
        controller.step()
    assert numbers(store) == [50, 100, 150, 200]


def test_a_stream_that_ends_has_its_last_mark_at_once(store: MemoryStore, clock: Clock, till: WriterHandle) -> None:
    controller = Controller(store)
    clock.pass_(6)
    write(store, till, 1, 100, rows=3)
    controller.step()
    store.seal("orders")
    controller.step()
    controller.step()
    assert numbers(store) == [100, MAX]
    assert store.notes("orders") == []


def test_a_silent_writer_is_forgotten(store: MemoryStore, clock: Clock, till: WriterHandle) -> None:
    controller = Controller(store)
    web = store.open_writer("orders", "web")
    write(store, web, 1, 50)
    write(store, till, 1, 100)
    clock.pass_(6)
    controller.step()
    assert controller.status().streams[0].live == ("till", "web")
    clock.pass_(55)
    write(store, till, 2, 200)
    clock.pass_(1)
    assert controller.status().streams[0].silent == ("web",)
    controller.step()
    assert numbers(store) == [50, 200]
    assert [note.writer for note in store.notes("orders")] == ["till"]


def test_the_status_says_how_far_time_is_behind(store: MemoryStore, clock: Clock, till: WriterHandle) -> None:
    controller = Controller(store, "here")
    write(store, till, 1, 2 * SECOND)
    clock.pass_(6)
    controller.step()
    store.close_writer(till)
    status = controller.status()
    assert (status.controller, status.controllers) == ("here", ("here",))
    (stream,) = status.streams
    assert stream.mark == Mark(1, 2 * SECOND, 2 * SECOND, {0: 1}, 6 * SECOND)
    assert (stream.lag, stream.live, stream.closed) == (4 * SECOND, (), ("till",))


def test_a_transaction_beyond_its_deadline_is_aborted(store: MemoryStore, clock: Clock, till: WriterHandle) -> None:
    store.begin(till, timeout=SECOND)
    clock.pass_(2)
    Controller(store).step()
    assert [transaction.status for transaction in store.transactions("orders")] == ["aborted"]


def test_streams_are_divided_and_each_has_one_owner(store: MemoryStore, clock: Clock) -> None:
    for number in range(30):
        store.create_stream(f"stream {number}", CONFIG)
    controllers = [Controller(store, name) for name in ("a", "b", "c")]
    for _ in range(2):
        for controller in controllers:
            controller.step()
    owned = [stream for controller in controllers for stream in controller.streams]
    assert sorted(owned) == store.streams()
    assert all(len(controller.streams) >= 4 for controller in controllers)


def test_when_one_goes_only_its_streams_change_hands() -> None:
    streams = [f"stream {number}" for number in range(100)]
    before = {stream: owner_of(stream, ["a", "b", "c"]) for stream in streams}
    after = {stream: owner_of(stream, ["a", "c"]) for stream in streams}
    assert all(after[stream] == owner for stream, owner in before.items() if owner != "b")
    assert {after[stream] for stream in streams_of("b", streams, ["a", "b", "c"])} == {"a", "c"}


def test_a_dead_controller_is_replaced_when_its_lease_is_over(
    store: MemoryStore, clock: Clock, till: WriterHandle
) -> None:
    first, second = Controller(store, "first"), Controller(store, "second")
    first.step()
    clock.pass_(9)
    second.step()
    assert second.streams == ()
    clock.pass_(1)
    second.step()
    assert second.streams == ("orders",)


def test_a_controller_that_stops_is_replaced_at_once(store: MemoryStore, clock: Clock, till: WriterHandle) -> None:
    first, second = Controller(store, "first"), Controller(store, "second")
    first.step()
    first.stop()
    second.step()
    assert (first.streams, second.streams) == ((), ("orders",))


def test_it_stops_even_if_its_store_is_gone(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def gone(controller: str) -> None:
        raise OSError("the server hung up")

    monkeypatch.setattr(store, "leave", gone)
    Controller(store, "here").stop()
    assert caplog.messages == ["Controller here could not release its leases: the server hung up"]


def test_an_owner_keeps_its_streams_for_as_long_as_it_lives(
    store: MemoryStore, clock: Clock, till: WriterHandle
) -> None:
    controller = Controller(store, "only")
    controller.step()
    fences = {lease.fence for lease in store.leases()}
    for _ in range(50):
        clock.pass_(1)
        controller.step()
        fences |= {lease.fence for lease in store.leases()}
    assert len(fences) == 1


def test_an_owner_that_slept_is_rejected(store: MemoryStore, clock: Clock, till: WriterHandle) -> None:
    slow = store.acquire("orders", "slow", clock.now + 10 * SECOND)
    assert slow is not None
    clock.pass_(11)
    write(store, till, 1, 100)
    Controller(store, "quick").step()
    with pytest.raises(LeaseLostError, match="'slow'"):
        store.put_mark(slow, Mark(2, 900, 900, {0: 1}, clock.now))
    assert numbers(store) == [100]


def test_a_deleted_stream_is_dropped(store: MemoryStore, clock: Clock, till: WriterHandle) -> None:
    controller = Controller(store)
    controller.step()
    store.delete_stream("orders")
    controller.step()
    assert controller.streams == ()
    assert controller.status().streams == ()


def test_the_trouble_of_one_stream_is_not_that_of_others(
    store: MemoryStore, clock: Clock, till: WriterHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create_stream("broken", CONFIG)
    write(store, till, 1, 100)
    whole = store.note_columns

    def broken(stream: str) -> object:
        if stream == "broken":
            raise OSError("the disk is gone")
        return whole(stream)

    monkeypatch.setattr(store, "note_columns", broken)
    controller = Controller(store)
    clock.pass_(6)
    controller.step()
    assert numbers(store) == [100]
    monkeypatch.undo()
    assert [status.failure for status in controller.status().streams] == ["the disk is gone", None]
    controller.step()
    assert [status.failure for status in controller.status().streams] == [None, None]


def test_a_controller_is_alive_however_long_its_round_is(
    store: MemoryStore, clock: Clock, till: WriterHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(10):
        store.create_stream(f"more {number}", CONFIG)
    alive = []
    whole = store.last_mark

    def slow(stream: str) -> object:
        clock.pass_(4)
        alive.append(store.controllers())
        return whole(stream)

    monkeypatch.setattr(store, "last_mark", slow)
    Controller(store, "one", lease="10 seconds").step()
    assert alive == [["one"]] * 11


def test_a_clock_that_is_set_back_does_not_stop_time(store: MemoryStore, clock: Clock, till: WriterHandle) -> None:
    controller = Controller(store)
    clock.pass_(3600)
    write(store, till, 1, 100)
    controller.step()
    clock.pass_(-1800)
    write(store, till, 2, 200)
    controller.step()
    assert numbers(store) == [100, 200]


def test_it_runs_in_a_thread_of_its_own(
    store: MemoryStore, clock: Clock, till: WriterHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(store, till, 1, 100)
    clock.pass_(6)
    put, done = store.put_mark, threading.Event()
    monkeypatch.setattr(store, "put_mark", lambda *args, **options: (put(*args, **options), done.set()))
    with Controller(store, every="1 millisecond") as controller:
        assert done.wait(10)
        assert controller.streams == ("orders",)
    assert store.controllers() == []
    assert store.leases() == []
