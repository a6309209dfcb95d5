"""A stream whose events are read and stamped in the same worker: the fastest way from a stream into a pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from eventide.errors import spark as errors
from eventide.marks.spark.reading import PLACE, pieces_of
from eventide.marks.streams import open_stream
from eventide.spark.clock import batch_time
from eventide.spark.scan import Scan
from eventide.spark.stamping import NOW
from eventide.spark.types import as_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from eventide.spark.scan import Read


_ROWS = 1_000_000  # rows that are stamped together


@dataclass(frozen=True)
class Events(Scan):
    """The events of a stream."""

    address: str = field(repr=False)
    options: Mapping[str, str] = field(repr=False)

    def pieces(self) -> DataFrame:
        """A row for each stretch of a segment."""
        parts = self.spark.readStream.format("eventide").option("only", "parts").options(**self.options)
        return parts.load(self.address).withColumn(NOW, batch_time())

    def reading(self) -> Read:
        """Reads a stretch of a segment."""
        address, token = self.address, self.options.get("token")

        def read(piece: dict[str, Any], schema: Mapping[str, pl.DataType]) -> Iterator[pl.DataFrame]:
            stream = open_stream(address, token=token)
            own = [name for name in schema if name not in dict(PLACE)]
            for first, events in pieces_of(stream, piece["segment"], piece["start"], piece["end"], rows=_ROWS):
                yield _rows(events.select(own), piece["segment"], first, piece["mark"], schema)

        return read


def scan_stream(
    address: str,
    *,
    rows_per_batch: int | None = None,
    start: str = "earliest",
    token: str | None = None,
    spark: SparkSession | None = None,
) -> Events:
    """The events of a stream (``eventide.marks``) as the fastest source for a pipeline.

    In place of ``spark.readStream.format("eventide").load(address)``. ``rows_per_batch`` limits a micro-batch;
    ``start`` is where a new query begins: ``"earliest"``, ``"latest"``, or a cut as JSON.

    >>> import eventide as ev
    >>> ev.scan_stream("sqlite:///shop.db#orders").transform(revenue)  # doctest: +SKIP
    """
    from pyspark.sql import SparkSession

    active = spark or SparkSession.getActiveSession()
    if active is None:
        raise errors.no_session("scan_stream()")
    given = {"rows_per_batch": rows_per_batch, "token": token, "start": start}
    options = {name: str(value) for name, value in given.items() if value is not None}
    schema = active.readStream.format("eventide").options(**options).load(address).schema
    return Events(schema, active, address, options)


def _rows(events: pa.Table, segment: int, first: int, mark: int, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Events as rows, with those columns of their place that are asked for."""
    count = len(events)
    frame = pl.DataFrame(pl.from_arrow(events)) if events.num_columns else pl.DataFrame()
    place = {
        "_segment": pl.lit(segment, pl.Int64),
        "_offset": pl.int_range(first, first + count, dtype=pl.Int64),
        "_mark": pl.lit(mark, pl.Int64),
    }
    if not frame.width:
        frame = pl.select(place["_offset"].alias("_offset"))
    frame = frame.with_columns(**{name: one for name, one in place.items() if name in schema})
    return as_rows(frame.select(list(schema)), schema)
