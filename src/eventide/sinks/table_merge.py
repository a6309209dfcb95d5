"""Merge batches of panes into a table of a database.

Exactly once: a batch is claimed and applied in one transaction. The claim stores the number of the batch for its query
in ``eventide_batches``, and fails if the same or a later number is stored. So a batch is in the table once, however
often it is repeated, and an interrupted batch leaves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import polars as pl

from eventide.errors import DataError, PlanError, first_line
from eventide.panes import DIFF, PANE_INDEX
from eventide.sinks.errors import bad_table_name
from eventide.sinks.table_databases import Connection, Database
from eventide.sinks.table_sql import (
    ATTEMPT,
    BATCHES,
    CLAIM_BATCH,
    COPIES,
    CREATE_BATCHES,
    CURRENT,
    LAST_BATCH,
    REMOVED,
    RESERVED,
    Statements,
    TableLayout,
    quoted,
)


class TableChanges(NamedTuple):
    """The current rows after a batch, and the removed ones."""

    current: pl.DataFrame
    removed: pl.DataFrame


def table_changes(rows: pl.DataFrame, layout: TableLayout) -> TableChanges:
    """Return the last pane of each identity, or its removal if the last row is a retraction.

    A batch retracts only panes of earlier batches, so its retractions precede its panes; among panes, the index
    decides. The order of the rows does not matter.

    >>> from eventide.sinks.table_sql import TableLayout
    >>> rows = pl.DataFrame({"k": ["a", "a", "b"], "n": [2, 1, 5], "pane_index": [1, 0, 0], "diff": [1, -1, -1]})
    >>> current, removed = table_changes(rows, TableLayout((), identity=("k",)))
    >>> current["n"].to_list(), removed["k"].to_list()
    ([2], ['b'])
    """
    if layout.many == "all":
        newest = rows.filter(pl.col(PANE_INDEX) == pl.col(PANE_INDEX).max().over(layout.identity))
        return TableChanges(newest, rows.select(layout.identity).unique(maintain_order=True))
    if layout.many == "each":
        return _count_copies(rows, layout)
    last = last_rows(rows, layout).sort(layout.identity)  # PostgreSQL is faster in the order of the index
    is_current = last[DIFF] > 0
    return TableChanges(last.filter(is_current), last.filter(~is_current).select(layout.identity))


def last_rows(rows: pl.DataFrame, layout: TableLayout) -> pl.DataFrame:
    """Return the row that decides for each identity. It may be applied to parts of a batch, and then to their rows."""
    return rows.sort(DIFF, PANE_INDEX).unique(subset=layout.identity, keep="last", maintain_order=True)


def _count_copies(rows: pl.DataFrame, layout: TableLayout) -> TableChanges:
    """Return the added rows, and the removed ones with their number. A row and its retraction cancel each other."""
    total = pl.col(DIFF).cast(pl.Int64).sum().over(layout.content)
    nth = pl.int_range(pl.len()).over(*layout.content, DIFF)
    same_sign = (total > 0) & (pl.col(DIFF) > 0) | (total < 0) & (pl.col(DIFF) < 0)
    left = rows.filter(same_sign & (nth < total.abs()))
    is_current = left[DIFF] > 0
    removed = (
        left.filter(~is_current)
        .group_by(layout.content, maintain_order=True)
        .agg(pl.len().cast(pl.Int64).alias(COPIES))
    )
    return TableChanges(left.filter(is_current), removed)


T = TypeVar("T")


class TableStore:
    """A table, and the number of the last batch of each query in it. Both change in one transaction."""

    def __init__(self, database: Database, table: str, layout: TableLayout) -> None:
        self._database = database
        self._table = table
        self._layout = layout
        self._sql = Statements(table, layout, database.dialect)
        self._connection: Connection | None = None

    def prepare(self, *, create: bool, extend: bool = False) -> None:
        """Create the table if ``create`` is set, and reject one that does not fit.

        ``extend`` adds columns of the rows that the table lacks.
        """
        self._check_names()
        try:
            connection = self._database.connect()
        except self._database.errors as cause:
            raise PlanError(
                f"sinks.table(): no connection to {self._database.url}: {first_line(cause)}. Check the address and "
                "that the database is up."
            ) from cause
        try:
            with connection.transaction():
                self._create(connection, create)
                if create and extend:
                    self._add_columns(connection)
                self._check_columns(connection)
                if self._layout.identity and not self._layout.many:
                    self._check_identity(connection)
        except self._database.errors as cause:
            raise PlanError(
                f"The table {self._table!r} cannot be prepared in {self._database.url}: {first_line(cause)}."
            ) from cause
        finally:
            connection.close()  # the first batch opens its own, perhaps in another process

    def has(self, query: str, batch_id: int) -> bool:
        """Return whether a batch is in the table already."""

        def has(connection: Connection) -> bool:
            last = connection.query(LAST_BATCH, [query, self._table])
            return bool(last) and int(last[0][0]) >= batch_id

        return self.on_connection(has, batch_id)

    def put(self, rows: pl.DataFrame, query: str, batch_id: int) -> None:
        """Put a batch into the table, unless it is there already."""

        def put(connection: Connection) -> None:
            self.change(connection, query, batch_id, lambda: self._apply(connection, rows))

        if rows.height:
            self.on_connection(put, batch_id)

    def change(self, connection: Connection, query: str, batch_id: int, apply: Callable[[], None]) -> None:
        """Claim a batch and apply its changes in one transaction, unless the batch is in the table already."""
        with connection.transaction():
            if self._claim(connection, query, batch_id):
                apply()

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _claim(self, connection: Connection, query: str, batch_id: int) -> bool:
        """Claim a batch for this transaction. Return False if it is in the table already."""
        return connection.execute(CLAIM_BATCH, [query, self._table, batch_id]) > 0

    def _apply(self, connection: Connection, rows: pl.DataFrame) -> None:
        sql, layout = self._sql, self._layout
        if not layout.identity:
            connection.load(sql.target, rows.select(layout.columns))
            return
        current, removed = table_changes(rows, layout)
        self._run_with(connection, REMOVED, removed, sql.delete_copies if layout.many == "each" else sql.delete)
        if layout.many:
            connection.load(sql.target, current.select(layout.columns))
        else:
            self._run_with(connection, CURRENT, current.select(layout.columns), sql.upsert)

    def _run_with(self, connection: Connection, name: str, rows: pl.DataFrame, statement: str) -> None:
        """Run a statement that reads rows from a temporary table."""
        if rows.height:
            connection.run(self._sql.stage(name, rows.columns))
            connection.load(name, rows)
            connection.run(statement)
            connection.run(f"DROP TABLE {name}")

    def on_connection(self, work: Callable[[Connection], T], batch_id: int) -> T:
        """Do some work on the connection, and retry once on a new one if the connection was lost.

        The retry is safe even if the commit succeeded and only its answer was lost: the batch is claimed then.
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
                    raise _not_written(self._table, self._database.url, batch_id, cause) from cause
            except BaseException:
                self.close()  # with its temporary tables
                raise
        raise AssertionError("the second attempt returns or raises")

    def _create(self, connection: Connection, create: bool) -> None:
        table, *index = self._sql.create
        statements_by_table = {
            BATCHES: [] if connection.columns(quoted(BATCHES)) else [CREATE_BATCHES],
            self._table: [] if connection.columns(self._sql.target) else [table, *index],
        }
        for name, statements in statements_by_table.items():
            if statements and not create:
                raise PlanError(
                    f"sinks.table(create=False): {self._database.url} has no table {name!r}. Use create=True, or "
                    f"create it:{_listed(statements)}"
                )
            for statement in statements:
                connection.run(statement)

    def _check_names(self) -> None:
        """Reject names that the sink or the database reserves."""
        if self._table.lower() in RESERVED:
            raise bad_table_name(self._table, f"not one that the sink uses: {', '.join(sorted(RESERVED))}")
        reserved = {COPIES, ATTEMPT}
        if any(not name or "\0" in name or name.lower() in reserved for name in self._layout.columns):
            raise PlanError(
                "sinks.table(): a column has a name, without a null character, that is not "
                f"{' or '.join(map(repr, sorted(reserved)))}. Rename it."
            )
        self._database.check_names(self._table, self._layout.columns)

    def _add_columns(self, connection: Connection) -> None:
        present = {column.name.lower() for column in connection.columns(self._sql.target)}
        for name, dtype in self._sql.types.items():
            if name.lower() not in present:
                connection.run(f"ALTER TABLE {self._sql.target} ADD COLUMN {quoted(name)} {dtype}")

    def _check_columns(self, connection: Connection) -> None:
        expected = self._sql.types
        actual = {column.name: column for column in connection.columns(self._sql.target)}
        faults = [f"{name} is missing ({dtype})" for name, dtype in expected.items() if name not in actual]
        faults += [
            f"{name} is {actual[name].type}, and should be {dtype}"
            for name, dtype in expected.items()
            if name in actual and actual[name].type.lower() != dtype.lower()
        ]
        faults += [
            f"{name} ({column.type}) is not written, and has no default"
            for name, column in actual.items()
            # A column that hides the row number of SQLite is an error even with a default.
            if name not in expected and (not column.has_default or name.lower() == self._sql.row_address)
        ]
        if faults:
            raise PlanError(
                f"The table {self._table!r} of {self._database.url} has other columns than this output:"
                f"{_listed(faults)}\nGive the output its own table (name=…), change the table, or choose columns=[…]."
            )

    def _check_identity(self, connection: Connection) -> None:
        """Check for the index that an upsert needs: planning an upsert fails without it."""
        connection.run(self._sql.stage(CURRENT, self._layout.columns))
        try:
            connection.run(f"EXPLAIN {self._sql.upsert}")
        except self._database.errors as cause:
            raise PlanError(
                f"The table {self._table!r} of {self._database.url} does not identify rows as this output does: "
                f"{first_line(cause)}. If it was created for another accumulation mode, give this output its own "
                f"table (name=…). If not, create this index:{_listed([self._sql.index])}"
            ) from cause
        connection.run(f"DROP TABLE {CURRENT}")


def _not_written(table: str, url: str, batch_id: int, cause: BaseException) -> DataError:
    hint = ""
    if "0x00" in str(cause) or "\\u0000" in str(cause):
        hint = " PostgreSQL's text cannot contain a zero character; remove it from the rows, or use SQLite."
    return DataError(
        f"Batch {batch_id} was not written into {table!r} of {url}: {first_line(cause)}.{hint} The table is "
        "unchanged; a restart from the checkpoint writes the batch again."
    )


def _listed(lines: Sequence[str]) -> str:
    return "".join(f"\n  {line}" for line in lines)
