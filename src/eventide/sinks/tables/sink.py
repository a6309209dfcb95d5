"""``table``: an output as a table of a database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING

from eventide.errors import sinks as errors
from eventide.sinks.flat import flat_rows
from eventide.sinks.sink import About, Output, Sink
from eventide.sinks.tables.database import Database
from eventide.sinks.tables.postgres import Postgres
from eventide.sinks.tables.shape import Shape, shape_of
from eventide.sinks.tables.sqlite import Sqlite
from eventide.sinks.tables.store import Store
from eventide.sinks.tables.url import sqlite_path

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from eventide.sinks.batch import SinkBatch


def table(url: str, *, name: str | None = None, columns: Sequence[str] | None = None, create: bool = True) -> Sink:
    """A table in PostgreSQL or SQLite that is always equal to the sum of the diffs, exactly once.

    Panes have a row for each key and window, as it stands: the last pane, and none where it was taken back. When
    discarding, each pane has its row. A window join has a row for each pair as it stands. Joined rows without a window,
    late rows and dead letters are appended. A batch changes the table in one
    transaction, together with its number (in ``eventide_batches``), so that a batch which Spark repeats after a failure
    changes nothing.

    ``name`` is the table's, with a schema before it if need be; without one, it is ``panes``, ``late`` or ``dead``,
    after the output. ``columns`` are those to keep beside key and window. Tables of late rows and dead letters get
    the columns that a source has gained. With ``create=False`` nothing is made that does not exist.

    >>> table("postgresql://me:secret@db.example:5432/shop", name="revenue")
    table('postgresql://me:…@db.example:5432/shop', name='revenue')
    >>> table("mysql://db/shop")
    Traceback (most recent call last):
    eventide.errors.kinds.PlanError: sinks.table('mysql://db/shop'): tables are kept in PostgreSQL (...
    """
    if name is not None and (not isinstance(name, str) or not name or "\0" in name):
        raise errors.bad_table_name(name, "some text")
    if columns is not None and (isinstance(columns, str) or not all(isinstance(column, str) for column in columns)):
        raise errors.not_columns(columns)
    return TableSink(_database(url), name, None if columns is None else tuple(columns), create)


def _database(url: str) -> Database:
    if isinstance(url, PurePath):
        raise errors.path_of_database(url)
    if not isinstance(url, str):
        raise errors.unknown_database(repr(url))
    if url.startswith(("postgresql://", "postgres://")):
        return Postgres(url)
    if url.startswith("sqlite:"):
        return Sqlite(sqlite_path(url))
    raise errors.unknown_database(url)


@dataclass
class TableSink:
    """Keeps the tables of one or more outputs, each on a connection of its own."""

    database: Database
    name: str | None
    columns: tuple[str, ...] | None
    create: bool
    _opened: dict[Output, tuple[Shape, Store]] = field(default_factory=dict, repr=False)

    flattens_windows = True

    def __repr__(self) -> str:
        chosen = {"name": self.name, "columns": self.columns and list(self.columns)}
        options = [f"{name}={value!r}" for name, value in chosen.items() if value is not None]
        return f"table({', '.join([repr(self.database.url), *options, *([] if self.create else ['create=False'])])})"

    def open(self, schema: StructType, about: About) -> None:
        """Connect, make the table or compare it with what is to be written."""
        shape = shape_of(schema, about, self.columns)
        store = Store(self.database, self.name or about.output, shape)
        # Late rows and dead letters are appended, with the columns that the source has now.
        store.prepare(create=self.create, extend=about.output != "panes")
        self._opened[about.output] = (shape, store)

    def write(self, batch: SinkBatch, batch_id: int, about: About) -> None:
        """Change the table, unless the batch has done so before."""
        if about.output not in self._opened:
            raise errors.not_opened(repr(self), about.output)
        if not about.query:
            raise errors.no_query()
        shape, store = self._opened[about.output]
        claim = about.query if about.output == "panes" else f"{about.query} {about.output}"  # two may share a table
        if not store.has(claim, batch_id):  # before it is computed, which may take long
            store.put(flat_rows(batch, shape.read), claim, batch_id)

    def close(self) -> None:
        """Let go of the connections."""
        for _, store in self._opened.values():
            store.close()
