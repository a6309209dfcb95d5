"""Stretches of segments, as tables."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from eventide.errors import marks as errors
from eventide.marks.events import decode
from eventide.marks.streams import Stream

PLACE = (("_segment", pa.int64()), ("_offset", pa.int64()), ("_mark", pa.int64()))
"""The columns that a source adds to those of the events. ``_mark``: the last mark passed at the end of the batch."""


def pieces_of(stream: Stream, segment: int, start: int, end: int, *, rows: int) -> Iterator[tuple[int, pa.Table]]:
    """The events between two offsets, about ``rows`` at a time, and the offset of the first of them."""
    place = start
    while place < end:
        blobs = stream.store.read(stream.name, segment, place, rows=min(rows, end - place), until=end)
        if not blobs:
            raise errors.truncated(stream.name, segment, place, end)
        events = pa.concat_tables(decode(blob.body) for blob in blobs)
        first = blobs[0].offset
        events = events.slice(place - first, min(first + len(events), end) - place)
        yield place, events
        place += len(events)
