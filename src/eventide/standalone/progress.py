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

_BY = "__by"
_COUNTS = {s.SESSION: pl.String, s.FRONT: pl.Int64}


@dataclass(frozen=True)
class Course:
    """What does not change: the axis, whether each key counts its own rows, and when a window counts as full."""

    axis: Axis
    per_key: bool
    retention: Retention
    knows_next: bool = False
    """A window is full as soon as the next message must lie beyond it, not only when one does."""

    def front(self) -> pl.Expr:
        """Windows that end here, or before, are full."""
        return pl.col(s.FRONT) + 1 if self.knows_next else pl.col(s.FRONT)


@dataclass(frozen=True)
class Progress:
    """A value: taking messages in gives a new one."""

    course: Course
    seen: Offsets = field(default_factory=Offsets)
    counts: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=_COUNTS))
    """The greatest position, for each key that counts by itself, else for the empty key."""
    floor: int = MIN

    def numbered(self, messages: pl.DataFrame) -> pl.DataFrame:
        """Messages with their position: their time, or their number in the order of arrival, from 1."""
        if self.course.axis == "time":
            return messages.with_columns(pl.col(c.TIME).alias(c.AT))
        by = self._by(messages)
        number = pl.int_range(1, pl.len() + 1).over(by.meta.output_name()) + pl.col(s.FRONT).fill_null(0)
        numbered = messages.with_columns(by).join(
            self.counts.rename({s.SESSION: _BY}), on=_BY, how="left", maintain_order="left"
        )
        return numbered.with_columns(number.cast(pl.Int64).alias(c.AT)).drop(_BY, s.FRONT)

    def after(self, messages: pl.DataFrame) -> Progress:
        """With these numbered messages taken in."""
        new = messages.group_by(self._by(messages)).agg(pl.col(c.AT).max().alias(s.FRONT)).rename({_BY: s.SESSION})
        counts = pl.concat([self.counts, new]).group_by(s.SESSION, maintain_order=True).agg(pl.col(s.FRONT).max())
        return replace(self, counts=counts)

    def taking(self, offsets: pl.Series) -> Progress:
        """With these offsets seen."""
        return replace(self, seen=self.seen.including(offsets)) if offsets.len() else self

    def beside(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The frame (messages or windows) with ``FRONT`` and ``FLOOR``."""
        front, floor = self.course.front(), self._floor()
        counts = self.counts.select(s.SESSION, front.fill_null(MIN).alias(s.FRONT), floor.alias(s.FLOOR))
        if self.course.per_key:
            joined = frame.join(counts, on=s.SESSION, how="left", maintain_order="left")
            return joined.with_columns(pl.col(s.FRONT, s.FLOOR).fill_null(MIN))
        values = counts.drop(s.SESSION).row(0, named=True) if counts.height else {s.FRONT: MIN, s.FLOOR: self.floor}
        return frame.with_columns(pl.lit(value, pl.Int64).alias(name) for name, value in values.items())

    def retaining(self, windows: pl.DataFrame) -> Progress:
        """With the floor raised to what retention says now."""
        if self.course.axis == "rows" or self.counts.is_empty():
            return self
        floor = self.course.retention.floor(windows, self.counts[s.FRONT].item())
        return replace(self, floor=max(self.floor, floor))

    def lowest_floor(self) -> int:
        """No window that ends here, or before, is kept for any key."""
        least = self.counts.select(self._floor().min()).item()
        return self.floor if least is None else least

    def _floor(self) -> pl.Expr:
        """Rows expire by rows, time by time."""
        rows = self.course.retention.rows
        if self.course.axis == "rows" and rows is not None:
            return (pl.col(s.FRONT) - rows + 1).cast(pl.Int64)
        return pl.lit(self.floor, pl.Int64)

    def _by(self, messages: pl.DataFrame) -> pl.Expr:
        return (pl.col(s.SESSION) if self.course.per_key else pl.lit("")).alias(_BY)

    def saved(self) -> dict[str, Any]:
        """As it is saved."""
        return {"seen": self.seen.frame(), "counts": self.counts, "floor": self.floor}

    def resumed(self, saved: dict[str, Any]) -> Progress:
        """As it was saved."""
        return replace(self, seen=Offsets.of(saved["seen"]), counts=saved["counts"], floor=saved["floor"])
