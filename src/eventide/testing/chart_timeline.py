"""What a chart shows: rows, watermarks and panes as plain data, and the axes that map instants to pixels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from eventide.panes import DIFF, PANE_TIMING, WINDOW, WINDOW_END, WINDOW_START
from eventide.plan.plan import IngestionTime
from eventide.plan.window_plan import WindowPlan
from eventide.testing.expectations import Row, Shape
from eventide.time import MAX, MIN, format_instant, time_column

Fate = Literal["window", "late", "dead"]
Timing = Literal["EARLY", "ON_TIME", "LATE"]


@dataclass(frozen=True)
class Event:
    """A row with event time ``time`` that arrived at processing time ``at``. A row without a time has ``MIN``.

    ``rows``: how many rows the mark stands for.
    """

    time: int
    at: int
    label: str
    fate: Fate = "window"
    rows: int = 1


@dataclass(frozen=True)
class Density:
    """How many rows arrived until ``at``, in equal bins of event time between ``low`` and ``high``."""

    at: int
    low: int
    high: int
    rows: Sequence[int]


@dataclass(frozen=True)
class Pane:
    """What was emitted at processing time ``at`` for a window, or retracted (``diff=-1``)."""

    key: str
    start: int
    end: int
    at: int
    label: str
    timing: Timing
    diff: int = 1


@dataclass(frozen=True)
class Remark:
    """A sentence about processing time ``at``, or about the span from ``at`` to ``until``."""

    at: int
    text: str
    until: int | None = None


@dataclass(frozen=True)
class Timeline:
    """Everything that happened. ``watermarks`` are ``(at, time)`` and hold until the next."""

    events: Sequence[Event] = ()
    watermarks: Sequence[tuple[int, int]] = ()
    panes: Sequence[Pane] = ()
    notes: Sequence[Remark] = ()
    densities: Sequence[Density] = ()


@dataclass(frozen=True)
class Facet:
    """One of several charts on a page, with a sentence that explains it."""

    title: str
    timeline: Timeline
    text: str = ""


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

    def position(self, us: int) -> float:
        """Return the pixel of an instant. Instants outside of the axis are drawn at its edge."""
        share = (min(max(us, self.low), self.high) - self.low) / (self.high - self.low)
        return round(self.first + share * (self.last - self.first), 1)

    @property
    def ticks(self) -> range:
        """The instants of the labels."""
        return range(-(-self.low // self.step) * self.step, self.high + 1, self.step)

    def label(self, us: int) -> str:
        """Return a label as short as the step allows.

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


def event_axis(timelines: Sequence[Timeline], first: float, last: float) -> Axis:
    """Return the axis of event time, wide enough for every row and window."""
    instants: list[int] = []
    aside: list[int] = []
    marks: list[int] = []
    for timeline in timelines:
        instants += [event.time for event in timeline.events if event.fate == "window"]
        aside += [event.time for event in timeline.events if event.fate != "window"]
        instants += [bound for pane in timeline.panes for bound in (pane.start, pane.end)]
        instants += [bound for density in timeline.densities for bound in (density.low, density.high)]
        marks += [time for _, time in timeline.watermarks]
    # What is far from all data is drawn at the edge, so that it does not compress the rest. Tests have no such rows.
    known = _finite(instants) or _finite(aside) or _finite(marks)
    low, high = min(known, default=0), max(known, default=0)
    room = (high - low) / 2 if any(timeline.densities for timeline in timelines) else MAX
    return _axis(
        [*known, *(time for time in _finite(aside) if low - room <= time <= high + room)], first, last, pad=0.0
    )


def processing_axis(timelines: Iterable[Timeline], first: float, last: float) -> Axis:
    """Return the axis of processing time, wide enough for every arrival, watermark and emission."""
    instants: list[int] = []
    for timeline in timelines:
        instants += [event.at for event in timeline.events]
        instants += [at for at, _ in timeline.watermarks]
        instants += [pane.at for pane in timeline.panes]
        instants += [density.at for density in timeline.densities]
    return _axis(_finite(instants), first, last, pad=0.08)


def _finite(instants: list[int]) -> list[int]:
    return [us for us in instants if MIN < us < MAX]


def _axis(instants: list[int], first: float, last: float, *, pad: float) -> Axis:
    low, high = min(instants, default=0), max(instants, default=0)
    room = max(1, int((high - low) * pad))
    step = next((step for step in _STEPS if (high - low) / step <= 7), _STEPS[-1])
    if pad:
        return Axis(low - room, high + room, step, first, last)
    return Axis(low // step * step, max(-(-high // step), low // step + 1) * step, step, first, last)


def events(
    plan: WindowPlan, bundle: pl.DataFrame, shape: Shape, rows: Sequence[Row], now: int, removed: dict[Fate, list[Row]]
) -> list[Event]:
    """Return the rows of a bundle with their fates. A row without a time is not drawn."""
    if isinstance(plan.time, IngestionTime) or plan.time not in bundle.columns:
        times: list[int | None] = [now] * bundle.height
    else:
        times = time_column(bundle, plan.time, getattr(plan.time, "unit", None))[0].to_list()
    fates = {fate: Counter(_identity(row, bundle.columns) for row in fate_rows) for fate, fate_rows in removed.items()}
    drawn = []
    for row, time in zip(rows, times, strict=True):
        fate = _fate(_identity(row, bundle.columns), fates)
        if time is not None:
            drawn.append(Event(time, now, _label(plan, shape, row), fate))
    return drawn


def panes(shape: Shape, rows: Iterable[Row], now: int) -> list[Pane]:
    """Return the panes of a chart."""
    drawn = []
    for row in rows:
        start, end = row[WINDOW_START], row[WINDOW_END]
        values = [(name, shape.text(name, row[name])) for name in shape.values]
        label = values[0][1] if len(values) == 1 else " ".join(f"{name}={text}" for name, text in values)
        key = " ".join(shape.text(name, row[name]) for name in shape.key)
        low, high = MIN if start is None else start, MAX if end is None else end
        drawn.append(Pane(key, low, high, now, label, row[PANE_TIMING], row[DIFF]))
    return drawn


def _fate(identity: str, fates: dict[Fate, Counter[str]]) -> Fate:
    for fate, rows in fates.items():
        if rows[identity] > 0:
            rows[identity] -= 1
            return fate
    return "window"


def _identity(row: Row, columns: Sequence[str]) -> str:
    return repr([row.get(name) for name in columns])


def _label(plan: WindowPlan, shape: Shape, row: Row) -> str:
    """A row's own values; its key, where it has none."""
    aside = {*plan.key, *plan.watermark.columns(), *WINDOW, DIFF, plan.time if isinstance(plan.time, str) else ""}
    names = [name for name in shape.values if name not in aside] or list(plan.key)
    return " ".join(shape.text(name, row[name]) for name in names) or "·"
