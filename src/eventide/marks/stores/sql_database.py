"""Database access of the SQL stores: tables, encoded positions, and atomic steps over pooled connections.

Statements are written for PostgreSQL with ``?`` for values; SQLite drops what it does not need (``FOR UPDATE``). All
steps lock in one order to avoid deadlocks: stream, lease, writers, transactions, segments by number.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from eventide._databases import without_password
from eventide._formats import FORMATS
from eventide.errors import DataError
from eventide.marks.errors import StoreFailedError
from eventide.marks.segments import Position

Values: TypeAlias = Sequence[Any]
Rows: TypeAlias = list[tuple[Any, ...]]
T = TypeVar("T")

# Every append updates these rows: leave room to update them in place.
_UPDATED = "WITH (fillfactor = 50)"

TABLES = [
    "CREATE TABLE eventide_format (version BIGINT NOT NULL)",
    """CREATE TABLE eventide_streams (
        id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name TEXT NOT NULL UNIQUE, created BIGINT NOT NULL,
        schema BYTEA NOT NULL, first_segments BIGINT NOT NULL, writer_timeout BIGINT NOT NULL,
        mark_every BIGINT NOT NULL, writer_lease BIGINT NOT NULL, epoch BIGINT NOT NULL,
        segments TEXT NOT NULL, starts BYTEA NOT NULL
    )""",
    f"""CREATE TABLE eventide_segments (
        stream BIGINT NOT NULL, number BIGINT NOT NULL, length BIGINT NOT NULL, sealed BIGINT NOT NULL,
        PRIMARY KEY (stream, number)
    ) {_UPDATED}""",
    """CREATE TABLE eventide_blobs (
        stream BIGINT NOT NULL, segment BIGINT NOT NULL, start BIGINT NOT NULL, rows BIGINT NOT NULL,
        writer TEXT NOT NULL, body BYTEA NOT NULL, PRIMARY KEY (stream, segment, start)
    )""",
    f"""CREATE TABLE eventide_writers (
        stream BIGINT NOT NULL, writer TEXT NOT NULL, epoch BIGINT NOT NULL, open BIGINT NOT NULL,
        last_active BIGINT NOT NULL, sequence BIGINT NOT NULL, ends BYTEA NOT NULL, position BYTEA NOT NULL,
        note_time BIGINT, note_at BIGINT, note_closed BIGINT, note_position BYTEA, PRIMARY KEY (stream, writer)
    ) {_UPDATED}""",
    """CREATE TABLE eventide_transactions (
        id TEXT PRIMARY KEY, stream BIGINT NOT NULL, writer TEXT NOT NULL, status TEXT NOT NULL,
        deadline BIGINT NOT NULL, ends BYTEA NOT NULL
    )""",
    "CREATE INDEX eventide_transactions_of ON eventide_transactions (stream, deadline)",
    """CREATE TABLE eventide_additions (
        transaction_id TEXT NOT NULL, number BIGINT NOT NULL, rows BIGINT NOT NULL, body BYTEA NOT NULL,
        PRIMARY KEY (transaction_id, number)
    )""",
    """CREATE TABLE eventide_marks (
        stream BIGINT NOT NULL, number BIGINT NOT NULL, lower BIGINT NOT NULL, upper BIGINT NOT NULL,
        at BIGINT NOT NULL, cut BYTEA NOT NULL, PRIMARY KEY (stream, number)
    )""",
    "CREATE TABLE eventide_controllers (name TEXT PRIMARY KEY, until BIGINT NOT NULL, length BIGINT NOT NULL)",
    # By name, and kept when the stream is deleted: a fence is never reused. ``length`` is the length of the lease.
    """CREATE TABLE eventide_leases (
        stream TEXT PRIMARY KEY, owner TEXT NOT NULL, fence BIGINT NOT NULL, until BIGINT NOT NULL,
        length BIGINT NOT NULL
    )""",
    """CREATE TABLE eventide_groups (
        stream BIGINT NOT NULL, name TEXT NOT NULL, version BIGINT NOT NULL, state BYTEA NOT NULL,
        PRIMARY KEY (stream, name)
    )""",
]


def encode_position(position: Position) -> bytes:
    """Encode a position as pairs of segment and offset, little-endian int64, in the order of the segments.

    >>> decode_position(encode_position({3: 500, 1: 7}))
    {1: 7, 3: 500}
    """
    numbers = [number for item in sorted(position.items()) for number in item]
    return struct.pack(f"<{len(numbers)}q", *numbers)


def decode_position(body: bytes) -> dict[int, int]:
    """Decode the position of ``encode_position``."""
    numbers = struct.unpack(f"<{len(body) // 8}q", body)
    return dict(zip(numbers[::2], numbers[1::2], strict=True))


def decode_positions(
    bodies: Sequence[bytes],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Decode many positions into columns: the index of the body, the segment and the offset."""
    pairs = np.frombuffer(b"".join(bodies), dtype="<i8").astype(np.int64, copy=False).reshape(-1, 2)
    index = np.repeat(np.arange(len(bodies), dtype=np.int64), [len(body) // 16 for body in bodies])
    return index, pairs[:, 0], pairs[:, 1]


class DatabaseStep(Protocol):
    """The statements of one atomic step."""

    @property
    def now(self) -> int:
        """The time on the store's clock, not before the last ``query`` acquired its locks."""
        ...

    def query(self, *queries: tuple[str, Values]) -> list[Rows]:
        """Execute queries in one round trip. Return the rows of each."""
        ...

    def execute(self, statement: str, values: Values = ()) -> None:
        """Execute a statement. It may be sent only at the end of the step."""
        ...

    def execute_many(self, statement: str, rows: Sequence[Values]) -> None:
        """Execute a statement with many rows of values."""
        ...


class StoreConnection(DatabaseStep, Protocol):
    """A connection. Outside of ``transaction`` each query is a transaction."""

    @property
    def is_lost(self) -> bool:
        """Whether the server has closed the connection."""
        ...

    @property
    def is_in_doubt(self) -> bool:
        """Whether a commit was sent and not acknowledged."""
        ...

    def transaction(self) -> AbstractContextManager[object]:
        """Execute everything or nothing, durably."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


@dataclass
class IdleConnections:
    """The idle connections of one process. Connections do not survive a fork."""

    process: int = field(default_factory=os.getpid)
    idle: list[StoreConnection] = field(default_factory=list)
    write_lock: threading.Lock = field(default_factory=threading.Lock)


_parent_pools: list[IdleConnections] = []  # never freed: the parent process still uses the connections


class StoreDatabase:
    """A database with one connection per concurrent thread."""

    def __init__(
        self,
        url: str,
        connect: Callable[[], StoreConnection],
        errors: type[Exception],
        *,
        single_writer: bool = False,
    ) -> None:
        """With ``single_writer``, threads queue here, because the database admits one writer at a time."""
        self.url = url
        self._connect = connect
        self._errors = errors
        self._single_writer = single_writer
        self._pool = IdleConnections()

    def write(self, work: Callable[[DatabaseStep], T], *, idempotent: bool = False) -> T:
        """Execute a step. An idempotent one is repeated if the connection breaks during its commit."""

        def execute(connection: StoreConnection) -> T:
            lock = self._local_pool().write_lock if self._single_writer else nullcontext()
            with lock, connection.transaction():
                return work(connection)

        return self._use(execute, idempotent)

    def read(self, work: Callable[[DatabaseStep], T]) -> T:
        """Execute queries that change nothing. Each sees one snapshot."""
        return self._use(work, idempotent=True)

    def close(self) -> None:
        """Close the idle connections."""
        idle = self._local_pool().idle
        while idle:
            with suppress(IndexError):  # another thread took the last one
                idle.pop().close()

    def _use(self, work: Callable[[StoreConnection], T], idempotent: bool) -> T:
        try:
            connection = self._acquire()
            try:
                return work(connection)
            except self._errors:
                # The server may have been restarted since this connection was opened.
                if not connection.is_lost or (connection.is_in_doubt and not idempotent):
                    raise
            finally:
                self._release(connection)
            self.close()
            connection = self._acquire()
            try:
                return work(connection)
            finally:
                self._release(connection)
        except self._errors as cause:
            reason = str(cause).strip().partition("\n")[0].removesuffix(".") or type(cause).__name__
            raise StoreFailedError(
                f"The store {without_password(self.url)} failed: {without_password(reason)}. The current operation was "
                "executed completely or not at all. Check that the database is up, that its disk is not full, and its "
                "log."
            ) from cause

    def _acquire(self) -> StoreConnection:
        try:
            return self._local_pool().idle.pop()
        except IndexError:
            return self._connect()

    def _release(self, connection: StoreConnection) -> None:
        if connection.is_lost:
            connection.close()
        else:
            self._local_pool().idle.append(connection)

    def _local_pool(self) -> IdleConnections:
        if self._pool.process != os.getpid():
            _parent_pools.append(self._pool)
            self._pool = IdleConnections()
        return self._pool


def create_tables(database: StoreDatabase, *, exists: str, lock: str | None, statements: list[str]) -> None:
    """Create the tables unless they exist; reject those of another format.

    The query ``exists`` returns a row if they do; the query ``lock`` keeps others from creating them concurrently.
    """

    def has_tables(step: DatabaseStep) -> bool:
        (rows,) = step.query((exists, ()))
        if not rows:
            return False
        (formats,) = step.query(("SELECT version FROM eventide_format", ()))
        if formats != [(FORMATS["marks store"],)]:
            raise DataError(
                f"{database.url} was written by another version of Eventide (format "
                f"{formats[0][0] if formats else 'unknown'}; this version reads {FORMATS['marks store']}). Use that "
                "version, or another store."
            )
        return True

    def create(step: DatabaseStep) -> None:
        if lock is not None:
            step.query((lock, ()))
        if has_tables(step):
            return
        for statement in statements:
            step.execute(statement)
        step.execute("INSERT INTO eventide_format VALUES (?)", (FORMATS["marks store"],))

    if not database.read(has_tables):
        database.write(create, idempotent=True)
