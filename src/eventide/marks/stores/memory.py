"""A store in the memory of one process, for tests and experiments."""

# ruff: noqa: D102 - ``Store`` documents the methods

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Collection, Sequence
from functools import wraps
from inspect import isfunction
from typing import Any, TypeVar

from eventide.marks.errors import lease_lost, stream_exists, unknown_stream
from eventide.marks.events import check_columns
from eventide.marks.mark import Mark, Note, NoteColumns
from eventide.marks.segments import Position, Ranges, Segments
from eventide.marks.stores.memory_stream import MemoryStream
from eventide.marks.stores.store import (
    Blob,
    Config,
    Lease,
    Part,
    StreamInfo,
    TransactionInfo,
    WriterHandle,
    is_lease_active,
    wall_clock,
)

_S = TypeVar("_S", bound=type)


def _synchronized(store: _S) -> _S:
    """Serialize the public methods of a store, so that each call is atomic."""

    def synchronized(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(self: MemoryStore, *args: Any, **options: Any) -> Any:
            with self._lock:
                return method(self, *args, **options)

        return call

    for name, method in list(vars(store).items()):
        if isfunction(method) and not name.startswith("_"):
            setattr(store, name, synchronized(method))
    return store


@_synchronized
class MemoryStore:
    """A ``Store`` in memory. ``clock`` returns microseconds.

    >>> import pyarrow as pa
    >>> store = MemoryStore(clock=lambda: 1_000_000)
    >>> info = store.create_stream("orders", Config(schema=pa.schema({"shop": pa.string()})))
    >>> handle = store.open_writer("orders", "till")
    >>> store.append(handle, 1, [Part(0, 3, b"three events")], note=500_000)
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
        self._heartbeats: dict[str, tuple[int, int]] = {}
        """Expiry and length of the last heartbeat of each controller."""
        self._leases: dict[str, tuple[Lease, int]] = {}
        """Lease and length by stream."""
        self._fence = 0
        self._created = 0

    def close(self) -> None:
        """No connections to close."""

    # streams and segments

    def create_stream(self, name: str, config: Config) -> StreamInfo:
        if name in self._streams:
            raise stream_exists(name)
        check_columns(name, config.schema)
        info = StreamInfo(name, self.now(), config, Segments.even(config.segments))
        self._created += 1
        self._streams[name] = MemoryStream(info, self._created)
        return info

    def stream(self, name: str) -> StreamInfo:
        return self._stream(name).info

    def streams(self) -> list[str]:
        return sorted(self._streams)

    def delete_stream(self, name: str) -> None:
        self._stream(name)
        del self._streams[name]
        self._leases.pop(name, None)
        self._groups = {key: state for key, state in self._groups.items() if key[0] != name}

    def scale(self, name: str, seal: Sequence[int], ranges: Ranges) -> Segments:
        return self._stream(name).scale(seal, ranges)

    def seal(self, name: str) -> Segments:
        return self._stream(name).seal()

    def truncate(self, name: str, cut: Position) -> None:
        self._stream(name).truncate(cut)

    def lengths(self, name: str) -> dict[int, int]:
        return dict(self._stream(name).lengths)

    # events

    def open_writer(self, stream: str, writer: str, *, take_over: bool = False) -> WriterHandle:
        return self._stream(stream).open_writer(writer, self.now(), take_over=take_over)

    def append(
        self, handle: WriterHandle, sequence: int, parts: Sequence[Part], *, note: int | None = None
    ) -> dict[int, int]:
        return self._stream(handle.stream).append(handle, sequence, parts, note, self.now())

    def read(self, stream: str, segment: int, offset: int, *, rows: int, until: int | None = None) -> list[Blob]:
        return self._stream(stream).read(segment, offset, rows, until)

    def compact(self, stream: str, segment: int, offset: int) -> int:
        return self._stream(stream).compact(segment, offset)

    def close_writer(self, handle: WriterHandle) -> None:
        self._stream(handle.stream).close_writer(handle)

    # transactions

    def begin(self, handle: WriterHandle, *, timeout: int) -> TransactionInfo:
        return self._stream(handle.stream).begin(handle, uuid.uuid4().hex, timeout, self.now())

    def add(self, handle: WriterHandle, transaction: str, number: int, rows: int, body: bytes) -> None:
        self._stream(handle.stream).add(handle, transaction, number, body, self.now())

    def commit(self, handle: WriterHandle, transaction: str, *, note: int | None = None) -> dict[int, int]:
        return self._stream(handle.stream).commit(handle, transaction, note, self.now())

    def commit_batch(
        self, handle: WriterHandle, sequence: int, ids: Sequence[str], *, note: int | None = None
    ) -> dict[int, int]:
        return self._stream(handle.stream).commit_batch(handle, sequence, ids, note, self.now())

    def abort(self, handle: WriterHandle, transaction: str) -> None:
        self._stream(handle.stream).abort(handle, transaction, self.now())

    def transactions(self, stream: str) -> list[TransactionInfo]:
        return [transaction.info(self.now()) for transaction in self._stream(stream).transactions.values()]

    def expire_transactions(self) -> int:
        return sum(stream.expire(self.now()) for stream in self._streams.values())

    # notes and marks

    def note(self, handle: WriterHandle, time: int, position: Position) -> None:
        self._stream(handle.stream).note(handle, time, position, self.now())

    def notes(self, stream: str) -> list[Note]:
        return self._stream(stream).all_notes()

    def note_columns(self, stream: str) -> NoteColumns:
        return NoteColumns.from_notes(self.notes(stream))

    def put_mark(self, lease: Lease, mark: Mark, *, obsolete: Collection[tuple[str, int]] = ()) -> None:
        stream = self._owned(lease)
        if mark.number != (stream.marks[-1].number if stream.marks else 0) + 1:
            raise lease_lost(lease.stream, lease.owner)
        stream.marks.append(mark)
        stream.delete_notes(obsolete)

    def delete_notes(self, lease: Lease, notes: Collection[tuple[str, int]]) -> None:
        self._owned(lease).delete_notes(notes)

    def marks(self, stream: str, *, after: int = 0, limit: int | None = None) -> list[Mark]:
        return [mark for mark in self._stream(stream).marks if mark.number > after][:limit]

    def last_mark(self, stream: str) -> Mark | None:
        marks = self._stream(stream).marks
        return marks[-1] if marks else None

    # controllers

    def heartbeat(self, controller: str, until: int) -> None:
        now = self.now()
        self._heartbeats = {name: expiry for name, expiry in self._heartbeats.items() if is_lease_active(*expiry, now)}
        self._heartbeats[controller] = until, until - now

    def controllers(self) -> list[str]:
        return sorted(name for name, expiry in self._heartbeats.items() if is_lease_active(*expiry, self.now()))

    def leave(self, controller: str) -> None:
        self._heartbeats.pop(controller, None)
        self._leases = {name: entry for name, entry in self._leases.items() if entry[0].owner != controller}

    def acquire(self, stream: str, controller: str, until: int) -> Lease | None:
        self._stream(stream)
        now, lease = self.now(), self._active_leases().get(stream)
        if lease is None:
            self._fence += 1  # unique, even for a new stream with the same name
            lease = Lease(stream, controller, self._fence, until)
        elif lease.owner != controller:
            return None
        lease = lease._replace(until=until)
        self._leases[stream] = lease, until - now
        return lease

    def release(self, lease: Lease) -> None:
        current = self._leases.get(lease.stream)
        if current is not None and current[0].fence == lease.fence:
            del self._leases[lease.stream]

    def leases(self) -> list[Lease]:
        return sorted(self._active_leases().values())

    # reader groups

    def group(self, stream: str, name: str) -> tuple[int, bytes] | None:
        self._stream(stream)
        return self._groups.get((stream, name))

    def put_group(self, stream: str, name: str, version: int, state: bytes) -> bool:
        self._stream(stream)
        if self._groups.get((stream, name), (0, b""))[0] != version:
            return False
        self._groups[stream, name] = version + 1, state
        return True

    def delete_group(self, stream: str, name: str) -> None:
        self._groups.pop((stream, name), None)

    def _stream(self, name: str) -> MemoryStream:
        if name not in self._streams:
            raise unknown_stream(name, self._streams)
        return self._streams[name]

    def _active_leases(self) -> dict[str, Lease]:
        now = self.now()
        return {
            name: lease for name, (lease, length) in self._leases.items() if is_lease_active(lease.until, length, now)
        }

    def _owned(self, lease: Lease) -> MemoryStream:
        current = self._leases.get(lease.stream)
        if current is None or (current[0].owner, current[0].fence) != (lease.owner, lease.fence):
            raise lease_lost(lease.stream, lease.owner)
        return self._stream(lease.stream)
