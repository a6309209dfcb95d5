"""The store: each call is one step on the database."""

# ruff: noqa: D102 - ``Store`` says what each of them does

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from eventide.marks.mark import Mark, Note, NoteColumns
from eventide.marks.segments import Position, Ranges, Segments
from eventide.marks.stores.sql import events, owners, packing, streams, times, transactions, writers
from eventide.marks.stores.sql.database import Database, Step
from eventide.marks.stores.store import Blob, Config, Lease, Part, Seat, StreamInfo, Transaction

P = ParamSpec("P")
T = TypeVar("T")


class SqlStore:
    """A ``Store`` in a database that has its tables (``tables.prepare``)."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known = writers.KnownSegments()

    @property
    def url(self) -> str:
        return self._database.url

    def close(self) -> None:
        self._database.close()

    def now(self) -> int:
        return self._database.look(lambda step: step.now)

    # Streams

    def create_stream(self, name: str, config: Config) -> StreamInfo:
        return self._once(streams.create, name, config)

    def stream(self, name: str) -> StreamInfo:
        return self._look(streams.info, name)

    def streams(self) -> list[str]:
        return self._look(streams.names)

    def delete_stream(self, name: str) -> None:
        self._once(streams.delete, name)

    def scale(self, name: str, seal: Sequence[int], ranges: Ranges) -> Segments:
        return self._once(streams.scale, name, seal, ranges)

    def seal(self, name: str) -> Segments:
        return self._change(streams.seal, name)

    def truncate(self, name: str, cut: Position) -> None:
        self._change(streams.truncate, name, cut)

    def lengths(self, name: str) -> dict[int, int]:
        return self._look(streams.lengths, name)

    # Events

    def open_writer(self, stream: str, writer: str, *, take_over: bool = False) -> Seat:
        return self._once(writers.open_writer, stream, writer, take_over)

    def append(self, seat: Seat, sequence: int, parts: Sequence[Part], *, note: int | None = None) -> dict[int, int]:
        return self._change(events.append, self._known, seat, sequence, parts, note)

    def read(self, stream: str, segment: int, offset: int, *, rows: int, until: int | None = None) -> list[Blob]:
        return self._look(events.read, stream, segment, offset, rows, until)

    def pack(self, stream: str, segment: int, offset: int) -> int:
        return self._change(packing.pack, stream, segment, offset)

    def close_writer(self, seat: Seat) -> None:
        self._change(writers.close_writer, seat)

    # Transactions

    def begin(self, seat: Seat, *, timeout: int) -> Transaction:
        return self._once(transactions.begin, seat, timeout)

    def add(self, seat: Seat, transaction: str, number: int, rows: int, body: bytes) -> None:
        self._change(transactions.add, seat, transaction, number, rows, body)

    def commit(self, seat: Seat, transaction: str, *, note: int | None = None) -> dict[int, int]:
        return self._change(transactions.commit, seat, transaction, note)

    def commit_batch(self, seat: Seat, sequence: int, ids: Sequence[str], *, note: int | None = None) -> dict[int, int]:
        return self._change(transactions.commit_batch, seat, sequence, ids, note)

    def abort(self, seat: Seat, transaction: str) -> None:
        self._change(transactions.abort, seat, transaction)

    def transactions(self, stream: str) -> list[Transaction]:
        return self._look(transactions.listed, stream)

    def expire_transactions(self) -> int:
        return self._once(transactions.expire)

    # Time

    def note(self, seat: Seat, time: int, position: Position) -> None:
        self._change(times.note, self._known, seat, time, position)

    def notes(self, stream: str) -> list[Note]:
        return self._look(times.notes, stream)

    def note_columns(self, stream: str) -> NoteColumns:
        return self._look(times.note_columns, stream)

    def put_mark(self, lease: Lease, mark: Mark, *, forget: Collection[tuple[str, int]] = ()) -> None:
        self._once(times.put_mark, lease, mark, forget)

    def forget(self, lease: Lease, writers: Collection[tuple[str, int]]) -> None:
        self._change(times.forget, lease, writers)

    def marks(self, stream: str, *, after: int = 0, limit: int | None = None) -> list[Mark]:
        return self._look(times.marks, stream, after, limit)

    def last_mark(self, stream: str) -> Mark | None:
        return self._look(times.last_mark, stream)

    # Controllers and readers

    def beat(self, controller: str, until: int) -> None:
        self._change(owners.beat, controller, until)

    def controllers(self) -> list[str]:
        return self._look(owners.controllers)

    def leave(self, controller: str) -> None:
        self._change(owners.leave, controller)

    def acquire(self, stream: str, controller: str, until: int) -> Lease | None:
        return self._change(owners.acquire, stream, controller, until)

    def release(self, lease: Lease) -> None:
        self._change(owners.release, lease)

    def leases(self) -> list[Lease]:
        return self._look(owners.leases)

    def group(self, stream: str, name: str) -> tuple[int, bytes] | None:
        return self._look(owners.group, stream, name)

    def put_group(self, stream: str, name: str, version: int, state: bytes) -> bool:
        return self._once(owners.put_group, stream, name, version, state)

    def delete_group(self, stream: str, name: str) -> None:
        self._once(owners.delete_group, stream, name)

    def _look(self, work: Callable[Concatenate[Step, P], T], *args: P.args, **options: P.kwargs) -> T:
        return self._database.look(lambda step: work(step, *args, **options))

    def _change(self, work: Callable[Concatenate[Step, P], T], *args: P.args, **options: P.kwargs) -> T:
        """A step that may be done twice: the second time it changes nothing."""
        return self._database.change(lambda step: work(step, *args, **options), again=True)

    def _once(self, work: Callable[Concatenate[Step, P], T], *args: P.args, **options: P.kwargs) -> T:
        return self._database.change(lambda step: work(step, *args, **options))
