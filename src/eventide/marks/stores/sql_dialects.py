"""The databases of SQL stores.

SQLite (3.35 or newer) is a file for any number of processes on one machine. PostgreSQL (12 or newer, with psycopg 3)
is shared by any number of machines and provides the clock.
"""

# ruff: noqa: D102 - ``StoreConnection`` documents the methods

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial

from eventide._databases import check_sqlite, connect_postgres, psycopg_driver, sqlite_path, without_password
from eventide.marks.stores.sql_database import TABLES, Rows, StoreDatabase, Values, create_tables
from eventide.marks.stores.sql_store import SqlStore
from eventide.marks.stores.store import wall_clock

_PURPOSE = "A store for marks in PostgreSQL"
_OLDEST = (3, 35, 0)  # RETURNING
_LOCK_TIMEOUT = 30.0  # seconds, while another process writes
_MMAP_BYTES = 1 << 28
_SQLITE_EXISTS = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'eventide_format'"
_POSTGRES_CLAUSES = (
    " FOR UPDATE",
    " FOR SHARE",
    " OF w",
    " OF l",
    " SKIP LOCKED",
)  # SQLite admits one writer at a time
_SQLITE_TYPES = {
    "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "BYTEA": "BLOB",
    " WITH (fillfactor = 50)": "",
}


def sqlite_store(url: str, *, clock: Callable[[], int] = wall_clock) -> SqlStore:
    """Open the store in ``sqlite:///relative.db`` or ``sqlite:////absolute.db``; create it if it does not exist.

    >>> import pyarrow as pa, tempfile
    >>> from eventide.marks.stores.store import Config, Part
    >>> directory = tempfile.TemporaryDirectory()
    >>> store = sqlite_store(f"sqlite:///{directory.name}/shop.db")
    >>> info = store.create_stream("orders", Config(schema=pa.schema({"shop": pa.string()})))
    >>> handle = store.open_writer("orders", "till")
    >>> store.append(handle, 1, [Part(0, 3, b"three events")])
    {0: 3}
    >>> store.close()
    >>> directory.cleanup()
    """
    check_sqlite(_OLDEST, "A store of marks")
    path = sqlite_path(url)
    connect = partial(SqliteStoreConnection, path, clock)
    database = StoreDatabase(f"sqlite:///{path}", connect, sqlite3.Error, single_writer=True)
    create_sqlite_tables(database)
    return SqlStore(database)


def create_sqlite_tables(database: StoreDatabase) -> None:
    """Create the tables in a file, or in memory, unless they exist."""
    create_tables(database, exists=_SQLITE_EXISTS, lock=None, statements=list(map(_sqlite_table, TABLES)))


