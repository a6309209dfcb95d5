"""Marks in SQLite: embedded, in a file, for any number of processes on one machine. 3.35 or newer."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial

from eventide.errors import PlanError
from eventide.errors import marks as errors
from eventide.marks.stores.sql.database import Database, Rows, Values
from eventide.marks.stores.sql.store import SqlStore
from eventide.marks.stores.sql.tables import TABLES, prepare
from eventide.sinks.tables.url import sqlite_path

_OLDEST = (3, 35, 0)  # RETURNING
_PATIENCE = 30.0  # seconds, while another process writes
_MAPPED = 1 << 28  # bytes of the file that are read in place
_THERE = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'eventide_format'"
_NOT_HERE = (" FOR UPDATE", " FOR SHARE", " OF w", " OF l", " SKIP LOCKED")  # only one writes at a time
_OTHER_NAMES = {
    "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "BYTEA": "BLOB",
    " WITH (fillfactor = 50)": "",
}


def wall_clock() -> int:
    """Microseconds since the epoch."""
    return time.time_ns() // 1000


def sqlite_store(url: str, *, clock: Callable[[], int] = wall_clock) -> SqlStore:
    """The store in ``sqlite:///relative.db`` or ``sqlite:////absolute.db``; made if it is not there.

    >>> import pyarrow as pa, tempfile
    >>> from eventide.marks.stores.store import Config, Part
    >>> place = tempfile.TemporaryDirectory()
    >>> store = sqlite_store(f"sqlite:///{place.name}/shop.db")
    >>> info = store.create_stream("orders", Config(schema=pa.schema({"shop": pa.string()})))
    >>> seat = store.open_writer("orders", "till")
    >>> store.append(seat, 1, [Part(0, 3, b"three events")])
    {0: 3}
    >>> store.close()
    >>> place.cleanup()
    """
    if sqlite3.sqlite_version_info < _OLDEST:
        raise errors.old_sqlite(sqlite3.sqlite_version, ".".join(map(str, _OLDEST)))
    try:
        path = sqlite_path(url)
    except PlanError as cause:
        raise errors.no_file(url) from cause
    database = Database(f"sqlite:///{path}", partial(SqliteConnection, path, clock), sqlite3.Error, one_writes=True)
    prepare(database, there=_THERE, alone=None, tables=[_table(one) for one in TABLES])
    return SqlStore(database)


class SqliteConnection:
    """A connection to a file. It may go from thread to thread, but never serves two at a time."""

    lost = False
    unsure = False

    def __init__(self, path: str, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._raw = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
        self._raw.execute("PRAGMA synchronous = FULL")  # what was committed is on the disk
        self._raw.execute(f"PRAGMA mmap_size = {_MAPPED}")  # blobs are read in a third of the time
        if self._raw.execute("PRAGMA journal_mode").fetchone() != ("wal",):
            _into_wal(self._raw)

    @property
    def now(self) -> int:
        """The wall clock, unless another one was given."""
        return self._clock()

    def ask(self, *questions: tuple[str, Values]) -> list[Rows]:
        """The answers."""
        return [self._raw.execute(_plain(question), values).fetchall() for question, values in questions]

    def tell(self, order: str, values: Values = ()) -> None:
        """A statement."""
        self._raw.execute(order, values)

    def tell_each(self, order: str, rows: Sequence[Values]) -> None:
        """The same statement with many values."""
        self._raw.executemany(order, rows)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """No other process writes from the beginning on, so that nothing that was read can change."""
        self._raw.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._raw.execute("COMMIT")
        except BaseException:
            if self._raw.in_transaction:  # a full disk has rolled it back already
                self._raw.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Let go of the file."""
        self._raw.close()


def _into_wal(raw: sqlite3.Connection) -> None:
    """Readers do not wait for writers. SQLite itself does not wait for others that do the same at the same time."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            raw.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


@lru_cache
def _plain(question: str) -> str:
    for words in _NOT_HERE:
        question = question.replace(words, "")
    return question


def _table(statement: str) -> str:
    for name, other in _OTHER_NAMES.items():
        statement = statement.replace(name, other)
    return statement
