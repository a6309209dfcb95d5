"""A store in this process, for tests and for trying things out: gone when it is, and otherwise like any other."""

# ruff: noqa: D102 - ``Store`` says what each of them does

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from eventide.errors import marks as errors
from eventide.marks import events
from eventide.marks.leases import lasts
from eventide.marks.mark import Mark, Note, NoteColumns
from eventide.marks.segments import Position, Ranges, Segments
from eventide.marks.stores.memory_stream import MemoryStream
from eventide.marks.stores.store import Blob, Config, Lease, Part, Seat, StreamInfo, Transaction

_P = ParamSpec("_P")
_R = TypeVar("_R")


def wall_clock() -> int:
    """Microseconds since the epoch."""
    return time.time_ns() // 1000


def _alone(
    method: Callable[Concatenate[MemoryStore, _P], _R],
) -> Callable[Concatenate[MemoryStore, _P], _R]:
    """One call at a time, so that each is one step for all others."""

    @wraps(method)
    def alone(store: MemoryStore, /, *args: _P.args, **options: _P.kwargs) -> _R:
        with store._lock:
            return method(store, *args, **options)

    return alone


class MemoryStore:
    """A ``Store`` that keeps everything in memory. ``clock`` gives the time in microseconds.

    >>> import pyarrow as pa
    >>> store = MemoryStore(clock=lambda: 1_000_000)
    >>> info = store.create_stream("orders", Config(schema=pa.schema({"shop": pa.string()})))
    >>> seat = store.open_writer("orders", "till")
    >>> store.append(seat, 1, [Part(0, 3, b"three events")], note=500_000)
    {0: 3}
    >>> [(note.writer, note.time, note.position) for note in store.notes("orders")]
    [('till', 500000, {0: 3})]
    """

    url = "memory:"

    def __init__(self, clock: Callable[[], int] = wall_clock) -> None:
        self.now = clock
        self._lock = threading.RLock()
        self._streams: dict[str, MemoryStream] = {}
        self._groups: dict[tuple[str, str], tuple[int, bytes]] = {}
        self._alive: dict[str, tuple[int, int]] = {}
        """Until when controllers are, and for how long that was said."""
        self._leases: dict[str, tuple[Lease, int]] = {}
        """With how long each was given for."""
        self._fence = 0
        self._created = 0

    def close(self) -> None:
        """Nothing is held."""

    # streams and segments

    @_alone
    def create_stream(self, name: str, config: Config) -> StreamInfo:
        if name in self._streams:
            raise errors.stream_exists(name)
        events.check_columns(name, config.schema)
        info = StreamInfo(name, self.now(), config, Segments.even(config.segments))
        self._created += 1
        self._streams[name] = MemoryStream(info, self._created)
        return info

    @_alone
    def stream(self, name: str) -> StreamInfo:
        return self._found(name).info

    @_alone
    def streams(self) -> list[str]:
        return sorted(self._streams)

    @_alone
    def delete_stream(self, name: str) -> None:
        self._found(name)
        del self._streams[name]
        self._leases.pop(name, None)
        self._groups = {key: state for key, state in self._groups.items() if key[0] != name}

    @_alone
    def scale(self, name: str, seal: Sequence[int], ranges: Ranges) -> Segments:
        return self._found(name).scale(seal, ranges)

    @_alone
    def seal(self, name: str) -> Segments:
        return self._found(name).seal()

    @_alone
    def truncate(self, name: str, cut: Position) -> None:
        self._found(name).truncate(cut)

    @_alone
    def lengths(self, name: str) -> dict[int, int]:
        return dict(self._found(name).lengths)

    # events

    @_alone
    def open_writer(self, stream: str, writer: str, *, take_over: bool = False) -> Seat:
        return self._found(stream).open_writer(writer, self.now(), take_over=take_over)

    @_alone
    def append(self, seat: Seat, sequence: int, parts: Sequence[Part], *, note: int | None = None) -> dict[int, int]:
        return self._found(seat.stream).append(seat, sequence, parts, note, self.now())

    @_alone
    def read(self, stream: str, segment: int, offset: int, *, rows: int, until: int | None = None) -> list[Blob]:
        return self._found(stream).read(segment, offset, rows, until)

    @_alone
    def pack(self, stream: str, segment: int, offset: int) -> int:
        return self._found(stream).pack(segment, offset)

    @_alone
    def close_writer(self, seat: Seat) -> None:
        self._found(seat.stream).close_writer(seat)

    # transactions

    @_alone
    def begin(self, seat: Seat, *, timeout: int) -> Transaction:
        return self._found(seat.stream).begin(seat, uuid.uuid4().hex, timeout, self.now())

    @_alone
    def add(self, seat: Seat, transaction: str, number: int, rows: int, body: bytes) -> None:
        self._found(seat.stream).add(seat, transaction, number, body, self.now())

    @_alone
    def commit(self, seat: Seat, transaction: str, *, note: int | None = None) -> dict[int, int]:
        return self._found(seat.stream).commit(seat, transaction, note, self.now())

    @_alone
    def commit_batch(self, seat: Seat, sequence: int, ids: Sequence[str], *, note: int | None = None) -> dict[int, int]:
        return self._found(seat.stream).commit_batch(seat, sequence, ids, note, self.now())

    @_alone
    def abort(self, seat: Seat, transaction: str) -> None:
        self._found(seat.stream).abort(seat, transaction, self.now())

    @_alone
    def transactions(self, stream: str) -> list[Transaction]:
        return [one.shown() for one in self._found(stream).transactions.values()]

    @_alone
    def expire_transactions(self) -> int:
        return sum(stream.expire(self.now()) for stream in self._streams.values())

    # notes and marks

    @_alone
    def note(self, seat: Seat, time: int, position: Position) -> None:
        self._found(seat.stream).note(seat, time, position, self.now())

    @_alone
    def notes(self, stream: str) -> list[Note]:
        return self._found(stream).all_notes()

    def note_columns(self, stream: str) -> NoteColumns:
        return NoteColumns.of(self.notes(stream))

    @_alone
    def put_mark(self, lease: Lease, mark: Mark, *, forget: Collection[tuple[str, int]] = ()) -> None:
        stream = self._owned(lease)
        if mark.number != (stream.marks[-1].number if stream.marks else 0) + 1:
            raise errors.lease_lost(lease.stream, lease.owner)
        stream.marks.append(mark)
        stream.forget(forget)

    @_alone
    def forget(self, lease: Lease, writers: Collection[tuple[str, int]]) -> None:
        self._owned(lease).forget(writers)

    @_alone
    def marks(self, stream: str, *, after: int = 0, limit: int | None = None) -> list[Mark]:
        found = [mark for mark in self._found(stream).marks if mark.number > after]
        return found if limit is None else found[:limit]

    @_alone
    def last_mark(self, stream: str) -> Mark | None:
        marks = self._found(stream).marks
        return marks[-1] if marks else None

    # controllers

    @_alone
    def beat(self, controller: str, until: int) -> None:
        now = self.now()
        self._alive = {name: life for name, life in self._alive.items() if lasts(*life, now)}
        self._alive[controller] = until, until - now

    @_alone
    def controllers(self) -> list[str]:
        return sorted(name for name, life in self._alive.items() if lasts(*life, self.now()))

    @_alone
    def leave(self, controller: str) -> None:
        self._alive.pop(controller, None)
        self._leases = {name: held for name, held in self._leases.items() if held[0].owner != controller}

    @_alone
    def acquire(self, stream: str, controller: str, until: int) -> Lease | None:
        self._found(stream)
        now, lease = self.now(), self._lasting().get(stream)
        if lease is None:
            self._fence += 1  # never used again, not even for a new stream of that name
            lease = Lease(stream, controller, self._fence, until)
        elif lease.owner != controller:
            return None
        lease = lease._replace(until=until)
        self._leases[stream] = lease, until - now
        return lease

    @_alone
    def release(self, lease: Lease) -> None:
        held = self._leases.get(lease.stream)
        if held is not None and held[0].fence == lease.fence:
            del self._leases[lease.stream]

    @_alone
    def leases(self) -> list[Lease]:
        return sorted(self._lasting().values())

    # groups of readers

    @_alone
    def group(self, stream: str, name: str) -> tuple[int, bytes] | None:
        self._found(stream)
        return self._groups.get((stream, name))

    @_alone
    def put_group(self, stream: str, name: str, version: int, state: bytes) -> bool:
        self._found(stream)
        if self._groups.get((stream, name), (0, b""))[0] != version:
            return False
        self._groups[stream, name] = version + 1, state
        return True

    @_alone
    def delete_group(self, stream: str, name: str) -> None:
        self._groups.pop((stream, name), None)

    def _found(self, name: str) -> MemoryStream:
        if name not in self._streams:
            raise errors.unknown_stream(name, self._streams)
        return self._streams[name]

    def _lasting(self) -> dict[str, Lease]:
        now = self.now()
        return {name: lease for name, (lease, length) in self._leases.items() if lasts(lease.until, length, now)}

    def _owned(self, lease: Lease) -> MemoryStream:
        held = self._leases.get(lease.stream)
        if held is None or (held[0].owner, held[0].fence) != (lease.owner, lease.fence):
            raise errors.lease_lost(lease.stream, lease.owner)
        return self._found(lease.stream)
