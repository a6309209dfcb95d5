"""A stream of ``eventide.marks`` as a sink, so that pipelines chain through streams."""

from __future__ import annotations

import time as clock
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eventide.errors.addresses import without_password
from eventide.sinks.sink import About, Sink
from eventide.time import FIRST, LAST, MIN

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from eventide.sinks.batch import SinkBatch

_AGAIN = 10.0  # seconds after which the same promise is noted again: who says nothing is forgotten


def stream(
    address: str, *, routing_key: str | None = None, writer_id: str | None = None, token: str | None = None
) -> Sink:
    """Events of a stream, exactly once: a batch is one transaction under its number, so a replay changes nothing.

    After each batch the query's own promise is noted: no pane with an earlier time will come (for windows with lateness
    that is earlier by the lateness: late panes are counted in). So a query that reads
    the stream with ``ev.noted(address)`` knows when its windows are complete. A stream that does not exist is made,
    with the columns of the rows. ``routing_key`` is a column whose rows stay in order; ``writer_id`` is what the query
    is called at the stream (default: Spark's id of the query).

    >>> stream("sqlite:///shop.db#revenue", routing_key="shop")
    stream('sqlite:///shop.db#revenue', routing_key='shop')
    """
    return StreamSink(address, routing_key, writer_id, token)


@dataclass
class StreamSink:
    """A transaction per batch, and a note of the query's promise."""

    address: str
    routing_key: str | None
    writer_id: str | None
    token: str | None
    _noted: int = field(default=MIN, repr=False)
    _at: float = field(default=0.0, repr=False)

    def __repr__(self) -> str:
        key = "" if self.routing_key is None else f", routing_key={self.routing_key!r}"
        return f"stream({without_password(self.address)!r}{key})"

    def open(self, schema: StructType, about: About) -> None:
        """Make the stream if there is none; refuse one without columns that the rows have."""
        from pyspark.sql.pandas.types import to_arrow_schema

        from eventide.errors import marks as errors
        from eventide.marks.streams import create_stream, open_stream

        try:
            known = open_stream(self.address, token=self.token).schema.names
        except errors.UnknownStreamError:
            create_stream(self.address, schema=to_arrow_schema(schema, timezone="UTC"), token=self.token)
            return
        strange = [name for name in schema.names if name not in known]
        if strange:
            raise errors.unknown_columns(strange, known)

    def write(self, batch: SinkBatch, batch_id: int, about: About) -> None:
        """All rows at once, under the batch's number."""
        options: dict[str, Any] = {"writer_id": self._writer(about), "batch": batch_id, "query": about.query}
        given = {"routing_key": self.routing_key, "token": self.token}
        options |= {name: value for name, value in given.items() if value is not None}
        batch.dataframe.write.format("eventide").mode("append").options(**options).save(self.address)

    def advance(self, promise: int, about: About) -> None:
        """Note what the query promises of the panes to come."""
        from eventide.marks.streams import open_stream

        time, now = min(promise, LAST), clock.monotonic()
        if time < FIRST:
            return
        if time > self._noted or (time == self._noted > MIN and now > self._at + _AGAIN):
            stream = open_stream(self.address, token=self.token)
            seat = stream.store.open_writer(stream.name, self._writer(about), take_over=True)
            stream.store.note(seat, time, seat.position)
            self._noted, self._at = time, now

    def close(self) -> None:
        """Nothing to let go of."""

    def _writer(self, about: About) -> str:
        return self.writer_id or f"{about.query}-{about.output}"
