"""Marks in PostgreSQL, 12 or newer, through psycopg 3: shared by any number of machines, on the server's clock."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from types import ModuleType

from eventide.errors import marks as errors
from eventide.errors.addresses import without_password
from eventide.marks.stores.sql.database import Database, Rows, Values
from eventide.marks.stores.sql.store import SqlStore
from eventide.marks.stores.sql.tables import TABLES, prepare
from eventide.sinks.tables.postgres import connected

_CLOCK = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_THERE = "SELECT 1 WHERE to_regclass('eventide_format') IS NOT NULL"
_ALONE = "SELECT 1 FROM (SELECT pg_advisory_xact_lock(hashtext('eventide tables'))) AS locked"
# Durable when it returns, whatever the server does for others; and a client that is stuck does not hold its locks.
_SETTINGS = """
    SELECT set_config('idle_in_transaction_session_timeout', '60s', false), CASE
        WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', false) END
"""
# Bodies are compressed already.
_AS_THEY_ARE = [
    f"ALTER TABLE eventide_{table} ALTER COLUMN body SET STORAGE EXTERNAL" for table in ("blobs", "additions")
]

_VALUES = re.compile(r"VALUES (\([^)]*\))")
_AT_ONCE = 1_000  # rows of an INSERT


def postgres_store(url: str, *, clock: Callable[[], int] | None = None) -> SqlStore:
    """The store in ``postgresql://user@host/database``; its tables are made if they are not there."""
    connection = partial(PostgresConnection, url, clock)
    database = Database(without_password(url), connection, _driver().Error)
    prepare(database, there=_THERE, alone=_ALONE, tables=[*TABLES, *_AS_THEY_ARE])
    return SqlStore(database)


class PostgresConnection:
    """A connection to PostgreSQL. A step is one pipeline: what need not be answered is not waited for."""

    def __init__(self, url: str, clock: Callable[[], int] | None) -> None:
        self._raw = connected(_driver(), url)
        self._raw.execute(_SETTINGS)
        self._clock = clock
        self._now: int | None = None
        self._in_step = False
        self.unsure = False

    @property
    def lost(self) -> bool:
        """Whether the server has hung up."""
        return bool(self._raw.closed)

    @property
    def now(self) -> int:
        """The server's clock, unless another one was given."""
        if self._clock is not None:
            return self._clock()
        if self._now is None:
            ((now,),) = self._raw.execute(_CLOCK).fetchall()
            return int(now)
        return self._now

    def ask(self, *questions: tuple[str, Values]) -> list[Rows]:
        """The answers; within a step also the time after them. Binary, because bytes as text are twice as many."""
        asked = [self._raw.execute(_percent(question), values, binary=True) for question, values in questions]
        time = self._raw.execute(_CLOCK) if self._in_step and self._clock is None else None
        answers = [one.fetchall() for one in asked]
        if time is not None:
            ((self._now,),) = time.fetchall()
        return answers

    def tell(self, order: str, values: Values = ()) -> None:
        """A statement."""
        self._raw.execute(_percent(order), values)

    def tell_each(self, order: str, rows: Sequence[Values]) -> None:
        """The same statement with many values."""
        for start in range(0, len(rows), _AT_ONCE):
            some = rows[start : start + _AT_ONCE]
            if _VALUES.search(order):
                self._raw.execute(_of_many(order, len(some)), [value for row in some for value in row])
            else:
                self._raw.cursor().executemany(_percent(order), some)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """All or nothing. Each statement sees what others have done before it; rows are held by locks."""
        self.unsure, self._in_step = False, True
        try:
            with self._raw.pipeline():
                self._raw.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
                yield
                self.unsure = True
                self._raw.execute("COMMIT")
            self.unsure = False
        except BaseException:
            if not self.lost:
                self._raw.rollback()
            raise
        finally:
            self._in_step, self._now = False, None

    def close(self) -> None:
        """Hang up."""
        self._raw.close()


@lru_cache
def _percent(statement: str) -> str:
    return statement.replace("?", "%s")


@lru_cache
def _of_many(order: str, rows: int) -> str:
    """An INSERT of so many rows."""
    return _percent(_VALUES.sub(lambda one: "VALUES " + ", ".join([one[1]] * rows), order))


def _driver() -> ModuleType:
    try:
        import psycopg.conninfo
    except ImportError as cause:
        raise errors.no_postgres_driver() from cause
    return psycopg
