"""A store in a SQL database: each call is one step."""

# ruff: noqa: D102 - ``Store`` documents the methods

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from eventide.marks.mark import Mark, Note, NoteColumns
from eventide.marks.segments import Position, Ranges, Segments
from eventide.marks.stores import sql_log, sql_streams, sql_transactions
from eventide.marks.stores.sql_database import DatabaseStep, StoreDatabase
from eventide.marks.stores.store import Blob, Config, Lease, Part, StreamInfo, TransactionInfo, WriterHandle

P = ParamSpec("P")
T = TypeVar("T")


class SqlStore:
    """A ``Store`` in a database with its tables (``sql_database.create_tables``)."""

    def __init__(self, database: StoreDatabase) -> None:
        self._database = database
        self._segments = sql_log.SegmentCache()

    @property
    def url(self) -> str:
        return self._database.url

    def close(self) -> None:
        self._database.close()

    def now(self) -> int:
        return self._database.read(lambda step: step.now)

    # streams and segments

    def create_stream(self, name: str, config: Config) -> StreamInfo:
        return self._write(sql_streams.create_stream, name, config)

    def stream(self, name: str) -> StreamInfo:
        return self._read(sql_streams.stream_info, name)

    def streams(self) -> list[str]:
        return self._read(sql_streams.stream_names)

    def delete_stream(self, name: str) -> None:
        self._write(sql_streams.delete_stream, name)

    def scale(self, name: str, seal: Sequence[int], ranges: Ranges) -> Segments:
        return self._write(sql_streams.scale, name, seal, ranges)

    def seal(self, name: str) -> Segments:
        return self._write_idempotent(sql_streams.seal, name)

    def truncate(self, name: str, cut: Position) -> None:
        self._write_idempotent(sql_streams.truncate, name, cut)

    def lengths(self, name: str) -> dict[int, int]:
        return self._read(sql_streams.lengths, name)

    # events

    def open_writer(self, stream: str, writer: str, *, take_over: bool = False) -> WriterHandle:
        return self._write(sql_log.open_writer, stream, writer, take_over)

    def append(
        self, handle: WriterHandle, sequence: int, parts: Sequence[Part], *, note: int | None = None
    ) -> dict[int, int]:
        return self._write_idempotent(sql_log.append, self._segments, handle, sequence, parts, note)

    def read(self, stream: str, segment: int, offset: int, *, rows: int, until: int | None = None) -> list[Blob]:
        return self._read(sql_log.read, stream, segment, offset, rows, until)

    def compact(self, stream: str, segment: int, offset: int) -> int:
        return self._write_idempotent(sql_log.compact, stream, segment, offset)

    def close_writer(self, handle: WriterHandle) -> None:
        self._write_idempotent(sql_log.close_writer, handle)

    # transactions

    def begin(self, handle: WriterHandle, *, timeout: int) -> TransactionInfo:
        return self._write(sql_transactions.begin, handle, timeout)

    def add(self, handle: WriterHandle, transaction: str, number: int, rows: int, body: bytes) -> None:
        self._write_idempotent(sql_transactions.add, handle, transaction, number, rows, body)

    def commit(self, handle: WriterHandle, transaction: str, *, note: int | None = None) -> dict[int, int]:
        return self._write_idempotent(sql_transactions.commit, handle, transaction, note)

    def commit_batch(
        self, handle: WriterHandle, sequence: int, ids: Sequence[str], *, note: int | None = None
    ) -> dict[int, int]:
        return self._write_idempotent(sql_transactions.commit_batch, handle, sequence, ids, note)

    def abort(self, handle: WriterHandle, transaction: str) -> None:
        self._write_idempotent(sql_transactions.abort, handle, transaction)

    def transactions(self, stream: str) -> list[TransactionInfo]:
        return self._read(sql_transactions.transactions, stream)

    def expire_transactions(self) -> int:
        return self._write(sql_transactions.expire_transactions)

    # notes and marks

    def note(self, handle: WriterHandle, time: int, position: Position) -> None:
        self._write_idempotent(sql_transactions.note, self._segments, handle, time, position)

    def notes(self, stream: str) -> list[Note]:
        return self._read(sql_transactions.notes, stream)

    def note_columns(self, stream: str) -> NoteColumns:
        return self._read(sql_transactions.note_columns, stream)

    def put_mark(self, lease: Lease, mark: Mark, *, obsolete: Collection[tuple[str, int]] = ()) -> None:
        self._write(sql_transactions.put_mark, lease, mark, obsolete)

    def delete_notes(self, lease: Lease, notes: Collection[tuple[str, int]]) -> None:
        self._write_idempotent(sql_transactions.delete_notes, lease, notes)

    def marks(self, stream: str, *, after: int = 0, limit: int | None = None) -> list[Mark]:
        return self._read(sql_transactions.marks, stream, after, limit)

    def last_mark(self, stream: str) -> Mark | None:
        return self._read(sql_transactions.last_mark, stream)

    # controllers and reader groups

    def heartbeat(self, controller: str, until: int) -> None:
        self._write_idempotent(sql_streams.heartbeat, controller, until)

    def controllers(self) -> list[str]:
        return self._read(sql_streams.controllers)

    def leave(self, controller: str) -> None:
        self._write_idempotent(sql_streams.leave, controller)

    def acquire(self, stream: str, controller: str, until: int) -> Lease | None:
        return self._write_idempotent(sql_streams.acquire, stream, controller, until)

    def release(self, lease: Lease) -> None:
        self._write_idempotent(sql_streams.release, lease)

    def leases(self) -> list[Lease]:
        return self._read(sql_streams.leases)

    def group(self, stream: str, name: str) -> tuple[int, bytes] | None:
        return self._read(sql_streams.group, stream, name)

    def put_group(self, stream: str, name: str, version: int, state: bytes) -> bool:
        return self._write(sql_streams.put_group, stream, name, version, state)

    def delete_group(self, stream: str, name: str) -> None:
        self._write(sql_streams.delete_group, stream, name)

    def _read(self, work: Callable[Concatenate[DatabaseStep, P], T], *args: P.args, **options: P.kwargs) -> T:
        return self._database.read(lambda step: work(step, *args, **options))

    def _write_idempotent(
        self, work: Callable[Concatenate[DatabaseStep, P], T], *args: P.args, **options: P.kwargs
    ) -> T:
        """Execute a step that may be repeated when the connection breaks."""
        return self._database.write(lambda step: work(step, *args, **options), idempotent=True)

    def _write(self, work: Callable[Concatenate[DatabaseStep, P], T], *args: P.args, **options: P.kwargs) -> T:
        return self._database.write(lambda step: work(step, *args, **options))
