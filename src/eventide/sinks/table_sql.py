"""The SQL of a table: its columns and their types, which columns identify a row, and the statements.

SQLite has four types, and stores others as text. Timestamps and dates are ISO-8601, which sorts correctly. Decimals
have all digits of their scale; cast them to compare them. ``NaN`` is the text ``'NaN'``, which sorts above all numbers,
as in Spark and PostgreSQL; SQLite itself would store null.

Names are quoted here; values never appear in a statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, cast

from eventide.errors import PlanError, did_you_mean, shown
from eventide.panes import DIFF, EMITTED_AT, PANE, PANE_INDEX, PANE_IS_LAST, PANE_TIMING, WINDOW
from eventide.sinks.batch import Field, flat_fields
from eventide.sinks.sink import OutputInfo

if TYPE_CHECKING:
    from pyspark.sql.types import DecimalType, StructType


Dialect: TypeAlias = Literal["postgres", "sqlite"]

BATCHES = "eventide_batches"
"""The table with the last batch of each query and table."""
CURRENT, REMOVED = "eventide_current", "eventide_removed"
"""Temporary tables in the transaction of a batch."""
STAGED, ATTEMPTS, LAST = "eventide_staged", "eventide_attempts", "eventide_last"
"""Temporary tables and views in the transaction of a staged batch."""
COPIES = "eventide_copies"
"""The column with the number of equal rows to delete."""
ATTEMPT = "eventide_attempt"
"""The column of a staged batch with the attempt of the task that wrote the row."""
RESERVED = frozenset({BATCHES, CURRENT, REMOVED, STAGED, ATTEMPTS, LAST})
ROW_IDS = ("rowid", "_rowid_", "oid")  # names of the row number in SQLite, unless a column has the name

CREATE_BATCHES = (
    f"CREATE TABLE {BATCHES} (query TEXT NOT NULL, sink_table TEXT NOT NULL, batch_id BIGINT NOT NULL, "
    "PRIMARY KEY (query, sink_table))"
)
LAST_BATCH = f"SELECT batch_id FROM {BATCHES} WHERE query = ? AND sink_table = ?"
# Changes one row if the batch is new, and none otherwise. A concurrent claim waits for this transaction.
CLAIM_BATCH = (
    f"INSERT INTO {BATCHES} (query, sink_table, batch_id) VALUES (?, ?, ?) ON CONFLICT (query, sink_table) "
    f"DO UPDATE SET batch_id = excluded.batch_id WHERE {BATCHES}.batch_id < excluded.batch_id"
)

_MANY: dict[str, Literal["all", "each"]] = {"accumulating": "all", "retracting": "each"}  # rows of pairs, by mode
_STORED = (PANE_TIMING, PANE_INDEX, PANE_IS_LAST, EMITTED_AT)  # of the columns about the pane itself


class SqlType(NamedTuple):
    """The name of a type, and a value that replaces null where nulls must be equal."""

    name: str
    zero: str


@dataclass(frozen=True)
class _Pair:
    postgres: SqlType
    sqlite: SqlType


_INTEGER, _REAL, _TEXT = SqlType("INTEGER", "0"), SqlType("REAL", "0"), SqlType("TEXT", "''")
_JSON = _Pair(SqlType("jsonb", "'null'::jsonb"), _TEXT)

_TYPES = {
    "boolean": _Pair(SqlType("boolean", "false"), _INTEGER),
    "byte": _Pair(SqlType("smallint", "0"), _INTEGER),
    "short": _Pair(SqlType("smallint", "0"), _INTEGER),
    "integer": _Pair(SqlType("integer", "0"), _INTEGER),
    "long": _Pair(SqlType("bigint", "0"), _INTEGER),
    "float": _Pair(SqlType("real", "0"), _REAL),
    "double": _Pair(SqlType("double precision", "0"), _REAL),
    "decimal": _Pair(SqlType("numeric({precision},{scale})", "0"), _TEXT),
    "string": _Pair(SqlType("text", "''"), _TEXT),
    "char": _Pair(SqlType("text", "''"), _TEXT),
    "varchar": _Pair(SqlType("text", "''"), _TEXT),
    "void": _Pair(SqlType("text", "''"), _TEXT),
    "binary": _Pair(SqlType("bytea", "''::bytea"), SqlType("BLOB", "x''")),
    "date": _Pair(SqlType("date", "'epoch'::date"), _TEXT),
    "time": _Pair(SqlType("time without time zone", "'00:00'::time"), _TEXT),
    "timestamp": _Pair(SqlType("timestamp with time zone", "'epoch'::timestamptz"), _TEXT),
    "timestamp_ntz": _Pair(SqlType("timestamp without time zone", "'epoch'::timestamp"), _TEXT),
    "daytimeinterval": _Pair(SqlType("bigint", "0"), _INTEGER),  # in microseconds
    "array": _JSON,
    "map": _JSON,
    "struct": _JSON,
    "variant": _JSON,
}


def sql_type(field: Field, dialect: Dialect) -> SqlType:
    """Return the type of a column, with the name that the database uses.

    >>> from pyspark.sql.types import DecimalType, TimestampType
    >>> sql_type(Field("price", DecimalType(10, 2)), "postgres").name
    'numeric(10,2)'
    >>> sql_type(Field("emitted_at", TimestampType()), "sqlite").name
    'TEXT'
    """
    pair = _TYPES.get(field.kind)
    if pair is None:
        raise PlanError(
            f"sinks.table(): the column {field.name!r} is {field.dtype.simpleString()}, which has no type "
            "in SQL here. Cast it to another type, or leave it out with columns=[…]."
        )
    sql = pair.postgres if dialect == "postgres" else pair.sqlite
    if field.kind == "decimal":
        dtype = cast("DecimalType", field.dtype)
        return sql._replace(name=sql.name.format(precision=dtype.precision, scale=dtype.scale))
    return sql


@dataclass(frozen=True)
class TableLayout:
    """The columns of a table. With an identity, a row replaces that of the same identity; without one it is appended.

    If an identity has several rows (``many``), they are replaced together (``"all"``), or each is inserted and
    retracted separately (``"each"``).
    """

    fields: tuple[Field, ...]
    identity: tuple[str, ...] = ()
    order: tuple[Field, ...] = ()  # columns that order the rows of a batch, if the table does not have them
    many: Literal["all", "each"] | None = None

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [field.name for field in self.fields]

    @property
    def values(self) -> list[str]:
        """The columns that a row of the same identity replaces."""
        return [name for name in self.columns if name not in self.identity]

    @property
    def content(self) -> list[str]:
        """The columns that identify a row in its retraction: all but those about the pane itself."""
        return [name for name in self.columns if name not in PANE]

    @property
    def read(self) -> tuple[Field, ...]:
        """The columns that are read from a batch."""
        return (*self.fields, *self.order)


def table_layout(schema: StructType, info: OutputInfo, columns: Sequence[str] | None = None) -> TableLayout:
    """Return the layout of an output's table, with all columns or with the chosen ones."""
    windowed = info.output == "panes" and info.row_grain != "rows"
    fields = flat_fields(schema)
    identity: tuple[str, ...] = ()
    order: list[Field] = []
    if info.output == "panes" and not windowed:
        # The diff of a join is always 1. A processor may have another column with that name.
        fields = [field for field in fields if (field.name, field.kind) != (DIFF, "byte")]
    if windowed:
        # The window is first: batches follow time, so the rows of a batch are close together in the index.
        identity = (*WINDOW, *info.key, *([PANE_INDEX] if info.mode == "discarding" else []))
        order = [field for field in fields if field.name in (PANE_INDEX, DIFF)]
        fields = [field for field in fields if field.name != DIFF and (field.name not in PANE or field.name in _STORED)]
    if columns is not None:
        fields = _chosen(fields, identity, column_names(columns) or ())
    _check_names(fields)
    names = {field.name for field in fields}
    many: Literal["all", "each"] | None = None
    if windowed and info.row_grain == "pairs":
        identity = () if info.mode == "discarding" else identity  # without retractions, rows are appended
        many = _MANY.get(info.mode)
    return TableLayout(tuple(fields), identity, tuple(field for field in order if field.name not in names), many)


