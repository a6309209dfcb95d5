"""Batches of a stream of ``eventide.marks``: how far a batch reads, and reading ranges of segments."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from eventide.marks.errors import truncated
from eventide.marks.events import decode_blobs
from eventide.marks.mark import Mark
from eventide.marks.segments import Position, Segments
from eventide.marks.streams import Stream

POSITION_COLUMNS = (("_segment", pa.int64()), ("_offset", pa.int64()), ("_mark", pa.int64()))
"""The columns that a source adds to those of the events. ``_mark`` is the last mark passed at the end of the batch."""


@dataclass(frozen=True)
class SegmentRange(InputPartition):
    """A range of offsets of one segment."""

    segment: int
    start: int
    end: int
    mark: int


class PositionColumns:
    """Appends ``POSITION_COLUMNS`` to the events of a range. Constant columns are created once."""

    def __init__(self, segment: int, mark: int) -> None:
        self._numbers = [pa.scalar(number, pa.int64()) for number in (segment, mark)]
        self._constants = [pa.repeat(number, 0) for number in self._numbers]

    def append_to(self, events: pa.Table, first: int) -> pa.Table:
        """Return events with these columns. ``first`` is the offset of the first event."""
        count = len(events)
        if len(self._constants[0]) < count:
            self._constants = [pa.repeat(number, count) for number in self._numbers]
        segment, mark = (values.slice(0, count) for values in self._constants)
        offsets = pa.array(np.arange(first, first + count))
        for (name, _), values in zip(POSITION_COLUMNS, (segment, offsets, mark), strict=True):
            events = events.append_column(name, values)
        return events


def read_range(stream: Stream, segment: int, start: int, end: int, *, rows: int) -> Iterator[tuple[int, pa.Table]]:
    """Yield the events between two offsets, about ``rows`` at a time, each with the offset of its first event."""
    offset = start
    while offset < end:
        blobs = stream.store.read(stream.name, segment, offset, rows=min(rows, end - offset), until=end)
        if not blobs:
            raise truncated(stream.name, segment, offset, end)
        events = decode_blobs(stream.name, segment, blobs)
        first = blobs[0].offset
        events = events.slice(offset - first, min(first + len(events), end) - offset)
        yield offset, events
        offset += len(events)


def stream_extent(stream: Stream) -> tuple[Segments, Position]:
    """Return the segments and their lengths. They are read in this order, because a sealed segment does not grow."""
    segments = stream.segments
    return segments, stream.store.lengths(stream.name)


def exit_if_disconnected() -> None:
    """Exit this process if Spark has closed the connection, which is how it ends a source. Avoids a traceback."""
    if isinstance(sys.exc_info()[1], (EOFError, ConnectionError)):
        os._exit(0)


def with_successors(position: Position, segments: Segments, lengths: Position) -> dict[int, int]:
    """Return a position in which segments that are read to their end are replaced by their successors.

    A successor follows only when all of its predecessors are read; finished ones wait for the others.

    >>> segments = Segments.even(2).scaled([0, 1], [(0.0, 1.0)])
    >>> with_successors({0: 5, 1: 3}, segments, {0: 5, 1: 4, 2: 9})
    {0: 5, 1: 3}
    >>> with_successors({0: 5, 1: 4}, segments, {0: 5, 1: 4, 2: 9})
    {2: 0}
    """
    offsets = dict(position)
    while True:
        done = {number for number, offset in offsets.items() if segments[number].sealed and offset >= lengths[number]}
        past = done | segments.ancestors(offsets)
        following = {after for number in done for after in segments.successors(number)} - set(offsets) - past
        ready = [number for number in following if past.issuperset(segments[number].predecessors)]
        if not ready:
            return _without_replaced(offsets, segments)
        offsets |= dict.fromkeys(ready, 0)


def _without_replaced(position: Position, segments: Segments) -> dict[int, int]:
    """Return a position without the segments whose successors are all in it."""
    seen = segments.ancestors(position) | set(position)
    replaced = {number for number in position if (after := segments.successors(number)) and seen.issuperset(after)}
    return {number: offset for number, offset in sorted(position.items()) if number not in replaced}


def advance_position(
    position: Position, segments: Segments, lengths: Position, *, rows: int | None = None
) -> dict[int, int]:
    """Return the position after reading at most ``rows`` rows in all, which segments share evenly.

    >>> advance_position({0: 5, 1: 0}, Segments.even(2), {0: 6, 1: 100}, rows=11)
    {0: 6, 1: 10}
    """
    offsets = with_successors(position, segments, lengths)
    unread = {number: lengths[number] - offset for number, offset in offsets.items() if lengths[number] > offset}
    if not unread:
        return dict(position)
    left = sum(unread.values()) if rows is None else min(rows, sum(unread.values()))
    # The first segment changes with every batch, so that a small limit does not always favour the same segments.
    turn = sum(offsets.values()) % len(unread)
    order = [*sorted(unread)[turn:], *sorted(unread)[:turn]]
    while left:
        share = max(1, left // len(order))
        for number in order:
            count = min(share, left, unread[number])
            offsets[number] += count
            unread[number] -= count
            left -= count
        order = [number for number in order if unread[number]]
    return offsets


def ranges_between(start: Position, end: Position) -> list[tuple[int, int, int]]:
    """Return the ranges between two positions: segment, first offset, and the offset after the last."""
    return [(number, start.get(number, 0), until) for number, until in end.items() if until > start.get(number, 0)]


def last_passed(marks: Iterable[Mark], position: Position, segments: Segments) -> int:
    """Return the number of the last mark whose cut a position has passed; 0 if there is none."""
    passed = 0
    for mark in marks:
        if not segments.is_at_most(mark.cut, position):
            break
        passed = mark.number
    return passed


def sample_numbers(after: int, last: int, limit: int) -> list[int]:
    """Return at most ``limit`` evenly chosen mark numbers up to ``last``. Skipped marks only make steps larger.

    >>> sample_numbers(0, 10, 3), sample_numbers(7, 10, 3)
    ([2, 6, 10], [8, 9, 10])
    """
    step = -(-(last - after) // limit)
    return list(range(last, after, -step))[::-1]
