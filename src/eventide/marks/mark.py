"""What writers say of time, and what is made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from eventide.marks.segments import Position


class TimeWindow(NamedTuple):
    """Between which times a reader stands; None where nothing is known. Instants are microseconds."""

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


@dataclass(frozen=True, slots=True)
class Mark:
    """What all writers said together: everything before ``lower`` lies before ``cut``.

    No writer had noted a time later than ``upper``. Neither times nor cuts of a stream's marks ever go back.
    """

    number: int  # from 1, without gaps
    lower: int
    upper: int
    cut: Position
    at: int
    """When it was made, on the clock of the store."""
