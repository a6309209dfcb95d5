"""The sink ``format("eventide")``: rows as events of a stream, exactly once.

``df.writeStream.format("eventide").start("sqlite:///shop.db#orders")`` writes the rows of each task into a transaction.
The driver commits the transactions of a batch in one step, under the batch's number, so a repeated batch changes
nothing. Batch numbers belong to a query. The store keeps the sequence at which the current query began, so that the
batches of another query (a new checkpoint) are not taken for repeated ones.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from eventide._paths import on_disk
from eventide.errors import DataError, PlanError
from eventide.marks.errors import unknown_columns
from eventide.marks.events import POINT, encode, key_points, to_table
from eventide.marks.stores.store import Store
from eventide.marks.streams import open_stream
from eventide.spark.marks_batches import POSITION_COLUMNS
from eventide.time import LAST

_TIMEOUT = 6 * 3_600_000_000  # of a task's transaction, which is dropped if the task fails
_MAX_PAST_QUERIES = 100
_QUERY_PROPERTY = "sql.streaming.queryId"  # the local property of tasks with Spark's query id
_POSITION_NAMES = {name for name, _ in POSITION_COLUMNS}


@dataclass(frozen=True)
class StagedRows(WriterCommitMessage):
    """The transaction of a task, which is not visible yet."""

    transaction: str | None
    noted: int | None
    query: str


class TransactionalWriter:
    """Writes the rows of tasks into transactions, and commits them together."""

    def __init__(self, address: str, schema: StructType, options: Mapping[str, str]) -> None:
        self._address, self._token = address, options.get("token")
        stream = open_stream(address, token=self._token)
        self._schema = stream.schema
        self._key, self._note = options.get("routing_key"), options.get("note")
        columns = [name for name in schema.names if name not in _POSITION_NAMES]
        unknown = sorted(set(columns) - set(self._schema.names))
        if unknown:
            raise unknown_columns(unknown, self._schema.names)
        for column in (self._key, self._note):
            if column is not None and column not in columns:
                raise unknown_columns([column], columns)
        if self._note is not None:
            kind = schema[self._note].dataType.typeName()
            if kind not in ("timestamp", "timestamp_ntz", "long"):
                raise PlanError(f"option('note', {self._note!r}): it must be a timestamp or microseconds, not {kind}.")
        self._writer = stream.store.open_writer(stream.name, _writer_id(options), take_over=True)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
        """Write the rows of a task."""
        store = self._store()
        transaction, noted = None, None
        for number, batch in enumerate(iterator):
            rows = pa.Table.from_batches([batch])
            rows = rows.select([name for name in rows.column_names if name not in _POSITION_NAMES])
            if transaction is None:
                transaction = store.begin(self._writer, timeout=_TIMEOUT).id
            noted = max((time for time in (noted, self._latest_time(rows)) if time is not None), default=None)
            events = to_table(rows, self._schema).append_column(POINT, pa.array(self._points(rows)))
            store.add(self._writer, transaction, number, len(events), encode(events))
        context = TaskContext.get()
        return StagedRows(transaction, noted, (context and context.getLocalProperty(_QUERY_PROPERTY)) or "")

    def commit_batch(self, messages: list[Any], batch: int | None, query: str = "") -> None:
        """Make the rows of all tasks visible at once. A batch that is committed already changes nothing."""
        staged = [message for message in messages if isinstance(message, StagedRows)]
        if not staged:
            return
        store = self._store()
        transactions = [rows.transaction for rows in staged if rows.transaction is not None]
        noted = max((rows.noted for rows in staged if rows.noted is not None), default=None)
        before = self._writer.sequence if batch is None else self._first_sequence(store, query or staged[0].query)
        store.commit_batch(self._writer, before + 1 + (batch or 0), transactions, note=noted)

    def abort_batch(self, messages: list[Any]) -> None:
        """Drop the rows of all tasks."""
        store = self._store()
        for message in messages:
            if isinstance(message, StagedRows) and message.transaction is not None:
                store.abort(self._writer, message.transaction)

    def _first_sequence(self, store: Store, query: str) -> int:
        """Return the sequence before a query's first batch. The store keeps it, so a restart has the same."""
        group = f"spark writer {self._writer.writer}"
        while True:
            version, content = store.group(self._writer.stream, group) or (0, b"{}")
            stored = json.loads(content)
            if stored.get("query") == query:
                return int(stored["begun"])
            past = [*stored.get("past", []), stored.get("query")]
            if query in past:
                raise DataError(
                    f"Another query has written to stream {self._writer.stream!r} as {self._writer.writer!r} "
                    "since. Give each query its own writer_id."
                )
            updated = {"query": query, "begun": self._writer.sequence, "past": past[-_MAX_PAST_QUERIES:]}
            if store.put_group(self._writer.stream, group, version, json.dumps(updated).encode()):
                return self._writer.sequence

    def _store(self) -> Store:
        return open_stream(self._address, token=self._token).store

    def _points(self, rows: pa.Table) -> Any:
        """Return the points of rows in the key space; without a routing key they are spread evenly."""
        if self._key is None:
            return np.arange(len(rows)) / max(len(rows), 1)
        return key_points(pl.Series(rows[self._key]))

    def _latest_time(self, rows: pa.Table) -> int | None:
        if self._note is None:
            return None
        latest = pc.max(rows[self._note])
        if pa.types.is_timestamp(latest.type):
            latest = latest.cast(pa.timestamp("us", latest.type.tz))
        time = latest.cast(pa.int64()).as_py()
        return None if time is None else min(time, LAST)


class BatchWriter(TransactionalWriter, DataSourceArrowWriter):
    """``df.write.format("eventide")``."""

    def __init__(self, address: str, schema: StructType, options: Mapping[str, str]) -> None:
        super().__init__(address, schema, {"writer_id": f"writer-{uuid.uuid4().hex}", **options})
        self._is_temporary = "writer_id" not in options
        self._batch = int(options["batch"]) if "batch" in options else None
        self._query = options.get("query", "")

    def commit(self, messages: list[Any]) -> None:
        """Commit all rows. With the options ``batch`` (a number) and ``query``, a repeated write changes nothing."""
        self.commit_batch(messages, self._batch, self._query)
        if self._is_temporary:
            self._store().close_writer(self._writer)

    def abort(self, messages: list[Any]) -> None:
        """Drop all rows."""
        self.abort_batch(messages)


class StreamWriter(TransactionalWriter, DataSourceStreamArrowWriter):
    """``df.writeStream.format("eventide")``."""

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        """Commit all rows of a batch, exactly once."""
        self.commit_batch(messages, batchId)

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        """Drop all rows of a batch."""
        self.abort_batch(messages)


def _writer_id(options: Mapping[str, str]) -> str:
    """Return the writer's id, which is the same after a restart."""
    if "writer_id" in options:
        return options["writer_id"]
    if "checkpointLocation" in options:
        location = options["checkpointLocation"]
        location = str(Path(path).resolve()) if (path := on_disk(location)) else location.rstrip("/")
        return f"spark-{hashlib.sha256(location.encode()).hexdigest()[:16]}"
    raise PlanError("Writing to a stream needs a name that stays the same: option('writer_id', 'orders-job').")
