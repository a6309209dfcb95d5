"""Many notes become one mark. Pure: what is known goes in, what must be kept comes out.

A mark says "everything before ``lower`` lies before ``cut``", so its time is the least that a live writer noted, and
its cut is the first one that is not before anybody's position. Nothing of it ever goes back.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eventide.marks.mark import Mark, NoteColumns
from eventide.marks.segments import Position, Segments
from eventide.marks.stores.store import StreamInfo
from eventide.time import MAX

Bools = npt.NDArray[np.bool_]


class Merge(NamedTuple):
    """What comes of notes."""

    mark: Mark | None
    """The next mark; None if there is none to make now."""
    forget: list[tuple[str, int]]
    """The notes that are of no more use (writer and ``Note.at``)."""


def alive(notes: NoteColumns, timeout: int, now: int) -> Bools:
    """Which writers count: neither closed nor silent for ``timeout``."""
    return ~notes.closed & (now - notes.at < timeout)


def merged(info: StreamInfo, last: Mark | None, notes: NoteColumns, lengths: Position, now: int) -> Merge:
    """The mark that follows ``last``, and the notes that can be forgotten then.

    Notes must have been read before ``info``, and that before ``lengths``: else a writer could be in a segment, or at
    an offset, that is not known yet.

    >>> import pyarrow as pa
    >>> from eventide.marks.mark import Note
    >>> from eventide.marks.stores.store import Config
    >>> info = StreamInfo("orders", 0, Config(schema=pa.schema({}), segments=2), Segments.even(2))
    >>> notes = NoteColumns.of([Note("till", 7, {0: 3}, at=6_000_000), Note("web", 8, {0: 5}, at=6_000_000)])
    >>> merged(info, None, notes, {0: 9, 1: 9}, now=6_000_001).mark
    Mark(number=1, lower=7, upper=8, cut={0: 5, 1: 0}, at=6000001)
    """
    live = alive(notes, info.config.writer_timeout, now)
    if info.segments.has_ended:
        mark = _last_of_all(info.segments, last, lengths, now)
        return Merge(mark, _listed(notes, np.ones_like(live)))
    mark = _next(info, last, notes, live, lengths, now)
    return Merge(mark, _listed(notes, ~live & _covered(notes, _Places.of(notes, live), mark or last, info.segments)))


class _Places(NamedTuple):
    """Where writers stand. Those that nobody waits for say no more, so what they wrote since their note counts, too."""

    who: npt.NDArray[np.int64]
    segment: npt.NDArray[np.int64]
    offset: npt.NDArray[np.int64]

    @classmethod
    def of(cls, notes: NoteColumns, live: Bools) -> _Places:
        count = notes.said | ~live[notes.who]
        return cls(notes.who[count], notes.segment[count], notes.offset[count])


def _next(
    info: StreamInfo, last: Mark | None, notes: NoteColumns, live: Bools, lengths: Position, now: int
) -> Mark | None:
    lower = _lower(last, notes, live)
    # The writers of a new stream do not all come at once: its first mark waits for them. One that is from the future
    # was made before the clock was set back, and is not new.
    if lower is None or (last is None and 0 <= now - info.created < info.config.mark_every):
        return None
    upper = int(notes.times.max())
    if last is not None:
        upper = max(upper, last.upper)
    return Mark(_number(last), lower, upper, _cut(info.segments, last, _Places.of(notes, live), lengths), now)


def _lower(last: Mark | None, notes: NoteColumns, live: Bools) -> int | None:
    """The least time of the live; if there are none, the greatest of those that are done; None if not beyond the last.

    Who is done writes nothing more, so that no time of another one who is done can hold it back.
    """
    if live.any():
        lower = int(notes.times[live].min())
    elif notes.closed.any():
        lower = int(notes.times[notes.closed].max())
    else:
        return None
    return lower if last is None or lower > last.lower else None


def _cut(segments: Segments, last: Mark | None, places: _Places, lengths: Position) -> Position:
    """The first cut that is neither before the last one nor before any position, live or not."""
    reached = np.full(len(segments.all), -1, np.int64)
    np.maximum.at(reached, places.segment, places.offset)
    if last is not None:
        numbers = np.fromiter(last.cut, np.int64, len(last.cut))
        np.maximum.at(reached, numbers, np.fromiter(last.cut.values(), np.int64, len(last.cut)))
    named = np.flatnonzero(reached >= 0).tolist()
    return segments.least_cut({number: min(int(reached[number]), lengths[number]) for number in named})


def _covered(notes: NoteColumns, places: _Places, mark: Mark | None, segments: Segments) -> Bools:
    """Which notes a mark has in it, so that nothing is lost with them.

    Of who is done, the time must have been reached as well: it may be that of the last mark, when all are done.
    """
    if mark is None:
        return np.zeros(len(notes.writers), np.bool_)
    bound = np.full(len(segments.all), -1, np.int64)
    bound[list(segments.ancestors(mark.cut))] = MAX
    bound[list(mark.cut)] = list(mark.cut.values())
    beyond = places.who[places.offset > bound[places.segment]]
    found: Bools = notes.times <= np.where(notes.closed, mark.lower, mark.upper)
    found[beyond] = False
    return found


def _last_of_all(segments: Segments, last: Mark | None, lengths: Position, now: int) -> Mark | None:
    """Event time ends with its stream."""
    end = {one.number: lengths[one.number] for one in sorted(segments.open, key=lambda one: one.number)}
    if last is not None and last.lower == MAX and dict(last.cut) == end:
        return None
    return Mark(_number(last), MAX, MAX, end, now)


def _number(last: Mark | None) -> int:
    return 1 if last is None else last.number + 1


def _listed(notes: NoteColumns, which: Bools) -> list[tuple[str, int]]:
    return [(notes.writers[row], int(notes.at[row])) for row in np.flatnonzero(which).tolist()]
