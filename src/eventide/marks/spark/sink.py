"""``df.writeStream.format("eventide").start("sqlite:///shop.db#orders")``: rows as events of a stream, exactly once.

Tasks put their rows into transactions; the driver commits those of a batch in one step, under the batch's number. A
batch that Spark repeats after a failure therefore changes nothing. Numbers of batches belong to a query: beside the
stream stands where those of the last query begin, so that another one (a new checkpoint) does not seem to repeat it.
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

from eventide.errors import marks as errors
from eventide.marks.events import POINT, encode, points, table_of
from eventide.marks.spark.reading import PLACE
from eventide.marks.stores.store import Store
from eventide.marks.streams import open_stream
from eventide.spark.addresses import on_disk
from eventide.time import LAST

_TIMEOUT = 6 * 3_600_000_000  # of a task's transaction: what a task leaves behind that fails is gone then
_PAST = 100  # queries that are remembered after others have taken their place
_QUERY = "sql.streaming.queryId"  # as Spark tells it to its tasks
_OURS = {name for name, _ in PLACE}


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """What a task wrote: rows that nobody sees yet."""

    transaction: str | None
    noted: int | None
    query: str


class Staging:
    """Writes rows of tasks into transactions, and commits them together."""

    def __init__(self, address: str, schema: StructType, options: Mapping[str, str]) -> None:
        self._address, self._token = address, options.get("token")
        stream = open_stream(address, token=self._token)
        self._schema = stream.schema
        self._key, self._note = options.get("routing_key"), options.get("note")
        given = [name for name in schema.names if name not in _OURS]
        strange = sorted(set(given) - set(self._schema.names))
        if strange:
            raise errors.unknown_columns(strange, self._schema.names)
        for column in (self._key, self._note):
            if column is not None and column not in given:
                raise errors.unknown_columns([column], given)
        if self._note is not None:
            kind = schema[self._note].dataType.typeName()
            if kind not in ("timestamp", "timestamp_ntz", "long"):
                raise errors.no_time(self._note, kind)
        self._seat = stream.store.open_writer(stream.name, _writer_id(options), take_over=True)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """The rows of a task."""
        store = open_stream(self._address, token=self._token).store
        transaction, noted = None, None
        for number, batch in enumerate(iterator):
            rows = pa.Table.from_batches([batch])
            rows = rows.select([name for name in rows.column_names if name not in _OURS])
            if transaction is None:
                transaction = store.begin(self._seat, timeout=_TIMEOUT).id
            noted = max((time for time in (noted, self._noted(rows)) if time is not None), default=None)
            events = table_of(rows, self._schema).append_column(POINT, pa.array(self._points(rows)))
            store.add(self._seat, transaction, number, len(events), encode(events))
        context = TaskContext.get()
        return Staged(transaction, noted, (context and context.getLocalProperty(_QUERY)) or "")

    def commit_under(self, messages: list[Any], batch: int | None, query: str = "") -> None:
        """Make the rows of all tasks visible at once."""
        store = open_stream(self._address, token=self._token).store
        staged = [one for one in messages if isinstance(one, Staged)]
        if not staged:
            return
        ids = [one.transaction for one in staged if one.transaction is not None]
        noted = max((one.noted for one in staged if one.noted is not None), default=None)
        before = self._seat.sequence if batch is None else self._begun(store, query or staged[0].query)
        store.commit_batch(self._seat, before + 1 + (batch or 0), ids, note=noted)

    def _begun(self, store: Store, query: str) -> int:
        """The sequence before a query's first batch. It is kept beside the stream, and the same after a restart."""
        place = f"spark writer {self._seat.writer}"
        while True:
            version, state = store.group(self._seat.stream, place) or (0, b"{}")
            known = json.loads(state)
            if known.get("query") == query:
                return int(known["begun"])
            past = [*known.get("past", []), known.get("query")]
            if query in past:
                raise errors.replaced_query(self._seat.writer, self._seat.stream)
            fresh = {"query": query, "begun": self._seat.sequence, "past": past[-_PAST:]}
            if store.put_group(self._seat.stream, place, version, json.dumps(fresh).encode()):
                return self._seat.sequence

    def drop(self, messages: list[Any]) -> None:
        """Forget the rows of all tasks."""
        store = open_stream(self._address, token=self._token).store
        for one in messages:
            if isinstance(one, Staged) and one.transaction is not None:
                store.abort(self._seat, one.transaction)

    def _points(self, rows: pa.Table) -> Any:
        """Where the rows lie in the key space; without a key they are spread evenly."""
        if self._key is None:
            return np.arange(len(rows)) / max(len(rows), 1)
        return points(pl.Series(rows[self._key]))

    def _noted(self, rows: pa.Table) -> int | None:
        if self._note is None:
            return None
        latest = pc.max(rows[self._note])
        if pa.types.is_timestamp(latest.type):
            latest = latest.cast(pa.timestamp("us", latest.type.tz))
        time = latest.cast(pa.int64()).as_py()
        return None if time is None else min(time, LAST)


class BatchWriter(Staging, DataSourceArrowWriter):
    """``df.write.format("eventide")``."""

    def __init__(self, address: str, schema: StructType, options: Mapping[str, str]) -> None:
        super().__init__(address, schema, {"writer_id": f"writer-{uuid.uuid4().hex}", **options})
        self._once = "writer_id" not in options
        self._batch = int(options["batch"]) if "batch" in options else None
        self._query = options.get("query", "")

    def commit(self, messages: list[Any]) -> None:
        """All rows at once; with the options ``batch`` (a number) and ``query`` once, however often it is written."""
        self.commit_under(messages, self._batch, self._query)
        if self._once:
            open_stream(self._address, token=self._token).store.close_writer(self._seat)

    def abort(self, messages: list[Any]) -> None:
        """None of them."""
        self.drop(messages)


class StreamWriter(Staging, DataSourceStreamArrowWriter):
    """``df.writeStream.format("eventide")``."""

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        """All rows of a batch at once, and once."""
        self.commit_under(messages, batchId)

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        """None of them."""
        self.drop(messages)


def _writer_id(options: Mapping[str, str]) -> str:
    """Who writes: the same after a restart."""
    if "writer_id" in options:
        return options["writer_id"]
    if "checkpointLocation" in options:
        place = options["checkpointLocation"]
        place = str(Path(here).resolve()) if (here := on_disk(place)) else place.rstrip("/")
        return f"spark-{hashlib.sha256(place.encode()).hexdigest()[:16]}"
    raise errors.no_writer_id()
