"""Notes of writers, the marks that merge them, and the rules for a new note."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eventide.errors import PlanError
from eventide.marks.errors import position_beyond, unknown_segment
from eventide.marks.segments import Position, Segments
from eventide.time import FIRST, LAST, format_instant


class TimeWindow(NamedTuple):
    """The range of event time at a reader's position; None where it is unknown. Instants are microseconds.

    >>> window = TimeWindow(lower=1_000, upper=None)
    >>> window.lower, window == (1_000, None)
    (1000, True)
    """

    lower: int | None
    """All writers have written everything before it, and all of that has been read."""
    upper: int | None
    """No writer had noted a later time when the events at this position were written."""


@dataclass(frozen=True, slots=True)
class Note:
    """The last declaration of a writer: all of its events before ``time`` are stored before ``position``."""

    writer: str
    time: int
    position: Position
    at: int
    """When it was noted, on the clock of the store."""
    closed: bool = False
    """Whether the writer has been closed."""
    written: Position = field(default_factory=dict, compare=False)
    """The end of the writer's events in the store. Events beyond ``position`` are not covered by the note yet."""


@dataclass(frozen=True, slots=True)
class NoteColumns:
    """The notes of a stream in columns, to merge those of many writers at many segments.

    >>> notes = NoteColumns.from_notes([Note("till", 5, {0: 7, 1: 2}, at=9), Note("web", 6, {1: 4}, at=9)])
    >>> notes.times.tolist(), notes.writer.tolist(), notes.segment.tolist(), notes.offset.tolist()
    ([5, 6], [0, 0, 1], [0, 1, 1], [7, 2, 4])
    """

    writers: Sequence[str]
    times: npt.NDArray[np.int64]
    at: npt.NDArray[np.int64]
    closed: npt.NDArray[np.bool_]
    writer: npt.NDArray[np.int64]
    """The writer (an index into ``writers``) of each row of ``segment`` and ``offset``."""
    segment: npt.NDArray[np.int64]
    offset: npt.NDArray[np.int64]
    is_noted: npt.NDArray[np.bool_]
    """Whether the row is from ``Note.position``, as opposed to ``Note.written``."""

    @classmethod
    def from_notes(cls, notes: Sequence[Note]) -> NoteColumns:
        """Convert notes to columns."""
        noted = [(index, *item, 1) for index, note in enumerate(notes) for item in note.position.items()]
        written = [(index, *item, 0) for index, note in enumerate(notes) for item in note.written.items()]
        writer, segment, offset, is_noted = np.array(noted + written, dtype=np.int64).reshape(-1, 4).T
        return cls(
            [note.writer for note in notes],
            np.array([note.time for note in notes], dtype=np.int64),
            np.array([note.at for note in notes], dtype=np.int64),
            np.array([note.closed for note in notes], dtype=np.bool_),
            writer,
            segment,
            offset,
            is_noted.astype(np.bool_),
        )


@dataclass(frozen=True, slots=True)
class Mark:
    """The merged notes of all writers: every event before ``lower`` is stored before ``cut``.

    No writer had noted a time later than ``upper``. The times and cuts of a stream's marks never go back.

    >>> mark = Mark(number=1, lower=60_000_000, upper=90_000_000, cut={0: 12}, at=95_000_000)
    >>> mark.lower <= mark.upper, mark.cut
    (True, {0: 12})
    """

    number: int  # from 1, without gaps; truncation drops the first ones
    lower: int
    upper: int
    cut: Position
    at: int
    """When it was created, on the clock of the store."""

    def __post_init__(self) -> None:
        if self.upper < self.lower:
            raise PlanError(
                f"Mark {self.number} has the upper time {self.upper}, which is below its lower time {self.lower}. "
                "The upper time is the latest that a writer has noted, the lower time the earliest."
            )


def advance_note(
    stream: str, previous: Note | None, note: Note, segments: Segments, lengths: Position, written: Position
) -> Note:
    """Return the note to store after ``previous``. Neither its time nor its position may go back.

    Segments that ``note`` does not name keep their previous offset. ``written`` is where the writer's events end in the
    store: a writer that missed a response may know less, and its position is never before its events.
    """
    if not FIRST <= note.time <= LAST:
        raise PlanError(
            f"Writer {note.writer!r} noted {note.time} at stream {stream!r}, which is not an instant in microseconds "
            f"since 1970 ({FIRST} to {LAST}). To end event time, call stream.seal() or close the writer."
        )
    for number, offset in note.position.items():
        if number not in segments:
            raise unknown_segment(number, segments.open_numbers)
        if not 0 <= offset <= lengths[number]:
            raise position_beyond(stream, number, offset, lengths[number])
    position = _furthest(note.position, written)
    if previous is not None:
        if note.time < previous.time:
            raise PlanError(
                f"Writer {note.writer!r} has already noted {format_instant(previous.time)} at stream {stream!r}. "
                f"{format_instant(note.time)} is earlier, and noted time does not go back."
            )
        for number in note.position:
            if number in previous.position and position[number] < previous.position[number]:
                raise PlanError(
                    f"Writer {note.writer!r} has already reached offset {previous.position[number]} in segment "
                    f"{number} of stream {stream!r}. {note.position[number]} is earlier, and positions do not go back."
                )
        position = _furthest(previous.position, position)
    passed = segments.ancestors(position)  # everything in them is before the position
    remaining = {number: offset for number, offset in position.items() if number not in passed}
    return Note(note.writer, note.time, remaining, note.at, note.closed)


def _furthest(left: Position, right: Position) -> dict[int, int]:
    return {number: max(left.get(number, 0), right.get(number, 0)) for number in {**left, **right}}
