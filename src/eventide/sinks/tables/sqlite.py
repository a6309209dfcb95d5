"""Tables in SQLite, 3.24 or newer, which comes with Python."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import polars as pl
import polars.selectors as cs

from eventide.errors import sinks as errors
from eventide.sinks.tables.database import Found
from eventide.sinks.tables.statements import ROW_IDS, listed, row_id
from eventide.sinks.tables.types import Dialect

_OLDEST = (3, 24, 0)  # ON CONFLICT
_SLICE = 50_000  # rows that are Python objects at one time
_PATIENCE = 30.0  # seconds, while another process writes


@dataclass(frozen=True)
class Sqlite:
    """A database in a file."""

    path: str
    dialect: Dialect = "sqlite"

    @property
    def url(self) -> str:
        """Its address."""
        return f"sqlite:///{self.path}"

    @property
    def errors(self) -> type[Exception]:
        """What SQLite raises."""
        return sqlite3.Error

    def check_names(self, table: str, columns: Sequence[str]) -> None:
        """SQLite keeps some names for itself."""
        if table.lower().startswith("sqlite_"):
            raise errors.bad_table_name(table, "not one that begins with sqlite_")
        if row_id(columns) is None:
            raise errors.rows_without_number(ROW_IDS)

    def connect(self) -> SqliteConnection:
        """A new connection."""
        if sqlite3.sqlite_version_info < _OLDEST:
            raise errors.old_sqlite(sqlite3.sqlite_version, ".".join(map(str, _OLDEST)))
        # Spark may call with each batch from another thread, but never from two at a time.
        return SqliteConnection(
            sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
        )


@dataclass(frozen=True)
class SqliteConnection:
    """A connection to SQLite."""

    raw: sqlite3.Connection

    @property
    def lost(self) -> bool:
        """A file does not hang up."""
        return False

    def transaction(self) -> AbstractContextManager[object]:
        """All or nothing."""
        return _transaction(self.raw)

    def run(self, statement: str) -> None:
        """A statement without values."""
        self.raw.execute(statement)

    def tell(self, statement: str, values: Sequence[Any]) -> int:
        """A statement with values."""
        return self.raw.execute(statement, values).rowcount

    def ask(self, question: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """A query with values."""
        return self.raw.execute(question, values).fetchall()

    def columns(self, table: str) -> list[Found]:
        """The columns of a table."""
        name = table[1:-1].replace('""', '"')
        question = "SELECT name, type, dflt_value IS NOT NULL OR hidden > 0 FROM pragma_table_xinfo(?)"
        return [Found(column, dtype, bool(default)) for column, dtype, default in self.ask(question, [name])]

    def load(self, table: str, rows: pl.DataFrame) -> None:
        """Insert the rows."""
        marks = ", ".join("?" * rows.width)
        statement = f"INSERT INTO {table} ({listed(rows.columns)}) VALUES ({marks})"
        for part in rows.iter_slices(_SLICE):
            self.raw.executemany(statement, values(part))

    def close(self) -> None:
        """Let go of the file."""
        self.raw.close()


def values(rows: pl.DataFrame) -> Iterator[tuple[Any, ...]]:
    """Rows as SQLite keeps them.

    >>> from datetime import date
    >>> list(values(pl.DataFrame({"on": [date(2026, 3, 1), None], "x": [float("nan"), 1.5]})))
    [('2026-03-01', 'NaN'), (None, 1.5)]
    """
    time = "%Y-%m-%dT%H:%M:%S%.6f"
    rows = rows.with_columns(
        cs.duration().dt.total_microseconds(),
        cs.decimal().cast(pl.String),
        cs.date().dt.to_string("%Y-%m-%d"),
        cs.time().dt.to_string("%H:%M:%S%.6f"),
        cs.datetime(time_zone=None).dt.to_string(time),
        cs.datetime(time_zone="*").dt.convert_time_zone("UTC").dt.to_string(f"{time}Z"),
    )
    return zip(*map(_objects, rows.get_columns()), strict=True)


def _objects(column: pl.Series) -> list[Any]:
    objects = column.to_list()
    if column.dtype.is_float() and column.is_nan().any():  # SQLite would make it null
        return ["NaN" if value != value else value for value in objects]
    return objects


@contextmanager
def _transaction(raw: sqlite3.Connection) -> Iterator[None]:
    raw.execute("BEGIN IMMEDIATE")  # no other process writes from here on
    try:
        yield
        raw.execute("COMMIT")
    except BaseException:
        if raw.in_transaction:
            raw.execute("ROLLBACK")
        raise