def column_names(columns: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the value of ``columns=``. Reject one that is not a list of names."""
    if columns is None:
        return None
    if isinstance(columns, str) or not all(isinstance(name, str) for name in columns):
        raise PlanError(
            f"sinks.table(columns={shown(columns)}): use a list of names, such as columns=['n', 'pane_at']."
        )
    return tuple(columns)


def _chosen(fields: Sequence[Field], identity: Sequence[str], columns: Sequence[str]) -> list[Field]:
    names = [field.name for field in fields]
    unknown = next((name for name in columns if name not in names), None)
    if unknown is not None:
        raise PlanError(f"sinks.table(columns=…): there is no column {unknown!r}. {did_you_mean(unknown, names)}")
    chosen = [field for field in fields if field.name in columns or field.name in identity]
    if not chosen:
        raise PlanError("sinks.table(columns=[]): the table would have no columns. Name some, or leave out columns=.")
    return chosen


def _check_names(fields: Sequence[Field]) -> None:
    seen: set[str] = set()
    for field in fields:
        if field.name.lower() in seen:  # SQLite and Spark ignore case
            raise PlanError(
                f"sinks.table(): two columns would be called {field.name!r} (capital or not). Rename the "
                "key or the result, or choose the columns with columns=[…]."
            )
        seen.add(field.name.lower())


def quoted(name: str) -> str:
    """Return a quoted name.

    >>> print(quoted('the "best" of'))
    "the ""best"" of"
    """
    return '"' + name.replace('"', '""') + '"'


def column_list(names: Iterable[str]) -> str:
    """Return quoted names, separated by commas."""
    return ", ".join(map(quoted, names))


def name_parts(table: str, dialect: Dialect) -> list[str]:
    """Return the parts of a table's name, which in PostgreSQL may begin with a schema.

    >>> name_parts("sales.panes", "postgres"), name_parts("sales.panes", "sqlite")
    (['sales', 'panes'], ['sales.panes'])
    """
    return table.split(".", 1) if dialect == "postgres" else [table]


def qualified(table: str, dialect: Dialect) -> str:
    """Return the quoted name of a table, with its schema if it has one."""
    return ".".join(map(quoted, name_parts(table, dialect)))


def index_name(table: str, dialect: Dialect) -> str:
    """Return the name of the index over key and window."""
    return f"{name_parts(table, dialect)[-1]}_identity"


def row_id(columns: Iterable[str]) -> str | None:
    """Return a name of SQLite's row number that no column has, or None.

    >>> row_id(["n", "RowId"]), row_id(["oid", "rowid", "_rowid_"])
    ('_rowid_', None)
    """
    taken = {name.lower() for name in columns}
    return next((name for name in ROW_IDS if name not in taken), None)


@dataclass(frozen=True)
class Statements:
    """The statements for one table."""

    table: str
    layout: TableLayout
    dialect: Dialect

    @property
    def target(self) -> str:
        """The quoted name of the table."""
        return qualified(self.table, self.dialect)

    @property
    def types(self) -> dict[str, str]:
        """The columns and their types."""
        return {field.name: sql_type(field, self.dialect).name for field in self.layout.fields}

    @property
    def row_address(self) -> str:
        """The database's name of a row's address, which no column has."""
        return "ctid" if self.dialect == "postgres" else row_id(self.layout.columns) or ROW_IDS[0]

    @property
    def create(self) -> list[str]:
        """The statements that create the table."""
        columns = ", ".join(f"{quoted(name)} {dtype}" for name, dtype in self.types.items())
        table = f"CREATE TABLE {self.target} ({columns})"
        return [table, self.index] if self.layout.identity else [table]

    @property
    def index(self) -> str:
        """The statement that creates the index over key and window."""
        name = quoted(index_name(self.table, self.dialect))
        return f"CREATE {'' if self.layout.many else 'UNIQUE '}INDEX {name} ON {self.target} ({self._terms()})"

    @property
    def upsert(self) -> str:
        """The statement that inserts or replaces current rows."""
        columns = column_list(self.layout.columns)
        updates = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in self.layout.values)
        action = f"UPDATE SET {updates}" if updates else "NOTHING"
        # Without WHERE, SQLite takes ON for a part of a join. A column may be called "true", so it is not WHERE true.
        return (
            f"INSERT INTO {self.target} AS t ({columns}) SELECT {columns} FROM {CURRENT} WHERE 1 = 1 "
            f"ON CONFLICT ({self._terms()}) DO {action}"
        )

    @property
    def delete(self) -> str:
        """The statement that deletes removed rows."""
        same = " AND ".join(f"{a} = {b}" for a, b in zip(self.terms("t."), self.terms("removed."), strict=True))
        if self.dialect == "postgres":
            return f"DELETE FROM {self.target} AS t USING {REMOVED} AS removed WHERE {same}"
        # SQLite evaluates a cross join from left to right, so it looks up the rows through the index.
        addresses = f"SELECT t.{self.row_address} FROM {REMOVED} AS removed CROSS JOIN {self.target} AS t ON {same}"
        return f"DELETE FROM {self.target} WHERE {self.row_address} IN ({addresses})"

    @property
    def delete_copies(self) -> str:
        """The statement that deletes as many equal rows as were retracted."""
        terms = zip(self.terms("t."), self.terms("removed."), strict=True)
        equal = "IS NOT DISTINCT FROM" if self.dialect == "postgres" else "IS"
        conditions = [f"{a} = {b}" for a, b in terms]  # through the index
        conditions += [f"t.{quoted(name)} {equal} removed.{quoted(name)}" for name in self.layout.content]
        nth = f"row_number() OVER (PARTITION BY {', '.join(f'removed.{quoted(name)}' for name in self.layout.content)})"
        rows = (
            f"SELECT t.{self.row_address} AS address, removed.{COPIES} AS copies, {nth} AS nth "
            f"FROM {REMOVED} AS removed CROSS JOIN {self.target} AS t WHERE {' AND '.join(conditions)}"
        )
        addresses = f"SELECT address FROM ({rows}) AS candidates WHERE nth <= copies"
        return f"DELETE FROM {self.target} WHERE {self.row_address} IN ({addresses})"

    def stage(self, table: str, columns: Iterable[str]) -> str:
        """Return the statement that creates a temporary table with some columns of the table."""
        types = self.types | {COPIES: "bigint"}
        return f"CREATE TEMPORARY TABLE {table} ({', '.join(f'{quoted(name)} {types[name]}' for name in columns)})"

    def terms(self, prefix: str = "") -> list[str]:
        """Return the expressions that are equal in two rows of one identity.

        A null equals nothing in SQL. So it is replaced by a value of its type, and the last term says which are null.
        """
        fields = {field.name: field for field in self.layout.fields}
        names = [(f"{prefix}{quoted(name)}", sql_type(fields[name], self.dialect)) for name in self.layout.identity]
        nulls = (f"CASE WHEN {name} IS NULL THEN {1 << i} ELSE 0 END" for i, (name, _) in enumerate(names))
        return [*(f"coalesce({name}, {sql.zero})" for name, sql in names), f"({' + '.join(nulls)})"]

    def _terms(self) -> str:
        return ", ".join(self.terms())
