"""A store in the memory of one process, for tests and experiments."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from functools import partial

from eventide.marks.stores.sql_database import IdleConnections, StoreConnection, StoreDatabase, T
from eventide.marks.stores.sql_dialects import SqliteStoreConnection, create_sqlite_tables
from eventide.marks.stores.sql_store import SqlStore
from eventide.marks.stores.store import wall_clock


class MemoryStore(SqlStore):
    """A ``Store`` in memory. ``clock`` returns microseconds.

    >>> import pyarrow as pa
    >>> from eventide.marks.stores.store import Config, Part
    >>> store = MemoryStore(clock=lambda: 1_000_000)
    >>> info = store.create_stream("orders", Config(schema=pa.schema({"shop": pa.string()})))
    >>> handle = store.open_writer("orders", "till")
    >>> store.append(handle, 1, [Part(0, 3, b"three events")], note=500_000)
    {0: 3}
    >>> [(note.writer, note.time, note.position) for note in store.notes("orders")]
    [('till', 500000, {0: 3})]
    """

    def __init__(self, clock: Callable[[], int] = wall_clock) -> None:
        database = _MemoryDatabase("memory:", partial(SqliteStoreConnection, ":memory:", clock), sqlite3.Error)
        create_sqlite_tables(database)
        super().__init__(database)


class _MemoryDatabase(StoreDatabase):
    """A database that exists as long as its only connection. Threads use it one at a time."""

    def __init__(self, url: str, connect: Callable[[], StoreConnection], errors: type[Exception]) -> None:
        super().__init__(url, connect, errors)
        self._lock = threading.Lock()

    def close(self) -> None:
        """Keep the connection: the store may be used again."""

    def _use(self, work: Callable[[StoreConnection], T], idempotent: bool) -> T:
        with self._lock:
            return super()._use(work, idempotent)

    def _local_pool(self) -> IdleConnections:
        """Keep the connection in a forked process, too: it has a copy of the database, as of all memory."""
        return self._pool
