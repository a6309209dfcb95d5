"""What a picture shows: plain data, all instants in microseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Fate = Literal["window", "late", "dead"]
Timing = Literal["EARLY", "ON_TIME", "LATE"]


@dataclass(frozen=True)
class Event:
    """A row with event time ``time`` that arrived at processing time ``at``."""

    time: int
    at: int
    label: str
    fate: Fate = "window"


@dataclass(frozen=True)
class Pane:
    """What was emitted at processing time ``at`` for a window, or taken back (``diff=-1``)."""

    key: str
    start: int
    end: int
    at: int
    label: str
    timing: Timing
    diff: int = 1


@dataclass(frozen=True)
class Timeline:
    """Everything that happened; ``watermarks`` are ``(at, time)`` and stand until the next."""

    events: Sequence[Event] = ()
    watermarks: Sequence[tuple[int, int]] = ()
    panes: Sequence[Pane] = ()


@dataclass(frozen=True)
class Facet:
    """One of several pictures on a page, with a sentence that says what to see."""

    title: str
    timeline: Timeline
    text: str = ""
