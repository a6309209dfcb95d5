"""``stream``: an output as events of a stream of ``eventide.marks``, so that pipelines can be chained through streams.

Exactly once: the rows of a batch are one transaction under the batch's number (``spark/marks_sink.py``).
"""

from __future__ import annotations

import time as clock
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eventide._databases import without_password
from eventide._hints import with_option_hints
from eventide.marks.errors import UnknownStreamError, unknown_columns
from eventide.sinks.sink import OutputInfo, Sink
from eventide.time import FIRST, LAST, MIN

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from eventide.sinks.batch import SinkBatch

_NOTE_INTERVAL = 10.0  # seconds after which an unchanged watermark is noted again, so that the writer does not expire


@with_option_hints
def stream(
    address: str, *, routing_key: str | None = None, writer_id: str | None = None, token: str | None = None
) -> Sink:
    """Events of a stream, exactly once: a batch is one transaction under its number, so a replay changes nothing.

    After each batch the output watermark of the query is noted: no pane with an earlier time follows. With allowed
    lateness it is earlier by the lateness, because of late panes. So a query that reads the stream with
    ``ev.noted(address)`` knows when its windows are complete. A stream that does not exist is created with the columns
    of the rows. ``routing_key`` is a column whose rows stay in order. ``writer_id`` names the query in the stream
    (default: Spark's query id).

    >>> stream("sqlite:///shop.db#revenue", routing_key="shop")
    stream('sqlite:///shop.db#revenue', routing_key='shop')
    """
    return StreamSink(address, routing_key, writer_id, token)


@dataclass
class StreamSink:
    """Writes a transaction per batch, and notes the output watermark of the query."""

    address: str
    routing_key: str | None
    writer_id: str | None
    token: str | None
    _noted: int = field(default=MIN, repr=False)
    _noted_at: float = field(default=0.0, repr=False)

    def __repr__(self) -> str:
        key = "" if self.routing_key is None else f", routing_key={self.routing_key!r}"
        return f"stream({without_password(self.address)!r}{key})"

    def open(self, schema: StructType, info: OutputInfo) -> None:
        """Create the stream if it does not exist; reject one that lacks columns of the rows."""
        from pyspark.sql.pandas.types import to_arrow_schema

        from eventide.marks.streams import create_stream, open_stream

        try:
            columns = open_stream(self.address, token=self.token).schema.names
        except UnknownStreamError:
            create_stream(self.address, schema=to_arrow_schema(schema, timezone="UTC"), token=self.token)
            return
        missing = [name for name in schema.names if name not in columns]
        if missing:
            raise unknown_columns(missing, columns)

    def write(self, batch: SinkBatch, batch_id: int, info: OutputInfo) -> None:
        """Write all rows in one transaction, under the batch's number."""
        options: dict[str, Any] = {"writer_id": self._writer(info), "batch": batch_id, "query": info.query}
        optional = {"routing_key": self.routing_key, "token": self.token}
        options |= {name: value for name, value in optional.items() if value is not None}
        batch.dataframe.write.format("eventide").mode("append").options(**options).save(self.address)

    def advance(self, output_watermark: int, info: OutputInfo) -> None:
        """Note the output watermark of the query."""
        from eventide.marks.streams import open_stream

        time, now = min(output_watermark, LAST), clock.monotonic()
        if time < FIRST:
            return
        if time > self._noted or (time == self._noted > MIN and now > self._noted_at + _NOTE_INTERVAL):
            stream = open_stream(self.address, token=self.token)
            writer = stream.store.open_writer(stream.name, self._writer(info), take_over=True)
            stream.store.note(writer, time, writer.position)
            self._noted, self._noted_at = time, now

    def close(self) -> None:
        """Do nothing."""

    def _writer(self, info: OutputInfo) -> str:
        return self.writer_id or f"{info.query}-{info.output}"
