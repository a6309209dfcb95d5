"""Tables in PostgreSQL, 9.5 or newer, through psycopg 3."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import polars as pl
import polars.selectors as cs

from eventide.errors import sinks as errors
from eventide.errors.addresses import without_password
from eventide.sinks.tables.database import Found
from eventide.sinks.tables.statements import index_name, listed, parts
from eventide.sinks.tables.types import Dialect

if TYPE_CHECKING:
    import psycopg

_LONGEST = 63  # bytes of a name; PostgreSQL cuts off what is longer
_SYSTEM = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})  # columns that every table has
_SLICE = 50_000  # rows that are text at one time
_NULL = r"\N"  # never quoted, and every text is: so no text is taken for a null

# A dead peer is noticed in half a minute. What the URL says comes first.
_PATIENCE = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}

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
        """Its address, without a password."""
        return without_password(self.conninfo)

    @property
    def errors(self) -> type[Exception]:
        """What psycopg raises."""
        driver_errors: type[Exception] = _driver().Error
        return driver_errors

    def check_names(self, table: str, columns: Sequence[str]) -> None:
        """A name that is cut off is another name."""
        for name in (*parts(table, "postgres"), index_name(table, "postgres"), *columns):
            if len(name.encode()) > _LONGEST:
                raise errors.name_too_long(name, _LONGEST)
        for name in columns:
            if name in _SYSTEM:
                raise errors.system_column(name)

    def connect(self) -> PostgresConnection:
        """A new connection."""
        return PostgresConnection(connected(_driver(), self.conninfo))


def connected(driver: ModuleType, conninfo: str) -> psycopg.Connection[tuple[Any, ...]]:
    """A connection that takes each statement by itself, unless it is told otherwise."""
    given = driver.conninfo.conninfo_to_dict(conninfo)
    options = {name: value for name, value in _PATIENCE.items() if name not in given}
    options |= {"client_encoding": "utf8", "application_name": str(given.get("application_name", "eventide"))}
    # Statements are not prepared: a pooler may give each transaction another server.
    found: psycopg.Connection[tuple[Any, ...]] = driver.connect(
        conninfo, autocommit=True, prepare_threshold=None, **cast("Any", options)
    )
    return found


@dataclass(frozen=True)
class PostgresConnection:
    """A connection to PostgreSQL."""

    raw: psycopg.Connection[tuple[Any, ...]]

    @property
    def lost(self) -> bool:
        """Whether the server has hung up."""
        return bool(self.raw.closed)

    def transaction(self) -> AbstractContextManager[object]:
        """All or nothing."""
        return self.raw.transaction()

    def run(self, statement: str) -> None:
        """A statement without values."""
        self.raw.execute(statement)

    def tell(self, statement: str, values: Sequence[Any]) -> int:
        """A statement with values."""
        return self.raw.execute(statement.replace("?", "%s"), values).rowcount

    def ask(self, question: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """A query with values."""
        return self.raw.execute(question.replace("?", "%s"), values).fetchall()

    def columns(self, table: str) -> list[Found]:
        """The columns of a table."""
        return [Found(*row) for row in self.ask(_COLUMNS, [table])]

    def load(self, table: str, rows: pl.DataFrame) -> None:
        """COPY the rows as text."""
        statement = f"COPY {table} ({listed(rows.columns)}) FROM STDIN (FORMAT csv, NULL '{_NULL}')"
        with self.raw.cursor() as cursor, cursor.copy(statement) as copy:
            for part in rows.iter_slices(_SLICE):
                copy.write(csv(part))

    def close(self) -> None:
        """Hang up."""
        self.raw.close()


def csv(rows: pl.DataFrame) -> bytes:
    r"""Rows as PostgreSQL reads them.

    >>> csv(pl.DataFrame({"text": ["", None], "raw": [b"\x00\xff", b""], "x": [float("nan"), 1.5]}))
    b'"","\\x00ff",NaN\n\\N,"\\x",1.5\n'
    """
    time = "%Y-%m-%dT%H:%M:%S%.6f"
    rows = rows.with_columns(
        *((pl.lit(r"\x") + rows[name].bin.encode("hex")).alias(name) for name in rows.select(cs.binary()).columns),
        cs.duration().dt.total_microseconds(),
        # Years of five digits begin with a sign, which PostgreSQL does not read.
        cs.date().dt.to_string("%Y-%m-%d").str.strip_prefix("+"),
        cs.datetime(time_zone=None).dt.to_string(time).str.strip_prefix("+"),
        cs.datetime(time_zone="*").dt.convert_time_zone("UTC").dt.to_string(f"{time}Z").str.strip_prefix("+"),
    )
    return rows.write_csv(include_header=False, quote_style="non_numeric", null_value=_NULL).encode()


def _driver() -> ModuleType:
    try:
        import psycopg.conninfo
    except ImportError as cause:
        raise errors.driver_missing() from cause
    return psycopg
