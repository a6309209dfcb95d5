"""``table``: an output as a table in PostgreSQL or SQLite.

Exactly once: see ``table_merge``.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal, TypeAlias

from eventide._addresses import split_table
from eventide._databases import sqlite_path, without_password
from eventide._hints import with_option_hints
from eventide.errors import DataError, DriverLimitWarning, PlanError
from eventide.sinks.batch import read_flat, read_flat_parts
from eventide.sinks.errors import bad_option, bad_table_name, not_opened
from eventide.sinks.sink import Output, OutputInfo, Sink
from eventide.sinks.staged_rows import put_in_parts
from eventide.sinks.staged_tables import PostgresStaging
from eventide.sinks.table_databases import Database, Postgres, Sqlite
from eventide.sinks.table_merge import TableStore
from eventide.sinks.table_sql import Statements, TableLayout, column_names, table_layout

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from eventide.sinks.batch import SinkBatch


COLLECTED_BYTES = 16 << 20
"""Batches up to this size are collected by the driver. Larger ones would fill its memory."""

_REMEDY = (
    "Install psycopg on the executors (pip install 'pyspark-eventide[postgres]'), open the database to them and let "
    "the user create tables"
)

Route: TypeAlias = Literal["collected", "staged", "in parts"]
"""How a batch reaches the table: in the memory of the driver, by the executors, or through the driver in parts."""


@with_option_hints
def table(
    url: str,
    *,
    name: str | None = None,
    columns: Sequence[str] | None = None,
    create: bool = True,
    staged: bool | None = None,
) -> Sink:
    """A table in PostgreSQL or SQLite that always equals the sum of the diffs, exactly once.

    The address names the table after ``#``: ``"postgresql://db/shop#revenue"``, ``"sqlite:///shop.db#revenue"``.
    Without it (and without ``name``) the table has the name of the output: ``panes``, ``late`` or ``dead``.

    Panes have one row for each key and window: the last pane, or none if it was retracted. In discarding mode each pane
    has its row. A window join has a row for each current pair. Joined rows without a window, late rows and dead letters
    are appended. A batch changes the table and its number (in ``eventide_batches``) in one transaction, so a batch that
    Spark repeats after a failure changes nothing.

    ``name`` is the name of the table, if the address cannot hold it. It may have a schema: ``sales.revenue``.
    ``columns`` are stored in addition to key and window. Tables of late rows and dead letters get new columns of the
    source. With ``create=False`` nothing is created.

    With state on the executors, a batch above 16 MB is staged: the executors write it to PostgreSQL, into an UNLOGGED
    table of the batch, and the driver merges that table. The driver writes it in parts into SQLite, with
    ``staged=False`` or ``create=False``, and, after a warning, if the executors cannot connect to the database.
    ``staged=True`` stages every batch, and rejects executors that cannot connect.

    >>> table("postgresql://me:secret@db.example:5432/shop#revenue")
    table('postgresql://me:…@db.example:5432/shop', name='revenue')
    >>> table("mysql://db/shop")
    Traceback (most recent call last):
    eventide.errors.PlanError: sinks.table('mysql://db/shop'): tables are in PostgreSQL (...
    """
    if name is not None and (not isinstance(name, str) or not name or "\0" in name):
        raise bad_table_name(name, "some text")
    if isinstance(url, str):
        url, address_name = split_table(url)
        if address_name is not None and name is not None:
            raise PlanError(
                f"sinks.table({without_password(url)!r}, name={name!r}): the address names the table "
                f"{address_name!r}. Use one of the two names."
            )
        name = name or address_name
    if staged not in (None, True, False):
        raise bad_option("table", "staged", staged, "True, False or None")
    if staged and not create:
        raise PlanError("sinks.table(staged=True, create=False): staging creates tables. Leave one of the two out.")
    return TableSink(_database(url), name, column_names(columns), create, staged)


def _database(url: str) -> Database:
    if isinstance(url, PurePath):
        raise PlanError(f"sinks.table({str(url)!r}) is a path. Write it as a URL: 'sqlite:///{url.as_posix()}'.")
    if not isinstance(url, str):
        raise _unknown_database(repr(url))
    if url.startswith("postgresql://"):
        return Postgres(url)
    if url.startswith("sqlite:"):
        return Sqlite(sqlite_path(url))
    raise _unknown_database(url)


@dataclass
class TableSink:
    """The tables of one or more outputs, each with its own connection."""

    database: Database
    name: str | None
    columns: tuple[str, ...] | None
    create: bool
    staged: bool | None = None
    _opened: dict[Output, tuple[TableLayout, TableStore]] = field(default_factory=dict, repr=False)
    _staging: dict[Output, PostgresStaging] = field(default_factory=dict, repr=False)
    _stages_none: bool = field(default=False, repr=False)  # the executors cannot connect to the database

    def __repr__(self) -> str:
        values = {"name": self.name, "columns": self.columns and list(self.columns), "staged": self.staged}
        options = [f"{name}={value!r}" for name, value in values.items() if value is not None]
        return f"table({', '.join([repr(self.database.url), *options, *([] if self.create else ['create=False'])])})"

    def open(self, schema: StructType, info: OutputInfo) -> None:
        """Create the table, or compare it with the output."""
        layout = table_layout(schema, info, self.columns)
        table = self.name or info.output
        store = TableStore(self.database, table, layout)
        # Late rows and dead letters are appended, with the current columns of the source.
        store.prepare(create=self.create, extend=info.output != "panes")
        self._opened[info.output] = (layout, store)
        if self.database.dialect == "postgres":
            staging = PostgresStaging(self.database, store, Statements(table, layout, self.database.dialect))
            self._staging[info.output] = staging
            self._open_staging(staging, info)

    def _open_staging(self, staging: PostgresStaging, info: OutputInfo) -> None:
        """Drop what earlier drivers left, and find out whether batches can be staged."""
        try:
            if info.query:
                staging.clean(_claim(info), 0)
            if info.state == "executors" and self.staged is not False and self.create and not self._stages_none:
                self._check_staging(staging)
        except DataError:
            pass  # the connection was lost; the first batch connects again
        finally:
            staging.store.close()  # the first batch opens its own, perhaps in another process

    def _check_staging(self, staging: PostgresStaging) -> bool:
        """Return whether batches can be staged. If not, warn that the driver writes them, or reject ``staged=True``."""
        from pyspark.sql import SparkSession

        spark = SparkSession.getActiveSession()
        problem = None if spark is None else staging.problem(spark)
        if problem is None:
            return True
        if self.staged:
            raise PlanError(f"sinks.table(staged=True): {problem}. {_REMEDY}, or leave staged= out.")
        warnings.warn(
            f"sinks.table(): batches above {COLLECTED_BYTES >> 20} MB pass through the driver, which is slower. "
            f"The reason: {problem}. {_REMEDY}, or accept it with staged=False.",
            DriverLimitWarning,
            stacklevel=2,
        )
        self._stages_none = True
        return False

    def write(self, batch: SinkBatch, batch_id: int, info: OutputInfo) -> None:
        """Change the table, unless the batch has changed it before."""
        if info.output not in self._opened:
            raise not_opened(repr(self), info.output)
        if not info.query:
            raise DataError(
                "sinks.table(): OutputInfo.query is empty. Set it to Spark's query id, which identifies a replay."
            )
        layout, store = self._opened[info.output]
        claim, staging = _claim(info), self._staging.get(info.output)
        if staging is not None:
            staging.clean(claim, batch_id)  # also if the batch is in the table, and its driver died before it cleaned
        if store.has(claim, batch_id):  # before the rows are computed, which may take long
            return
        route = self._route(batch)
        if route == "collected":
            store.put(read_flat(batch, layout.read), claim, batch_id)
            return
        if route == "staged" and staging is not None and self._is_staged(staging, batch, claim, batch_id):
            return
        sql = Statements(self.name or info.output, layout, self.database.dialect)
        put_in_parts(store, sql, lambda: read_flat_parts(batch, layout.read), claim, batch_id)

    def _route(self, batch: SinkBatch) -> Route:
        """Return how a batch reaches the table."""
        if batch.is_local:
            return "collected"
        stages = self.database.dialect == "postgres" and self.create and not self._stages_none
        if self.staged:
            return "staged" if stages else "in parts"
        if batch.size is not None and batch.size <= COLLECTED_BYTES:
            return "collected"
        return "staged" if stages and self.staged is None else "in parts"

    def _is_staged(self, staging: PostgresStaging, batch: SinkBatch, claim: str, batch_id: int) -> bool:
        """Stage a batch. Return False if executors that came later cannot connect: then the driver writes it."""
        try:
            staging.put(batch, claim, batch_id)
        except (DataError, PlanError):
            raise
        except Exception:  # of Spark: a task has failed
            if self._check_staging(staging):
                raise
            return False
        return True

    def close(self) -> None:
        """Close the connections."""
        for _, store in self._opened.values():
            store.close()


def _claim(info: OutputInfo) -> str:
    """Return the name under which the batches of an output are claimed: two outputs may share a table."""
    return info.query if info.output == "panes" else f"{info.query} {info.output}"


def _unknown_database(url: str) -> PlanError:
    scheme = url.partition("://")[0]
    if scheme.startswith("jdbc:") or scheme in {"mysql", "mssql", "oracle", "mariadb", "duckdb", "snowflake"}:
        hint = ' For other databases use sinks.spark_format("jdbc", url=…, dbtable=…), which appends.'
    else:
        hint = f" Write 'sqlite:///{url}'." if url.endswith((".db", ".sqlite", ".sqlite3")) else ""
    return PlanError(
        f"sinks.table({without_password(url)!r}): tables are in PostgreSQL (postgresql://user:password@host:5432/"
        f"database) or SQLite (sqlite:///path.db).{hint}"
    )
