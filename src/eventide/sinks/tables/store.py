"""The table of one output: made, checked, and changed batch by batch, each in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import polars as pl

from eventide.errors import sinks as errors
from eventide.sinks.tables.changes import COPIES, changes
from eventide.sinks.tables.database import Connection, Database
from eventide.sinks.tables.shape import Shape
from eventide.sinks.tables.statements import (
    BATCHES,
    CLAIM_BATCH,
    CREATE_BATCHES,
    GONE,
    LAST_BATCH,
    RESERVED,
    STANDING,
    Statements,
    quoted,
)

T = TypeVar("T")


class Store:
    """A table, and the number of the last batch that each query has put into it.

    Both change in one transaction. So a batch is in the table once, whatever fails and however often it is repeated.
    """

    def __init__(self, database: Database, table: str, shape: Shape) -> None:
        self._database = database
        self._table = table
        self._shape = shape
        self._sql = Statements(table, shape, database.dialect)
        self._connection: Connection | None = None

    def prepare(self, *, create: bool, extend: bool = False) -> None:
        """Create the table if that is allowed, and reject one that does not fit.

        With ``extend``, columns that the rows have and the table lacks are added to it.
        """
        self._check_names()
        try:
            connection = self._database.connect()
        except self._database.errors as cause:
            raise errors.no_connection(self._database.url, cause) from cause
        try:
            with connection.transaction():
                self._make(connection, create)
                if create and extend:
                    self._add_columns(connection)
                self._check_columns(connection)
                if self._shape.identity and not self._shape.many:
                    self._check_identity(connection)
        except self._database.errors as cause:
            raise errors.not_prepared(self._table, self._database.url, cause) from cause
        finally:
            connection.close()  # the first batch makes its own, perhaps in another process

    def has(self, query: str, batch_id: int) -> bool:
        """Whether a batch is in the table already."""

        def found(connection: Connection) -> bool:
            last = connection.ask(LAST_BATCH, [query, self._table])
            return bool(last) and int(last[0][0]) >= batch_id

        return self._on_connection(found, batch_id)

    def put(self, rows: pl.DataFrame, query: str, batch_id: int) -> None:
        """Put a batch into the table, unless it is there."""

        def put(connection: Connection) -> None:
            with connection.transaction():
                if connection.tell(CLAIM_BATCH, [query, self._table, batch_id]):
                    self._change(connection, rows)

        if rows.height:
            self._on_connection(put, batch_id)

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _change(self, connection: Connection, rows: pl.DataFrame) -> None:
        sql, shape = self._sql, self._shape
        if not shape.identity:
            connection.load(sql.target, rows.select(shape.columns))
            return
        standing, gone = changes(rows, shape)
        self._through(connection, GONE, gone, sql.delete_copies if shape.many == "each" else sql.delete)
        if shape.many:
            connection.load(sql.target, standing.select(shape.columns))
        else:
            self._through(connection, STANDING, standing.select(shape.columns), sql.upsert)

    def _through(self, connection: Connection, name: str, rows: pl.DataFrame, statement: str) -> None:
        """Put rows into a temporary table, and let a statement make use of them."""
        if rows.height:
            connection.run(self._sql.stage(name, rows.columns))
            connection.load(name, rows)
            connection.run(statement)
            connection.run(f"DROP TABLE {name}")

    def _on_connection(self, work: Callable[[Connection], T], batch_id: int) -> T:
        """Do something on the connection, and once more on a new one if it turns out to be lost.

        Doing it again is safe even if only the answer to the commit was lost: the batch then is in the table.
        """
        for attempt in (1, 2):
            try:
                if self._connection is None:
                    self._connection = self._database.connect()
                return work(self._connection)
            except self._database.errors as cause:
                lost = self._connection is not None and self._connection.lost
                self.close()
                if attempt == 2 or not lost:
                    raise errors.not_written(self._table, self._database.url, batch_id, cause) from cause
        raise AssertionError("the second attempt returns or raises")

    def _make(self, connection: Connection, create: bool) -> None:
        table, *index = self._sql.create
        wanting = {
            BATCHES: [] if connection.columns(quoted(BATCHES)) else [CREATE_BATCHES],
            self._table: [] if connection.columns(self._sql.target) else [table, *index],
        }
        for name, statements in wanting.items():
            if statements and not create:
                raise errors.no_table(name, self._database.url, statements)
            for statement in statements:
                connection.run(statement)

    def _check_names(self) -> None:
        """Reject names that the sink or the database needs for itself."""
        if self._table.lower() in RESERVED:
            raise errors.bad_table_name(self._table, f"not one of the sink: {', '.join(sorted(RESERVED))}")
        if any(not name or "\0" in name or name.lower() == COPIES for name in self._shape.columns):
            raise errors.bad_column_name(COPIES)
        self._database.check_names(self._table, self._shape.columns)

    def _add_columns(self, connection: Connection) -> None:
        present = {column.name.lower() for column in connection.columns(self._sql.target)}
        for name, dtype in self._sql.types.items():
            if name.lower() not in present:
                connection.run(f"ALTER TABLE {self._sql.target} ADD COLUMN {quoted(name)} {dtype}")

    def _check_columns(self, connection: Connection) -> None:
        wanted = self._sql.types
        found = {column.name: column for column in connection.columns(self._sql.target)}
        missing = {name: dtype for name, dtype in wanted.items() if name not in found}
        # A column that hides the number of SQLite's rows is not left beside the others, even with a default.
        hides = {self._sql.place}
        extra = {n: c.type for n, c in found.items() if n not in wanted and (not c.has_default or n.lower() in hides)}
        other = {
            name: (found[name].type, dtype)
            for name, dtype in wanted.items()
            if name in found and found[name].type.lower() != dtype.lower()
        }
        if missing or extra or other:
            raise errors.other_columns(self._table, self._database.url, missing=missing, extra=extra, other=other)

    def _check_identity(self, connection: Connection) -> None:
        """Whether the index is there that an upsert needs: the database says so when it plans one."""
        connection.run(self._sql.stage(STANDING, self._shape.columns))
        try:
            connection.run(f"EXPLAIN {self._sql.upsert}")
        except self._database.errors as cause:
            raise errors.no_identity(self._table, self._database.url, self._sql.index, cause) from cause
        connection.run(f"DROP TABLE {STANDING}")
