"""What writers say of time, and what is made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eventide.errors import marks as errors
from eventide.marks.segments import Position


class TimeWindow(NamedTuple):
    """Between which times a reader stands; None where nothing is known. Instants are microseconds.

    >>> window = TimeWindow(lower=1_000, upper=None)
    >>> window.lower, window == (1_000, None)
    (1000, True)
    """

    lower: int | None
    """All writers have written everything before it, and all of that has been read."""
    upper: int | None
    """No writer had noted a later time when what is being read was written."""


@dataclass(frozen=True, slots=True)
class Note:
    """What one writer last said: everything of mine before ``time`` is written, and lies before ``position``."""

    writer: str
    time: int
    position: Position
    at: int
    """When it was said, on the clock of the store."""
    closed: bool = False
    """The writer is done and will write nothing more."""
    written: Position = field(default_factory=dict, compare=False)
    """Where its events end now, as far as the store knows: of what lies beyond ``position`` it has said nothing yet."""


@dataclass(frozen=True, slots=True)
class NoteColumns:
    """The notes of a stream as columns, for merging those of many writers at many segments.

    >>> found = NoteColumns.of([Note("till", 5, {0: 7, 1: 2}, at=9), Note("web", 6, {1: 4}, at=9)])
    >>> found.times.tolist(), found.who.tolist(), found.segment.tolist(), found.offset.tolist()
    ([5, 6], [0, 0, 1], [0, 1, 1], [7, 2, 4])
    """

    writers: Sequence[str]
    times: npt.NDArray[np.int64]
    at: npt.NDArray[np.int64]
    closed: npt.NDArray[np.bool_]
    who: npt.NDArray[np.int64]
    """Whose place (as an index into ``writers``) the rows of ``segment`` and ``offset`` are."""
    segment: npt.NDArray[np.int64]
    offset: npt.NDArray[np.int64]
    said: npt.NDArray[np.bool_]
    """Whether such a row is of ``Note.position``, and not of ``Note.written``."""

    @classmethod
    def of(cls, notes: Sequence[Note]) -> NoteColumns:
        """The same as columns."""
        said = [(who, *place, 1) for who, note in enumerate(notes) for place in note.position.items()]
        written = [(who, *place, 0) for who, note in enumerate(notes) for place in note.written.items()]
        who, segment, offset, of = np.array(said + written, dtype=np.int64).reshape(-1, 4).T
        return cls(
            [note.writer for note in notes],
            np.array([note.time for note in notes], dtype=np.int64),
            np.array([note.at for note in notes], dtype=np.int64),
            np.array([note.closed for note in notes], dtype=np.bool_),
            who,
            segment,
            offset,
            of.astype(np.bool_),
        )


@dataclass(frozen=True, slots=True)
class Mark:
    """What all writers said together: everything before ``lower`` lies before ``cut``.

    No writer had noted a time later than ``upper``. Neither times nor cuts of a stream's marks ever go back.
    """

    number: int  # from 1, without gaps; the first ones go when their stream is truncated
    lower: int
    upper: int
    cut: Position
    at: int
    """When it was made, on the clock of the store."""

    def __post_init__(self) -> None:
        if self.upper < self.lower:
            raise errors.bounds_crossed(self.number, self.lower, self.upper)