class SqliteStoreConnection:
    """A connection to a file. Threads may share it, one at a time."""

    is_lost = False
    is_in_doubt = False

    def __init__(self, path: str, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._raw = sqlite3.connect(path, timeout=_LOCK_TIMEOUT, isolation_level=None, check_same_thread=False)
        self._raw.execute("PRAGMA synchronous = FULL")  # commits are durable
        self._raw.execute(f"PRAGMA mmap_size = {_MMAP_BYTES}")
        if self._raw.execute("PRAGMA journal_mode").fetchone() != ("wal",):
            _enable_wal(self._raw)

    @property
    def now(self) -> int:
        """The clock of this process."""
        return self._clock()

    def query(self, *queries: tuple[str, Values]) -> list[Rows]:
        """Execute queries one by one."""
        return [self._raw.execute(_sqlite_query(query), values).fetchall() for query, values in queries]

    def execute(self, statement: str, values: Values = ()) -> None:
        self._raw.execute(statement, values)

    def execute_many(self, statement: str, rows: Sequence[Values]) -> None:
        self._raw.executemany(statement, rows)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Lock the file first, so that nothing changes between a query and a statement."""
        self._raw.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._raw.execute("COMMIT")
        except BaseException:
            if self._raw.in_transaction:  # a full disk has already rolled back
                self._raw.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Close the file."""
        self._raw.close()


def _enable_wal(raw: sqlite3.Connection) -> None:
    """Switch to WAL, so that readers do not wait for writers. Concurrent attempts fail, so retry."""
    end = time.monotonic() + _LOCK_TIMEOUT
    while True:
        try:
            raw.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


@lru_cache
def _sqlite_query(query: str) -> str:
    for clause in _POSTGRES_CLAUSES:
        query = query.replace(clause, "")
    return query


def _sqlite_table(statement: str) -> str:
    for name, replacement in _SQLITE_TYPES.items():
        statement = statement.replace(name, replacement)
    return statement


_CLOCK = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_POSTGRES_EXISTS = "SELECT 1 WHERE to_regclass('eventide_format') IS NOT NULL"
_POSTGRES_LOCK = "SELECT 1 FROM (SELECT pg_advisory_xact_lock(hashtext('eventide tables'))) AS locked"
# Commits are durable, independent of the server's default. A client that hangs does not hold its locks.
_SESSION_SETTINGS = """
    SELECT set_config('idle_in_transaction_session_timeout', '60s', false), CASE
        WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', false) END
"""
# Bodies are already compressed.
_UNCOMPRESSED = [
    f"ALTER TABLE eventide_{table} ALTER COLUMN body SET STORAGE EXTERNAL" for table in ("blobs", "additions")
]

_VALUES = re.compile(r"VALUES (\([^)]*\))")
_INSERT_ROWS = 1_000


def postgres_store(url: str, *, clock: Callable[[], int] | None = None) -> SqlStore:
    """Open the store in ``postgresql://user@host/database``; create its tables if they do not exist."""
    database = StoreDatabase(
        without_password(url), partial(PostgresStoreConnection, url, clock), psycopg_driver(_PURPOSE).Error
    )
    create_tables(database, exists=_POSTGRES_EXISTS, lock=_POSTGRES_LOCK, statements=[*TABLES, *_UNCOMPRESSED])
    return SqlStore(database)


class PostgresStoreConnection:
    """A connection to PostgreSQL. A step is one pipeline, which waits for queries only."""

    def __init__(self, url: str, clock: Callable[[], int] | None) -> None:
        self._raw = connect_postgres(psycopg_driver(_PURPOSE), url)
        self._raw.execute(_SESSION_SETTINGS)
        self._clock = clock
        self._now: int | None = None
        self._in_step = False
        self.is_in_doubt = False

    @property
    def is_lost(self) -> bool:
        return bool(self._raw.closed)

    @property
    def now(self) -> int:
        """The clock of the server."""
        if self._clock is not None:
            return self._clock()
        if self._now is None:
            ((now,),) = self._raw.execute(_CLOCK).fetchall()
            return int(now)
        return self._now

    def query(self, *queries: tuple[str, Values]) -> list[Rows]:
        """Execute queries; within a step also read the clock after them. Binary results halve the size of bodies."""
        cursors = [self._raw.execute(_postgres_statement(query), values, binary=True) for query, values in queries]
        clock = self._raw.execute(_CLOCK) if self._in_step and self._clock is None else None
        results = [cursor.fetchall() for cursor in cursors]
        if clock is not None:
            ((self._now,),) = clock.fetchall()
        return results

    def execute(self, statement: str, values: Values = ()) -> None:
        self._raw.execute(_postgres_statement(statement), values)

    def execute_many(self, statement: str, rows: Sequence[Values]) -> None:
        for start in range(0, len(rows), _INSERT_ROWS):
            chunk = rows[start : start + _INSERT_ROWS]
            if _VALUES.search(statement):
                self._raw.execute(_multi_row_insert(statement, len(chunk)), [value for row in chunk for value in row])
            else:
                self._raw.cursor().executemany(_postgres_statement(statement), chunk)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Each statement sees what others have committed before it; row locks protect what was read."""
        self.is_in_doubt, self._in_step = False, True
        try:
            with self._raw.pipeline():
                self._raw.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
                yield
                self.is_in_doubt = True
                self._raw.execute("COMMIT")
            self.is_in_doubt = False
        except BaseException:
            if not self.is_lost:
                self._raw.rollback()
            raise
        finally:
            self._in_step, self._now = False, None

    def close(self) -> None:
        self._raw.close()


@lru_cache
def _postgres_statement(statement: str) -> str:
    return statement.replace("?", "%s")


@lru_cache
def _multi_row_insert(statement: str, rows: int) -> str:
    """An INSERT with one VALUES list per row."""
    return _postgres_statement(_VALUES.sub(lambda match: "VALUES " + ", ".join([match[1]] * rows), statement))
