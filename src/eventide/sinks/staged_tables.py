"""Batches that the executors write to PostgreSQL, and one transaction of the driver merges.

The driver creates an UNLOGGED table for the batch. Each attempt of a task copies the rows of its partition into it, in
one transaction and under an id of the attempt, and returns the id and the number of rows. Nothing else reaches the
driver. The driver merges the rows of the attempts whose result it received, so a task that was retried or speculated
does not double rows.

Exactly once: the merge is in the transaction that claims the batch (``table_merge``). A driver that dies before it
leaves a table that is never read. Each driver gives its tables unique names and, when the sink opens, drops those that
earlier drivers of the same query left, in each placement. A driver that was replaced and still runs does not drop those
of its successor: names begin with the epoch of their driver, and a driver drops tables up to its own epoch.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import polars as pl
import pyarrow as pa

from eventide.errors import DataError, first_line
from eventide.sinks.batch import flatten, in_utc
from eventide.sinks.staged_rows import definitions, merge_staged, reduce_parts, staged_types
from eventide.sinks.table_databases import Connection, Database
from eventide.sinks.table_merge import TableStore
from eventide.sinks.table_sql import ATTEMPT, ATTEMPTS, STAGED, Statements, column_list, name_parts, quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from eventide.sinks.batch import SinkBatch

_RESULT = "attempt long, rows long"
# An attempt that Spark has given up may still hold the table; the next batch tries again.
_SHORT_WAIT = "SET LOCAL lock_timeout = '5s'"
_MAY_CREATE = "SELECT has_schema_privilege(coalesce(?, current_schema()), 'CREATE')"
_TABLES = """
    SELECT nspname, relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE left(relname, ?) = ? AND nspname = coalesce(?, current_schema()) AND relpersistence = 'u'
