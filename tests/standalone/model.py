"""A short, slow, row-at-a-time model of a standalone operator over fixed windows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

MIN = -(2**63)


class Spec(NamedTuple):
    """What an operator is made of. A policy is "never", "each", or a number of microseconds."""

    size: int
    every: int
    axis: str = "time"
    joins: bool = False
    early: Any = "never"
    late: Any = "each"
    keep: int | None = None
    """For so long (so many rows) windows stay after their end."""
    full_rows: int | None = None
    """A window is full with so many messages."""
    full_time: int = 0
    """A window is full with a message that is so far past its end."""
    keep_time: int | None = None
    """On the row axis: full windows stay for so long after their latest message."""


@dataclass
class Window:
    start: int
    end: int
    rows: list[int] = field(default_factory=list)
    taking_part: list[int] = field(default_factory=list)  # of a join: those of which this is the first window
    news: list[int] = field(default_factory=list)
    late: bool = False
    due: int | None = None
    panes: int = 0
    latest: int = MIN


class Model:
    """Rows are (offset, time, value). Outputs are (now, start, timing, index, values of the window or of the news)."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.windows: dict[int, Window] = {}
        self.seen: set[int] = set()
        self.front = MIN
        self.floor = MIN
        self.newest = MIN
        self.dead: list[int] = []
        self.emitted: list[tuple[Any, ...]] = []

    def add(self, offset: int, time: int, value: int, now: int) -> None:
        if offset in self.seen:
            return
        self.seen.add(offset)
        spec, was = self.spec, self.front
        counted = 0 if was == MIN else was
        at = counted + 1 if spec.axis == "rows" else time
        # Windows start at the multiples of `every`; on the row axis at 1, and so on.
        origin = 1 if spec.axis == "rows" else 0
        newest = (at - origin) // spec.every * spec.every + origin
        starts = [s for s in range(newest, at - spec.size, -spec.every) if spec.axis == "time" or s > 0]
        starts = sorted(s for s in starts if s + spec.size > at)
        live = [s for s in starts if s + spec.size > self.floor]
        if not live:
            self.dead.append(offset)
        if starts and not live:
            return
        for start in live:
            window = self.windows.get(start)
            if window is None:
                end = start + spec.size
                window = self.windows[start] = Window(start, end, late=end <= was - spec.full_time)
            window.rows.append(value)
            window.latest = max(window.latest, time)
            if spec.joins and start != live[0]:  # it holds the message, which takes part in the first window only
                continue
            window.taking_part.append(value)
            window.news.append(value)
            policy = spec.late if window.late else spec.early
            if isinstance(policy, int) and window.due is None:
                window.due = now + policy
        self.front = max(self.front, at)
        self.newest = max(self.newest, time)
        self.look(now)

    def look(self, now: int) -> None:
        keep, by_rows = self.spec.keep, self.spec.axis == "rows"
        if keep is not None and self.front > MIN:
            self.floor = max(self.floor, self.front - keep + by_rows)
        ordered = sorted(self.windows.values(), key=lambda window: (window.end, window.start))
        for window in ordered if self.spec.keep_time is not None else []:
            if window.end > self.front or window.latest > self.newest - self.spec.keep_time:
                break
            self.floor = max(self.floor, window.end)
        for window in ordered:
            full, expired = window.end <= self.front - self.spec.full_time, window.end <= self.floor
            full = full or (self.spec.full_rows is not None and len(window.rows) >= self.spec.full_rows)
            policy = self.spec.late if window.late else self.spec.early
            ripe = policy == "each" or (window.due is not None and window.due <= now)
            first = full and not window.late
            if window.news and (ripe or first or expired):
                timing = "LATE" if window.late else "ON_TIME" if full else "EARLY"
                values = window.news if self.spec.joins else window.rows
                self.emitted.append((now, window.start, timing, window.panes, sorted(values)))
                window.news = []
                window.panes += 1
            if ripe or first:
                window.due = None
            window.late = window.late or full
            if expired:
                del self.windows[window.start]
