"""What a writer may say of time after what it said before."""

from __future__ import annotations

from eventide.errors import marks as errors
from eventide.marks.mark import Note
from eventide.marks.segments import Position, Segments
from eventide.time import FIRST, LAST


def advanced(
    stream: str, before: Note | None, note: Note, segments: Segments, lengths: Position, written: Position
) -> Note:
    """The note that stands afterwards: neither its time nor its position may go back, nor be where nothing is.

    Segments that the writer had noted, and does not name any more, stay where they were. ``written`` is where its
    events end, as the store knows better than a writer that missed an answer: nobody stands before their own events.
    """
    if not FIRST <= note.time <= LAST:
        raise errors.time_beyond(stream, note.writer, note.time)
    for number, offset in note.position.items():
        if number not in segments:
            raise errors.unknown_segment(number, [one.number for one in segments.open])
        if not 0 <= offset <= lengths[number]:
            raise errors.position_beyond(stream, number, offset, lengths[number])
    position = _furthest(note.position, written)
    if before is not None:
        if note.time < before.time:
            raise errors.time_goes_back(stream, note.writer, before.time, note.time)
        for number in note.position:
            if number in before.position and position[number] < before.position[number]:
                was, said = before.position[number], note.position[number]
                raise errors.position_goes_back(stream, note.writer, number, was, said)
        position = _furthest(before.position, position)
    past = segments.ancestors(position)  # of which all is before the position anyway
    kept = {number: offset for number, offset in position.items() if number not in past}
    return Note(note.writer, note.time, kept, note.at, note.closed)


def _furthest(one: Position, other: Position) -> dict[int, int]:
    return {number: max(one.get(number, 0), other.get(number, 0)) for number in {**one, **other}}
