"""What the sources share: stretches of segments as tables, and how far a stream goes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from eventide.errors import marks as errors
from eventide.marks.segments import Position, Segments
from eventide.marks.stored_events import stored_events
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


class Places:
    """The columns of ``PLACE`` for a stretch of a segment. Those that are the same in each row are made once."""

    def __init__(self, segment: int, mark: int) -> None:
        self._numbers = [pa.scalar(number, pa.int64()) for number in (segment, mark)]
        self._same = [pa.repeat(number, 0) for number in self._numbers]

    def beside(self, events: pa.Table, first: int) -> pa.Table:
        """Events from an offset on, with these columns."""
        count = len(events)
        if len(self._same[0]) < count:
            self._same = [pa.repeat(number, count) for number in self._numbers]
        segment, mark = (values.slice(0, count) for values in self._same)
        offsets = pa.array(np.arange(first, first + count))
        for (name, _), values in zip(PLACE, (segment, offsets, mark), strict=True):
            events = events.append_column(name, values)
        return events


def pieces_of(stream: Stream, segment: int, start: int, end: int, *, rows: int) -> Iterator[tuple[int, pa.Table]]:
    """The events between two offsets, about ``rows`` at a time, and the offset of the first of them."""
    place = start
    while place < end:
        blobs = stream.store.read(stream.name, segment, place, rows=min(rows, end - place), until=end)
        if not blobs:
            raise errors.truncated(stream.name, segment, place, end)
        events = stored_events(stream.name, segment, blobs)
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
