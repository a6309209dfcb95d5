"""``df.writeStream.format("eventide").start("sqlite:///shop.db#orders")``: rows as events of a stream, exactly once.

Tasks put their rows into transactions; the driver commits those of a batch in one step, under the batch's number. A
batch that Spark repeats after a failure therefore changes nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from eventide.errors import marks as errors
from eventide.errors.writers import mixed_numbering
from eventide.marks.events import POINT, encode, points, table_of
from eventide.marks.outgoing import AUTOMATIC
from eventide.marks.spark.reading import PLACE
from eventide.marks.streams import open_stream
from eventide.time import LAST

_TIMEOUT = 3_600_000_000  # of a task's transaction: what a task leaves behind that fails is gone after an hour
_OURS = {name for name, _ in PLACE}


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """What a task wrote: rows that nobody sees yet."""

    transaction: str | None
    noted: int | None


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
        return Staged(transaction, noted)

    def commit_under(self, messages: list[Any], sequence: int | None) -> None:
        """Make the rows of all tasks visible at once."""
        store = open_stream(self._address, token=self._token).store
        staged = [one for one in messages if isinstance(one, Staged)]
        ids = [one.transaction for one in staged if one.transaction is not None]
        noted = max((one.noted for one in staged if one.noted is not None), default=None)
        if sequence is not None and self._seat.sequence >= AUTOMATIC:
            raise mixed_numbering(self._seat.writer, own=False)  # every batch would be taken for a repetition
        store.commit_batch(self._seat, self._seat.sequence + 1 if sequence is None else sequence, ids, note=noted)

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
        super().__init__(address, schema, {"writer_id": "spark", **options})
        self._sequence = int(options["sequence"]) if "sequence" in options else None

    def commit(self, messages: list[Any]) -> None:
        """All rows at once."""
        self.commit_under(messages, self._sequence)

    def abort(self, messages: list[Any]) -> None:
        """None of them."""
        self.drop(messages)


class StreamWriter(Staging, DataSourceStreamArrowWriter):
    """``df.writeStream.format("eventide")``."""

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        """All rows of a batch at once, and once."""
        self.commit_under(messages, batchId + 1)

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        """None of them."""
        self.drop(messages)


def _writer_id(options: Mapping[str, str]) -> str:
    """Who writes: the same after a restart."""
    if "writer_id" in options:
        return options["writer_id"]
    if "checkpointLocation" in options:
        return f"spark-{hashlib.sha256(options['checkpointLocation'].encode()).hexdigest()[:16]}"
    raise errors.no_writer_id()
