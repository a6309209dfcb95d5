"""A store in a SQL database: each call is one step."""

# ruff: noqa: D102 - ``Store`` documents the methods

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from eventide.marks.segments import Position
from eventide.marks.stores import sql_log, sql_streams, sql_transactions
from eventide.marks.stores.sql_database import DatabaseStep, StoreDatabase
from eventide.marks.stores.store import Part, WriterHandle

P = ParamSpec("P")
T = TypeVar("T")


def _read(work: Callable[Concatenate[DatabaseStep, P], T]) -> Callable[Concatenate[SqlStore, P], T]:
    """Return the method that reads in one step."""

    def call(store: SqlStore, /, *args: P.args, **options: P.kwargs) -> T:
        return store._database.read(lambda step: work(step, *args, **options))

    return call


def _write(
    work: Callable[Concatenate[DatabaseStep, P], T], *, idempotent: bool = False
) -> Callable[Concatenate[SqlStore, P], T]:
    """Return the method that writes in one step. An idempotent step may be repeated when the connection breaks."""

    def call(store: SqlStore, /, *args: P.args, **options: P.kwargs) -> T:
        return store._database.write(lambda step: work(step, *args, **options), idempotent=idempotent)

    return call


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

    create_stream = _write(sql_streams.create_stream)
    stream = _read(sql_streams.stream_info)
    streams = _read(sql_streams.stream_names)
    delete_stream = _write(sql_streams.delete_stream)
    scale = _write(sql_streams.scale)
    seal = _write(sql_streams.seal, idempotent=True)
    truncate = _write(sql_streams.truncate, idempotent=True)
    lengths = _read(sql_streams.lengths)

    # events

    open_writer = _write(sql_log.open_writer)
    read = _read(sql_log.read)
    compact = _write(sql_log.compact, idempotent=True)
    close_writer = _write(sql_log.close_writer, idempotent=True)

    def append(
        self, handle: WriterHandle, sequence: int, parts: Sequence[Part], *, note: int | None = None
    ) -> dict[int, int]:
        return self._database.write(
            lambda step: sql_log.append(step, self._segments, handle, sequence, parts, note), idempotent=True
        )

    # transactions

    begin = _write(sql_transactions.begin)
    add = _write(sql_transactions.add, idempotent=True)
    commit = _write(sql_transactions.commit, idempotent=True)
    commit_batch = _write(sql_transactions.commit_batch, idempotent=True)
    abort = _write(sql_transactions.abort, idempotent=True)
    transactions = _read(sql_transactions.transactions)
    expire_transactions = _write(sql_transactions.expire_transactions)

    # notes and marks

    notes = _read(sql_transactions.notes)
    note_columns = _read(sql_transactions.note_columns)
    put_mark = _write(sql_transactions.put_mark)
    delete_notes = _write(sql_transactions.delete_notes, idempotent=True)
    marks = _read(sql_transactions.marks)
    last_mark = _read(sql_transactions.last_mark)

    def note(self, handle: WriterHandle, time: int, position: Position) -> None:
        self._database.write(
            lambda step: sql_transactions.note(step, self._segments, handle, time, position), idempotent=True
        )

    # controllers and reader groups

    heartbeat = _write(sql_streams.heartbeat, idempotent=True)
    controllers = _read(sql_streams.controllers)
    leave = _write(sql_streams.leave, idempotent=True)
    acquire = _write(sql_streams.acquire, idempotent=True)
    release = _write(sql_streams.release, idempotent=True)
    leases = _read(sql_streams.leases)
    group = _read(sql_streams.group)
    put_group = _write(sql_streams.put_group)
    delete_group = _write(sql_streams.delete_group)