"""


_NEW_EPOCH = "SELECT txid_current()"  # larger than that of every driver before


_TASKS = 16  # that connect before the first batch, so that several executors are asked


class WrittenPart(NamedTuple):
    """What a successful attempt of a task has written."""

    attempt: int
    rows: int


@dataclass
class PostgresStaging:
    """The staging tables of one output of a query."""

    database: Database
    store: TableStore
    sql: Statements
    _may_be_left: bool = field(default=True, repr=False)  # by an earlier driver, or by an attempt that holds a table
    _epoch: int | None = field(default=None, repr=False)  # of this driver, as soon as it has connected

    def put(self, batch: SinkBatch, query: str, batch_id: int) -> None:
        """Put a batch into the table, unless it is there already."""
        table = self._table(query, batch_id)
        types = {ATTEMPT: "bigint", **staged_types(self.sql)}
        create = f"CREATE UNLOGGED TABLE {table} ({definitions(types)})"
        self.store.on_connection(lambda connection: connection.run(create), batch_id)
        self._may_be_left = True
        try:
            self.merge(table, self.write(batch, table), query, batch_id)
        finally:
            with suppress(DataError):  # no connection: the next batch tries again
                self.clean(query, batch_id)

    def problem(self, spark: SparkSession) -> str | None:
        """Return why batches cannot be staged; None if they can."""
        schema = next(iter(self._schema), None)
        (creates,) = self.store.on_connection(lambda connection: connection.query(_MAY_CREATE, [schema])[0], 0)
        if not creates:
            return f"the user of {self.database.url} may not create tables in the schema of {self.sql.table!r}"
        reason = executor_problem(self.database, spark)
        return reason and f"the executors cannot connect to {self.database.url}: {reason}"

    def write(self, batch: SinkBatch, table: str) -> list[WrittenPart]:
        """Write a batch into its staging table, on the executors. Return the attempts that succeeded."""
        rows = flatten(batch.dataframe, self.sql.layout.read)
        results = rows.mapInArrow(partition_writer(self.database, self.sql, table), _RESULT).collect()
        return [WrittenPart(row["attempt"], row["rows"]) for row in results]

    def merge(self, table: str, parts: Sequence[WrittenPart], query: str, batch_id: int) -> None:
        """Change the table by the rows of some attempts, unless the batch is there already."""
        if parts:
            self.store.on_connection(
                lambda connection: self.store.change(
                    connection, query, batch_id, lambda: self._merge(connection, table, parts, batch_id)
                ),
                batch_id,
            )

    def clean(self, query: str, batch_id: int) -> None:
        """Drop the staging tables of this output, if any may be left."""
        if self._may_be_left:
            self._may_be_left = not self.store.on_connection(lambda connection: self._drop(connection, query), batch_id)

    def _merge(self, connection: Connection, table: str, parts: Sequence[WrittenPart], batch_id: int) -> None:
        connection.run(f"CREATE TEMPORARY TABLE {ATTEMPTS} ({ATTEMPT} bigint)")
        connection.load(ATTEMPTS, pl.DataFrame({ATTEMPT: [part.attempt for part in parts]}))
        connection.run(
            f"CREATE TEMPORARY VIEW {STAGED} AS SELECT {column_list(staged_types(self.sql))} FROM {table} "
            f"WHERE {ATTEMPT} IN (SELECT {ATTEMPT} FROM {ATTEMPTS})"
        )
        written = sum(part.rows for part in parts)
        staged = int(connection.query(f"SELECT count(*) FROM {STAGED}", [])[0][0])
        if staged != written:  # a server that crashes empties its UNLOGGED tables
            raise DataError(
                f"Batch {batch_id} was not written into {self.sql.table!r} of {self.database.url}: the server has "
                f"{staged:,} of {written:,} staged rows, because it restarted. The table is unchanged; a restart from "
                "the checkpoint writes the batch again."
            )
        merge_staged(connection, self.sql)
        connection.run(f"DROP VIEW {STAGED}")
        connection.run(f"DROP TABLE {ATTEMPTS}")

    def _drop(self, connection: Connection, query: str) -> bool:
        """Drop all staging tables of this output that no later driver has created. Return whether none is left."""
        prefix, epoch = self._prefix(query), self._own_epoch(connection)
        for schema, table in connection.query(_TABLES, [len(prefix), prefix, next(iter(self._schema), None)]):
            if int(table.removeprefix(prefix).partition("_")[0], 16) > epoch:
                continue
            try:
                with connection.transaction():
                    connection.run(_SHORT_WAIT)
                    connection.run(f"DROP TABLE IF EXISTS {quoted(schema)}.{quoted(table)}")
            except self.database.errors:
                if connection.lost:
                    raise
                return False
        return True

    def _table(self, query: str, batch_id: int) -> str:
        """Return the quoted name of a new staging table, in the schema of the table."""
        epoch = self.store.on_connection(self._own_epoch, batch_id)
        name = f"{self._prefix(query)}{epoch:x}_{batch_id}_{secrets.token_hex(2)}"
        return ".".join(map(quoted, [*self._schema, name]))

    def _own_epoch(self, connection: Connection) -> int:
        """Return the epoch of this driver: a number of the server that only increases."""
        if self._epoch is None:
            self._epoch = int(connection.query(_NEW_EPOCH, [])[0][0])
        return self._epoch

    @property
    def _schema(self) -> list[str]:
        """The schema that the name of the table begins with, if it does."""
        return name_parts(self.sql.table, "postgres")[:-1]

    def _prefix(self, query: str) -> str:
        digest = hashlib.sha256(f"{query}\0{self.sql.table}".encode()).hexdigest()
        return f"eventide_staging_{digest[:16]}_"


def partition_writer(
    database: Database, sql: Statements, table: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that writes a partition into a staging table, in a task.

    The function holds the password of the database. Spark sends it to the executors as bytes and shows its name only.
    """

    def write_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = (pl.DataFrame(in_utc(pa.Table.from_batches([batch]))) for batch in batches if batch.num_rows)
        written = write_parts(database, sql, table, parts)
        if written is not None:
            yield pa.RecordBatch.from_pydict({"attempt": [written.attempt], "rows": [written.rows]})

    return write_partition


def write_parts(database: Database, sql: Statements, table: str, parts: Iterator[pl.DataFrame]) -> WrittenPart | None:
    """Copy the rows of a partition in one transaction. Return None if there are none."""
    reduced = reduce_parts(parts, sql.layout)
    first = next(reduced, None)
    if first is None:
        return None
    attempt, rows = secrets.randbits(63), 0
    connection = database.connect()
    try:
        with connection.transaction():
            for part in chain([first], reduced):
                connection.load(table, part.select(pl.lit(attempt, pl.Int64).alias(ATTEMPT), pl.all()))
                rows += part.height
    finally:
        connection.close()
    return WrittenPart(attempt, rows)


def executor_problem(database: Database, spark: SparkSession) -> str | None:
    """Return why executors cannot connect to a database; None if they can. A worker that does not start cannot."""
    tasks = max(1, min(spark.sparkContext.defaultParallelism, _TASKS))
    try:
        answers = spark.range(0, tasks, 1, tasks).mapInArrow(connection_probe(database), "problem string").collect()
    except Exception as failure:  # of Spark, for any reason that keeps its workers from starting
        return f"their Python workers failed: {first_line(failure)}"
    return next((answer["problem"] for answer in answers if answer["problem"]), None)


def connection_probe(database: Database) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that connects to a database in a task, and yields what went wrong."""

    def probe_connection(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            try:
                database.connect().close()
                problem = ""
            except Exception as failure:  # of the driver of the database, or of its import
                problem = first_line(failure)
            yield pa.RecordBatch.from_pydict({"problem": [problem] * batch.num_rows})

    return probe_connection
