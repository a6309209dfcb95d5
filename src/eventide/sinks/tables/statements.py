"""The SQL of a table. Names are quoted here; values never appear in a statement."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from eventide.sinks.tables.changes import COPIES
from eventide.sinks.tables.shape import Shape
from eventide.sinks.tables.types import Dialect, sql_type

BATCHES = "eventide_batches"
STANDING, GONE = "eventide_standing", "eventide_gone"  # temporary, in the transaction of a batch

RESERVED = frozenset({BATCHES, STANDING, GONE})
ROW_IDS = ("rowid", "_rowid_", "oid")  # what SQLite calls the number of a row, unless a column has that name

CREATE_BATCHES = (
    f"CREATE TABLE {BATCHES} (query TEXT NOT NULL, sink_table TEXT NOT NULL, batch_id BIGINT NOT NULL, "
    "PRIMARY KEY (query, sink_table))"
)
LAST_BATCH = f"SELECT batch_id FROM {BATCHES} WHERE query = ? AND sink_table = ?"
# Changes one row if the batch is new and none if it is not. Who does the same at the same time waits for us to commit.
CLAIM_BATCH = (
    f"INSERT INTO {BATCHES} (query, sink_table, batch_id) VALUES (?, ?, ?) ON CONFLICT (query, sink_table) "
    f"DO UPDATE SET batch_id = excluded.batch_id WHERE {BATCHES}.batch_id < excluded.batch_id"
)


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever it contains.

    >>> print(quoted('the "best" of'))
    "the ""best"" of"
    """
    return '"' + name.replace('"', '""') + '"'


def listed(names: Iterable[str]) -> str:
    """Quoted names, with commas."""
    return ", ".join(map(quoted, names))


def parts(table: str, dialect: Dialect) -> list[str]:
    """The parts of a table's name. In PostgreSQL it may begin with a schema.

    >>> parts("sales.panes", "postgres"), parts("sales.panes", "sqlite")
    (['sales', 'panes'], ['sales.panes'])
    """
    return table.split(".", 1) if dialect == "postgres" else [table]


def qualified(table: str, dialect: Dialect) -> str:
    """Return the quoted name of a table, with its schema if it has one."""
    return ".".join(map(quoted, parts(table, dialect)))


def index_name(table: str, dialect: Dialect) -> str:
    """The name of the index that makes key and window unique."""
    return f"{parts(table, dialect)[-1]}_identity"


def row_id(columns: Iterable[str]) -> str | None:
    """SQLite's name for the number of a row that no column hides; None, if columns hide all of them.

    >>> row_id(["n", "RowId"]), row_id(["oid", "rowid", "_rowid_"])
    ('_rowid_', None)
    """
    hidden = {name.lower() for name in columns}
    return next((name for name in ROW_IDS if name not in hidden), None)


@dataclass(frozen=True)
class Statements:
    """The statements for one table."""

    table: str
    shape: Shape
    dialect: Dialect

    @property
    def target(self) -> str:
        """The table's name, quoted."""
        return qualified(self.table, self.dialect)

    @property
    def types(self) -> dict[str, str]:
        """The columns and their types."""
        return {field.name: sql_type(field, self.dialect).name for field in self.shape.fields}

    @property
    def place(self) -> str:
        """The database's own name of a row's place, which no column has."""
        return "ctid" if self.dialect == "postgres" else row_id(self.shape.columns) or ROW_IDS[0]

    @property
    def create(self) -> list[str]:
        """What makes the table."""
        columns = ", ".join(f"{quoted(name)} {dtype}" for name, dtype in self.types.items())
        table = f"CREATE TABLE {self.target} ({columns})"
        return [table, self.index] if self.shape.identity else [table]

    @property
    def index(self) -> str:
        """What makes key and window unique."""
        name = quoted(index_name(self.table, self.dialect))
        return f"CREATE {'' if self.shape.many else 'UNIQUE '}INDEX {name} ON {self.target} ({self._terms()})"

    @property
    def upsert(self) -> str:
        """Put what stands into the table."""
        columns = listed(self.shape.columns)
        updates = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in self.shape.values)
        action = f"UPDATE SET {updates}" if updates else "NOTHING"
        # SQLite takes ON for a part of the join, unless WHERE ends it. A column may be called "true".
        return (
            f"INSERT INTO {self.target} AS t ({columns}) SELECT {columns} FROM {STANDING} WHERE 1 = 1 "
            f"ON CONFLICT ({self._terms()}) DO {action}"
        )

    @property
    def delete(self) -> str:
        """Take what no longer stands out of the table."""
        same = " AND ".join(f"{a} = {b}" for a, b in zip(self.terms("t."), self.terms("gone."), strict=True))
        if self.dialect == "postgres":
            return f"DELETE FROM {self.target} AS t USING {GONE} AS gone WHERE {same}"
        # The rows are looked up through the index: SQLite goes through a cross join from left to right.
        found = f"SELECT t.{self.place} FROM {GONE} AS gone CROSS JOIN {self.target} AS t ON {same}"
        return f"DELETE FROM {self.target} WHERE {self.place} IN ({found})"

    @property
    def delete_copies(self) -> str:
        """Take so many rows that say the same out of the table as are told."""
        terms = zip(self.terms("t."), self.terms("gone."), strict=True)
        equal = "IS NOT DISTINCT FROM" if self.dialect == "postgres" else "IS"
        found = [f"{a} = {b}" for a, b in terms]  # through the index
        found += [f"t.{quoted(name)} {equal} gone.{quoted(name)}" for name in self.shape.said]
        nth = f"row_number() OVER (PARTITION BY {', '.join(f'gone.{quoted(name)}' for name in self.shape.said)})"
        rows = (
            f"SELECT t.{self.place} AS place, gone.{COPIES} AS copies, {nth} AS nth "
            f"FROM {GONE} AS gone CROSS JOIN {self.target} AS t WHERE {' AND '.join(found)}"
        )
        places = f"SELECT place FROM ({rows}) AS found WHERE nth <= copies"
        return f"DELETE FROM {self.target} WHERE {self.place} IN ({places})"

    def stage(self, table: str, columns: Iterable[str]) -> str:
        """A temporary table with some columns of the table."""
        types = self.types | {COPIES: "bigint"}
        return f"CREATE TEMPORARY TABLE {table} ({', '.join(f'{quoted(name)} {types[name]}' for name in columns)})"

    def terms(self, prefix: str = "") -> list[str]:
        """What two rows of one identity have in common.

        A null is equal to nothing in SQL. So it is replaced by some value of its type, and a last term says where that
        was done.
        """
        fields = {field.name: field for field in self.shape.fields}
        names = [(f"{prefix}{quoted(name)}", sql_type(fields[name], self.dialect)) for name in self.shape.identity]
        nulls = (f"CASE WHEN {name} IS NULL THEN {1 << i} ELSE 0 END" for i, (name, _) in enumerate(names))
        return [*(f"coalesce({name}, {sql.zero})" for name, sql in names), f"({' + '.join(nulls)})"]

    def _terms(self) -> str:
        return ", ".join(self.terms())
