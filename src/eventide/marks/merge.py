"""Merge the notes of all writers into the next mark. Pure functions without a store.

A mark states that every event before ``lower`` is stored before ``cut``. So ``lower`` is the least time that a live
writer noted, and ``cut`` is the first cut that is not before the position of any writer. Neither ever decreases.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from eventide.marks.mark import Mark, NoteColumns
from eventide.marks.segments import Position, Segments
from eventide.marks.stores.store import StreamInfo
from eventide.time import MAX

Bools: TypeAlias = npt.NDArray[np.bool_]


class MergeResult(NamedTuple):
    """The next mark, and the notes that it makes obsolete."""

    mark: Mark | None
    """None if no mark is due."""
    obsolete: list[tuple[str, int]]
    """Writer and ``Note.at`` of the notes to delete."""


def live_writers(notes: NoteColumns, timeout: int, now: int) -> Bools:
    """Which writers hold back the mark: neither closed nor silent for ``timeout``."""
    return ~notes.closed & (now - notes.at < timeout)


def merge_notes(info: StreamInfo, last: Mark | None, notes: NoteColumns, lengths: Position, now: int) -> MergeResult:
    """Return the mark that follows ``last``, and the notes that can then be deleted.

    Read the notes before ``info``, and ``info`` before ``lengths``. Otherwise a writer may be in an unknown segment or
    beyond a known end.

    >>> import pyarrow as pa
    >>> from eventide.marks.mark import Note
    >>> from eventide.marks.stores.store import Config
    >>> info = StreamInfo("orders", 0, Config(schema=pa.schema({}), segments=2), Segments.even(2))
    >>> notes = NoteColumns.from_notes([Note("till", 7, {0: 3}, at=6_000_000), Note("web", 8, {0: 5}, at=6_000_000)])
    >>> merge_notes(info, None, notes, {0: 9, 1: 9}, now=6_000_001).mark
    Mark(number=1, lower=7, upper=8, cut={0: 5, 1: 0}, at=6000001)
    """
    live = live_writers(notes, info.config.writer_timeout, now)
    if info.segments.has_ended:
        return MergeResult(_final_mark(info.segments, last, lengths, now), _note_keys(notes, np.ones_like(live)))
    positions = _Positions.of(notes, live)
    mark = _next_mark(info, last, notes, live, positions, lengths, now)
    return MergeResult(mark, _note_keys(notes, ~live & _is_covered(notes, positions, mark or last, info.segments)))


class _Positions(NamedTuple):
    """Where each writer is. Of writers that no mark waits for, events beyond their note count, too."""

    writer: npt.NDArray[np.int64]
    segment: npt.NDArray[np.int64]
    offset: npt.NDArray[np.int64]

    @classmethod
    def of(cls, notes: NoteColumns, live: Bools) -> _Positions:
        counted = notes.is_noted | ~live[notes.writer]
        return cls(notes.writer[counted], notes.segment[counted], notes.offset[counted])


def _next_mark(
    info: StreamInfo,
    last: Mark | None,
    notes: NoteColumns,
    live: Bools,
    positions: _Positions,
    lengths: Position,
    now: int,
) -> Mark | None:
    lower = _lower_time(last, notes, live)
    # The first mark waits for all writers of a new stream to arrive. A creation time in the future means that the
    # clock was set back, so the stream is not new.
    if lower is None or (last is None and 0 <= now - info.created < info.config.mark_every):
        return None
    upper = int(notes.times.max())
    if last is not None:
        upper = max(upper, last.upper)
    return Mark(_next_number(last), lower, upper, _least_cut(info.segments, last, positions, lengths), now)


def _lower_time(last: Mark | None, notes: NoteColumns, live: Bools) -> int | None:
    """The least time of live writers, or the greatest of closed ones. None if it does not advance the last mark.

    A closed writer writes nothing more, so it does not hold back other closed ones.
    """
    if live.any():
        lower = int(notes.times[live].min())
    elif notes.closed.any():
        lower = int(notes.times[notes.closed].max())
    else:
        return None
    return lower if last is None or lower > last.lower else None


def _least_cut(segments: Segments, last: Mark | None, positions: _Positions, lengths: Position) -> Position:
    """The first cut that is neither before the last one nor before any writer, live or not."""
    reached = np.full(len(segments.all), -1, np.int64)
    np.maximum.at(reached, positions.segment, positions.offset)
    if last is not None:
        numbers = np.fromiter(last.cut, np.int64, len(last.cut))
        np.maximum.at(reached, numbers, np.fromiter(last.cut.values(), np.int64, len(last.cut)))
    numbers_reached = np.flatnonzero(reached >= 0).tolist()
    return segments.least_cut({number: min(int(reached[number]), lengths[number]) for number in numbers_reached})


def _is_covered(notes: NoteColumns, positions: _Positions, mark: Mark | None, segments: Segments) -> Bools:
    """Which notes a mark covers, so that they can be deleted.

    For a closed writer the mark must also have reached its time, which is the time of the last mark once all writers
    are closed.
    """
    if mark is None:
        return np.zeros(len(notes.writers), np.bool_)
    bound = np.full(len(segments.all), -1, np.int64)
    bound[list(segments.ancestors(mark.cut))] = MAX
    bound[list(mark.cut)] = list(mark.cut.values())
    covered: Bools = notes.times <= np.where(notes.closed, mark.lower, mark.upper)
    covered[positions.writer[positions.offset > bound[positions.segment]]] = False
    return covered


def _final_mark(segments: Segments, last: Mark | None, lengths: Position, now: int) -> Mark | None:
    """The mark at the end of a sealed stream, which ends event time."""
    end = {number: lengths[number] for number in sorted(segments.open_numbers)}
    if last is not None and last.lower == MAX and dict(last.cut) == end:
        return None
    return Mark(_next_number(last), MAX, MAX, end, now)


def _next_number(last: Mark | None) -> int:
    return 1 if last is None else last.number + 1


def _note_keys(notes: NoteColumns, selected: Bools) -> list[tuple[str, int]]:
    return [(notes.writers[row], int(notes.at[row])) for row in np.flatnonzero(selected).tolist()]
