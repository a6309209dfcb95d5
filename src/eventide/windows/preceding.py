"""How far a join looks back: not a window of its own, but the part of a stream that precedes a row of another."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from eventide.time import duration, format_duration


@dataclass(frozen=True)
class Preceding:
    """The rows of the last ``length`` microseconds."""

    length: int

    def describe(self) -> str:
        """One line for ``explain()``."""
        return f"the last {format_duration(self.length)}"


def range(length: str | timedelta) -> Preceding:
    """For ``ev.join(…, over=…)``: the rows of the other stream that are at most so much older.

    >>> range("2 minutes").describe()
    'the last 2m'
    """
    return Preceding(duration(length, what="range", zero=True))
