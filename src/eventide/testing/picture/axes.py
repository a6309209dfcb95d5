"""From instants to places in the drawing, and the ticks between."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from eventide.testing.picture.timeline import Timeline
from eventide.time import MAX, MIN, format_instant

_SECOND = 1_000_000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_STEPS = (
    *(digit * 10**power for power in range(6) for digit in (1, 2, 5)),
    *(count * _SECOND for count in (1, 2, 5, 10, 15, 30)),
    *(count * _MINUTE for count in (1, 2, 5, 10, 15, 30)),
    *(count * _HOUR for count in (1, 2, 3, 6, 12)),
    *(digit * 10**power * _DAY for power in range(8) for digit in (1, 2, 5)),
)


@dataclass(frozen=True)
class Axis:
    """The instants from ``low`` to ``high``, drawn from pixel ``first`` to pixel ``last``."""

    low: int
    high: int
    step: int
    first: float
    last: float

    def place(self, us: int) -> float:
        """Where an instant is drawn; what lies outside is drawn at the edge."""
        share = (min(max(us, self.low), self.high) - self.low) / (self.high - self.low)
        return round(self.first + share * (self.last - self.first), 1)

    @property
    def ticks(self) -> range:
        """Where the axis is labelled."""
        return range(-(-self.low // self.step) * self.step, self.high + 1, self.step)

    def label(self, us: int) -> str:
        """A tick as short as the step allows.

        >>> Axis(0, 10**8, 10**7, 0, 100).label(30 * 10**6)
        '00:00:30'
        """
        date, _, clock = format_instant(us).rstrip("Z").partition("T")
        if self.step % _DAY == 0:
            return date
        return clock[:5] if self.step % _MINUTE == 0 else clock

    @property
    def date(self) -> str:
        """The date of the first tick, or nothing for instants counted from zero."""
        date = format_instant(self.ticks[0]).partition("T")[0]
        return "" if date == "1970-01-01" or self.step % _DAY == 0 else date


def event_axis(timelines: Iterable[Timeline], first: float, last: float) -> Axis:
    """The axis of event time, wide enough for every row and window."""
    shown: list[int] = []
    marks: list[int] = []
    for timeline in timelines:
        shown += [event.time for event in timeline.events]
        shown += [bound for pane in timeline.panes for bound in (pane.start, pane.end)]
        marks += [time for _, time in timeline.watermarks]
    # A watermark may lie far from all data; it is drawn at the edge and does not squeeze the rest.
    return _axis(_finite(shown) or _finite(marks), first, last, pad=0.0)


def processing_axis(timelines: Iterable[Timeline], first: float, last: float) -> Axis:
    """The axis of processing time, wide enough for every arrival, mark and emission."""
    shown: list[int] = []
    for timeline in timelines:
        shown += [event.at for event in timeline.events]
        shown += [at for at, _ in timeline.watermarks]
        shown += [pane.at for pane in timeline.panes]
    return _axis(_finite(shown), first, last, pad=0.08)


def _finite(instants: list[int]) -> list[int]:
    return [us for us in instants if MIN < us < MAX]


def _axis(instants: list[int], first: float, last: float, *, pad: float) -> Axis:
    low, high = min(instants, default=0), max(instants, default=0)
    room = max(1, int((high - low) * pad))
    step = next((step for step in _STEPS if (high - low) / step <= 7), _STEPS[-1])
    if pad:
        return Axis(low - room, high + room, step, first, last)
    return Axis(low // step * step, max(-(-high // step), low // step + 1) * step, step, first, last)
