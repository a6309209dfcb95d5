"""The databases of ``table``: PostgreSQL 9.5 or newer through psycopg 3, and SQLite 3.24 or newer."""

# ruff: noqa: D102 - ``Connection`` and ``Database`` document the methods

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import polars as pl
import polars.selectors as cs

from eventide._databases import check_sqlite, connect_postgres, psycopg_driver, without_password
from eventide.errors import PlanError
from eventide.sinks.errors import bad_table_name
from eventide.sinks.table_sql import ROW_IDS, Dialect, column_list, index_name, name_parts, row_id

if TYPE_CHECKING:
    import psycopg


class TableColumn(NamedTuple):
    """A column of an existing table."""

    name: str
    type: str
    has_default: bool


class Connection(Protocol):
    """A connection. Statements outside a transaction take effect at once."""

    @property
    def lost(self) -> bool:
        """Whether the server has closed the connection, so that a new one may help."""
        ...

    def transaction(self) -> AbstractContextManager[object]:
        """Return a context that commits all statements, or none."""
        ...

    def run(self, statement: str) -> None:
        """Run a statement without values."""
        ...

    def execute(self, statement: str, values: Sequence[Any]) -> int:
        """Run a statement with a ``?`` for each value, and return the number of changed rows."""
        ...

    def query(self, query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Run a query with a ``?`` for each value, and return its rows."""
        ...

    def columns(self, table: str) -> list[TableColumn]:
        """Return the columns of a table (quoted); none if it does not exist."""
        ...

    def load(self, table: str, rows: pl.DataFrame) -> None:
        """Append rows to a table (quoted), as fast as the database allows."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class Database(Protocol):
    """A database and how to connect to it."""

    @property
    def dialect(self) -> Dialect:
        """The dialect of its SQL."""
        ...

    @property
    def url(self) -> str:
        """Its address, without a password."""
        ...

    @property
    def errors(self) -> type[Exception]:
        """The base class of its driver's exceptions."""
        ...

    def check_names(self, table: str, columns: Sequence[str]) -> None:
        """Reject names that the database does not allow."""
        ...

    def connect(self) -> Connection:
        """Return a new connection."""
        ...


_MAX_NAME = 63  # bytes; PostgreSQL truncates longer names
_SYSTEM = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})  # columns that every table has
_SLICE = 50_000  # rows that are converted together
_NULL = r"\N"  # not quoted; every text is quoted, so no text is taken for a null

_PURPOSE = "sinks.table() with PostgreSQL"
_COLUMNS = """
    SELECT attname, format_type(atttypid, atttypmod), atthasdef OR attidentity <> ''
    FROM pg_attribute WHERE attrelid = to_regclass(?) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""


@dataclass(frozen=True)
class Postgres:
    """A PostgreSQL database."""

    conninfo: str = field(repr=False)
    dialect: Dialect = "postgres"

    @property
    def url(self) -> str:
        return without_password(self.conninfo)

    @property
    def errors(self) -> type[Exception]:
        """The base class of psycopg's exceptions."""
        driver_errors: type[Exception] = psycopg_driver(_PURPOSE).Error
        return driver_errors

    def check_names(self, table: str, columns: Sequence[str]) -> None:
        """Reject names that PostgreSQL would truncate, and names of system columns."""
        for name in (*name_parts(table, "postgres"), index_name(table, "postgres"), *columns):
            if len(name.encode()) > _MAX_NAME:
                raise PlanError(
                    f"sinks.table(): {name!r} is longer than {_MAX_NAME} bytes, which PostgreSQL would truncate. "
                    "Shorten it."
                )
        for name in columns:
            if name in _SYSTEM:
                raise PlanError(f"sinks.table(): {name!r} is a system column of PostgreSQL. Rename this column.")

    def connect(self) -> PostgresConnection:
        return PostgresConnection(connect_postgres(psycopg_driver(_PURPOSE), self.conninfo))


