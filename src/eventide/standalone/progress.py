"""How far a stream has come: the offsets taken in, the position reached, and what is out of retention."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from eventide.operators import columns as c
from eventide.standalone import columns as s
from eventide.standalone.offsets import Offsets
from eventide.standalone.retention import Retention
from eventide.time import MIN
from eventide.windows import Axis

_COUNTS = {s.SESSION: pl.String, s.FRONT: pl.Int64, s.FLOOR: pl.Int64}


@dataclass(frozen=True)
class Course:
    """What does not change: the axis, whether each key counts its own rows, and when a window counts as full."""

    axis: Axis
    per_key: bool
    retention: Retention
    knows_next: bool = False
    """A window is full as soon as the next message must lie beyond it, not only when one does."""


@dataclass(frozen=True)
class Progress:
    """A value: taking messages in gives a new one."""

    course: Course
    seen: Offsets = field(default_factory=Offsets)
    front: int = MIN
    """The greatest position of the stream."""
    counts: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=_COUNTS))
    """The greatest position of each key, and what is too old of it, where keys count by themselves."""
    floor: int = MIN
    newest: int = MIN
    """The greatest event time of the stream."""

    def numbered(self, messages: pl.DataFrame) -> pl.DataFrame:
        """Messages with their position: their time, or their number in the order of arrival, from 1."""
        if self.course.axis == "time":
            return messages.with_columns(pl.col(c.TIME).alias(c.AT))
        if not self.course.per_key:
            first = max(self.front, 0) + 1
            return messages.with_columns(pl.int_range(first, first + messages.height, dtype=pl.Int64).alias(c.AT))
        number = pl.int_range(1, pl.len() + 1).over(s.SESSION) + pl.col(s.FRONT).fill_null(0)
        counted = messages.join(self.counts, on=s.SESSION, how="left", maintain_order="left")
        return counted.with_columns(number.cast(pl.Int64).alias(c.AT)).drop(s.FRONT, s.FLOOR)

    def after(self, messages: pl.DataFrame) -> Progress:
        """With these numbered messages taken in."""
        if messages.is_empty():
            return self
        furthest, newest = messages[c.AT].max(), messages[c.TIME].max()
        assert isinstance(furthest, int) and isinstance(newest, int)
        newest = max(self.newest, newest)
        if self.course.per_key:
            news = messages.select(s.SESSION, pl.col(c.AT).alias(s.FRONT))
            return replace(self, counts=self._with(news), newest=newest)
        return replace(self, front=max(self.front, furthest), newest=newest)

    def taking(self, offsets: pl.Series) -> Progress:
        """With these offsets seen."""
        return replace(self, seen=self.seen.including(offsets)) if offsets.len() else self

    def beside(self, frame: pl.DataFrame, name: str = s.FRONT) -> pl.DataFrame:
        """The frame (messages or windows) with the position up to which windows are full, and with ``FLOOR``."""
        ahead = int(self.course.knows_next)
        if not self.course.per_key:
            front = self.front if self.front == MIN else self.front + ahead
            values = {name: front, s.FLOOR: self._floor(self.front)}
            return frame.with_columns(pl.lit(value, pl.Int64).alias(column) for column, value in values.items())
        joined = frame.join(self.counts, on=s.SESSION, how="left", maintain_order="left")
        rows = self.course.retention.rows
        beyond = pl.lit(None, pl.Int64) if rows is None else pl.col(s.FRONT) - rows + 1
        floor = pl.max_horizontal(beyond, s.FLOOR).fill_null(MIN)
        return joined.with_columns(floor.alias(s.FLOOR), pl.col(s.FRONT).fill_null(MIN)).rename({s.FRONT: name})

    def retaining(self, windows: pl.DataFrame) -> Progress:
        """With the floor raised to what retention says now."""
        if self.course.retention == Retention():
            return self
        if self.course.axis == "rows":
            by = pl.col(s.SESSION) if self.course.per_key else pl.lit("").alias(s.SESSION)
            floors = self.course.retention.row_floors(self.beside(windows).drop(s.FLOOR), self.newest, by)
            if floors.is_empty():
                return self
            if self.course.per_key:
                return replace(self, counts=self._with(floors))
            return replace(self, floor=max(self.floor, floors[s.FLOOR].item()))
        if self.front == MIN:
            return self
        return replace(self, floor=max(self.floor, self.course.retention.floor(windows, self.front)))

    def lowest_floor(self) -> int:
        """No window that ends here, or before, is kept, where all keys share one axis."""
        return self._floor(self.front)

    def saved(self) -> dict[str, Any]:
        """As it is saved."""
        seen = {"seen": self.seen.frame(), "forgotten": self.seen.forgotten}
        return seen | {"front": self.front, "counts": self.counts, "floor": self.floor, "newest": self.newest}

    def resumed(self, saved: dict[str, Any]) -> Progress:
        """As it was saved."""
        own = {name: saved[name] for name in ("front", "counts", "floor", "newest")}
        forgotten = saved.get("forgotten")
        seen = Offsets.of(saved["seen"], None if forgotten is None else (forgotten[0], forgotten[1]))
        return replace(self, seen=seen, **own)

    def _floor(self, front: int) -> int:
        """Time expires by time and rows; rows expire by rows, and by the age of their windows."""
        rows = self.course.retention.rows
        if self.course.axis == "time" or rows is None or front == MIN:
            return self.floor
        return max(self.floor, front - rows + 1)

    def _with(self, news: pl.DataFrame) -> pl.DataFrame:
        """What is known of each key, with what is new; both only grow."""
        both = pl.concat([self.counts, news], how="diagonal")
        return both.group_by(s.SESSION, maintain_order=True).agg(pl.col(s.FRONT, s.FLOOR).max())
