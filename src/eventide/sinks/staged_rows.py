"""Rows of a batch that are in a database already, and how they change a table.

A batch that is too large for this process is staged: its rows are written to a table of the database, in parts and in
any order, and one transaction then merges them. ``merge_staged`` computes in SQL what ``table_merge.table_changes``
computes in memory, and changes the table with the same statements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import polars as pl

from eventide.panes import DIFF, PANE_INDEX
from eventide.sinks.table_databases import Connection
from eventide.sinks.table_merge import TableStore, last_rows
from eventide.sinks.table_sql import (
    COPIES,
    CURRENT,
    LAST,
    REMOVED,
    STAGED,
    Statements,
    TableLayout,
    column_list,
    quoted,
    sql_type,
)

_NTH, _TOTAL = "eventide_nth", "eventide_total"
_PART = 50_000  # rows that are reduced and written together


def staged_types(sql: Statements) -> dict[str, str]:
    """Return the columns of staged rows and their types: those of the table, and those that order its rows."""
    return {field.name: sql_type(field, sql.dialect).name for field in sql.layout.read}


def definitions(types: Mapping[str, str]) -> str:
    """Return columns and types as ``CREATE TABLE`` lists them."""
    return ", ".join(f"{quoted(name)} {dtype}" for name, dtype in types.items())


def reduce_parts(parts: Iterable[pl.DataFrame], layout: TableLayout) -> Iterator[pl.DataFrame]:
    """Yield the rows of a batch in larger parts, without those that a later row of the same part replaces."""
    waiting: list[pl.DataFrame] = []
    for part in parts:
        waiting.append(part)
        if sum(each.height for each in waiting) >= _PART:
            yield _reduced(pl.concat(waiting), layout)
            waiting = []
    if waiting:
        yield _reduced(pl.concat(waiting), layout)


def _reduced(rows: pl.DataFrame, layout: TableLayout) -> pl.DataFrame:
    return last_rows(rows, layout) if layout.identity and not layout.many else rows


def put_in_parts(
    store: TableStore, sql: Statements, parts: Callable[[], Iterable[pl.DataFrame]], query: str, batch_id: int
) -> None:
    """Put a batch into a table. The rows wait in a temporary table of the database, not in memory.

    ``parts`` is called again if the connection was lost.
    """

    def load(connection: Connection) -> int:
        connection.run(f"CREATE TEMPORARY TABLE {STAGED} ({definitions(staged_types(sql))})")
        rows = 0
        for part in reduce_parts(parts(), sql.layout):
            connection.load(STAGED, part)
            rows += part.height
        return rows

    def put_in_sqlite(connection: Connection) -> None:
        connection.run("BEGIN")  # only temporary tables change: others may write to the file until all rows are here
        rows = load(connection)
        connection.run("COMMIT")
        if rows:
            store.change(connection, query, batch_id, lambda: merge_staged(connection, sql))
        connection.run(f"DROP TABLE {STAGED}")

    def put_in_postgres(connection: Connection) -> None:
        def apply() -> None:  # in one transaction: behind a pooler, the next one may have another server
            load(connection)
            merge_staged(connection, sql)
            connection.run(f"DROP TABLE {STAGED}")

        store.change(connection, query, batch_id, apply)

    store.on_connection(put_in_sqlite if sql.dialect == "sqlite" else put_in_postgres, batch_id)


def merge_staged(connection: Connection, sql: Statements) -> None:
    """Change a table by the rows of the relation ``STAGED``, in the current transaction."""
    layout = sql.layout
    columns = column_list(layout.columns)
    if not layout.identity:
        connection.run(f"INSERT INTO {sql.target} ({columns}) SELECT {columns} FROM {STAGED}")
        return
    types = staged_types(sql)
    stored = {name: types[name] for name in (*layout.columns, DIFF)}
    connection.run(f"CREATE TEMPORARY TABLE {LAST} ({definitions(stored)})")
    connection.run(f"INSERT INTO {LAST} ({column_list(stored)}) {_decisive_rows(sql)}")
    connection.run(f"CREATE TEMPORARY VIEW {REMOVED} AS {_removed(layout)}")
    connection.run(sql.delete_copies if layout.many == "each" else sql.delete)
    connection.run(f"DROP VIEW {REMOVED}")
    current = f"SELECT {columns} FROM {LAST} WHERE {quoted(DIFF)} > 0"
    if layout.many:
        connection.run(f"INSERT INTO {sql.target} ({columns}) {current}")
    else:
        connection.run(f"CREATE TEMPORARY VIEW {CURRENT} AS {current}")
        connection.run(sql.upsert)
        connection.run(f"DROP VIEW {CURRENT}")
    connection.run(f"DROP TABLE {LAST}")


def _decisive_rows(sql: Statements) -> str:
    """Return the query for the rows that decide: the same as ``table_changes`` keeps."""
    layout, diff, index = sql.layout, quoted(DIFF), quoted(PANE_INDEX)
    if layout.many == "each":
        content = column_list(layout.content)
        values = (
            f"row_number() OVER (PARTITION BY {content}, {diff}) AS {_NTH}, "
            f"sum({diff}) OVER (PARTITION BY {content}) AS {_TOTAL}"
        )
        condition = f"{_TOTAL} * {diff} > 0 AND {_NTH} <= abs({_TOTAL})"
    elif layout.many == "all":
        values = f"rank() OVER (PARTITION BY {', '.join(sql.terms())} ORDER BY {index} DESC) AS {_NTH}"
        condition = f"{_NTH} = 1"
    else:
        order = f"{diff} DESC, {index} DESC"
        values = f"row_number() OVER (PARTITION BY {', '.join(sql.terms())} ORDER BY {order}) AS {_NTH}"
        condition = f"{_NTH} = 1"
    columns = column_list((*layout.columns, DIFF))
    return f"SELECT {columns} FROM (SELECT {columns}, {values} FROM {STAGED}) AS numbered WHERE {condition}"


def _removed(layout: TableLayout) -> str:
    """Return the query for what ``Statements.delete`` and ``delete_copies`` delete."""
    if layout.many == "all":
        return f"SELECT DISTINCT {column_list(layout.identity)} FROM {LAST}"
    if layout.many == "each":
        content = column_list(layout.content)
        return f"SELECT {content}, count(*) AS {COPIES} FROM {LAST} WHERE {quoted(DIFF)} < 0 GROUP BY {content}"
    return f"SELECT {column_list(layout.identity)} FROM {LAST} WHERE {quoted(DIFF)} < 0"
