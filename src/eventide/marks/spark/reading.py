"""What the sources share: stretches of segments as tables, and how far a stream goes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from eventide.errors import marks as errors
from eventide.marks.events import decode_all
from eventide.marks.segments import Position, Segments
from eventide.marks.streams import Stream

PLACE = (("_segment", pa.int64()), ("_offset", pa.int64()), ("_mark", pa.int64()))
"""The columns that a source adds to those of the events. ``_mark``: the last mark passed at the end of the batch."""


@dataclass(frozen=True)
class Part(InputPartition):
    """A stretch of one segment."""

    segment: int
    start: int
    end: int
    mark: int


def pieces_of(stream: Stream, segment: int, start: int, end: int, *, rows: int) -> Iterator[tuple[int, pa.Table]]:
    """The events between two offsets, about ``rows`` at a time, and the offset of the first of them."""
    place = start
    while place < end:
        blobs = stream.store.read(stream.name, segment, place, rows=min(rows, end - place), until=end)
        if not blobs:
            raise errors.truncated(stream.name, segment, place, end)
        events = decode_all([blob.body for blob in blobs])
        first = blobs[0].offset
        events = events.slice(place - first, min(first + len(events), end) - place)
        yield place, events
        place += len(events)


def there(stream: Stream) -> tuple[Segments, Position]:
    """Segments and their lengths. In this order: what is sealed does not grow any more."""
    segments = stream.segments
    return segments, stream.store.lengths(stream.name)


def leave_quietly() -> None:
    """End this process if Spark has hung up, which is how it ends a source: what follows would be a traceback."""
    if isinstance(sys.exc_info()[1], (EOFError, ConnectionError)):
        os._exit(0)