@dataclass(frozen=True)
class PostgresConnection:
    """A connection to PostgreSQL."""

    raw: psycopg.Connection[tuple[Any, ...]]

    @property
    def lost(self) -> bool:
        return bool(self.raw.closed)

    def transaction(self) -> AbstractContextManager[object]:
        return self.raw.transaction()

    def run(self, statement: str) -> None:
        self.raw.execute(statement)

    def execute(self, statement: str, values: Sequence[Any]) -> int:
        return self.raw.execute(statement.replace("?", "%s"), values).rowcount

    def query(self, query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        return self.raw.execute(query.replace("?", "%s"), values).fetchall()

    def columns(self, table: str) -> list[TableColumn]:
        return [TableColumn(*row) for row in self.query(_COLUMNS, [table])]

    def load(self, table: str, rows: pl.DataFrame) -> None:
        """Append rows with COPY."""
        statement = f"COPY {table} ({column_list(rows.columns)}) FROM STDIN (FORMAT csv, NULL '{_NULL}')"
        with self.raw.cursor() as cursor, cursor.copy(statement) as copy:
            for part in rows.iter_slices(_SLICE):
                copy.write(to_csv(part))

    def close(self) -> None:
        self.raw.close()


def to_csv(rows: pl.DataFrame) -> bytes:
    r"""Return rows as CSV for PostgreSQL.

    >>> to_csv(pl.DataFrame({"text": ["", None], "raw": [b"\x00\xff", b""], "x": [float("nan"), 1.5]}))
    b'"","\\x00ff",NaN\n\\N,"\\x",1.5\n'
    """
    time = "%Y-%m-%dT%H:%M:%S%.6f"
    rows = rows.with_columns(
        *((pl.lit(r"\x") + rows[name].bin.encode("hex")).alias(name) for name in rows.select(cs.binary()).columns),
        cs.duration().dt.total_microseconds(),
        # Years of five digits begin with a sign, which PostgreSQL rejects.
        cs.date().dt.to_string("%Y-%m-%d").str.strip_prefix("+"),
        cs.datetime(time_zone=None).dt.to_string(time).str.strip_prefix("+"),
        cs.datetime(time_zone="*").dt.convert_time_zone("UTC").dt.to_string(f"{time}Z").str.strip_prefix("+"),
    )
    return rows.write_csv(include_header=False, quote_style="non_numeric", null_value=_NULL).encode()


_OLDEST = (3, 24, 0)  # ON CONFLICT
_SQLITE_TIMEOUT = 30.0  # seconds, while another process writes


@dataclass(frozen=True)
class Sqlite:
    """A database in a file."""

    path: str
    dialect: Dialect = "sqlite"

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}"

    @property
    def errors(self) -> type[Exception]:
        """The base class of SQLite's exceptions."""
        return sqlite3.Error

    def check_names(self, table: str, columns: Sequence[str]) -> None:
        """Reject names that SQLite reserves."""
        if table.lower().startswith("sqlite_"):
            raise bad_table_name(table, "not one that begins with sqlite_")
        if row_id(columns) is None:
            raise PlanError(
                f"sinks.table(): SQLite needs one of the names {', '.join(ROW_IDS)}. Rename one of these columns."
            )

    def connect(self) -> SqliteConnection:
        check_sqlite(_OLDEST, "sinks.table()")
        # Spark may write each batch in another thread, but never two at the same time.
        return SqliteConnection(
            sqlite3.connect(self.path, timeout=_SQLITE_TIMEOUT, isolation_level=None, check_same_thread=False)
        )


@dataclass(frozen=True)
class SqliteConnection:
    """A connection to SQLite."""

    raw: sqlite3.Connection

    @property
    def lost(self) -> bool:
        """False: a file is never disconnected."""
        return False

    def transaction(self) -> AbstractContextManager[object]:
        return _transaction(self.raw)

    def run(self, statement: str) -> None:
        self.raw.execute(statement)

    def execute(self, statement: str, values: Sequence[Any]) -> int:
        return self.raw.execute(statement, values).rowcount

    def query(self, query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        return self.raw.execute(query, values).fetchall()

    def columns(self, table: str) -> list[TableColumn]:
        name = table[1:-1].replace('""', '"')
        query = "SELECT name, type, dflt_value IS NOT NULL OR hidden > 0 FROM pragma_table_xinfo(?)"
        return [TableColumn(column, dtype, bool(default)) for column, dtype, default in self.query(query, [name])]

    def load(self, table: str, rows: pl.DataFrame) -> None:
        """Append rows with INSERT."""
        parameters = ", ".join("?" * rows.width)
        statement = f"INSERT INTO {table} ({column_list(rows.columns)}) VALUES ({parameters})"
        for part in rows.iter_slices(_SLICE):
            self.raw.executemany(statement, to_values(part))

    def close(self) -> None:
        """Close the file."""
        self.raw.close()


def to_values(rows: pl.DataFrame) -> Iterator[tuple[Any, ...]]:
    """Return rows as SQLite stores them.

    >>> from datetime import date
    >>> list(to_values(pl.DataFrame({"on": [date(2026, 3, 1), None], "x": [float("nan"), 1.5]})))
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
    if column.dtype.is_float() and column.is_nan().any():  # SQLite would store null
        return ["NaN" if value != value else value for value in objects]
    return objects


@contextmanager
def _transaction(raw: sqlite3.Connection) -> Iterator[None]:
    raw.execute("BEGIN IMMEDIATE")  # excludes other writers
    try:
        yield
        raw.execute("COMMIT")
    except BaseException:
        if raw.in_transaction:
            raw.execute("ROLLBACK")
        raise
