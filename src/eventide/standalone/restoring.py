"""Messages that were lost while their windows were not: replayed, they are stored again and change nothing else."""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl

from eventide.operators import columns as c
from eventide.standalone import columns as s
from eventide.standalone.progress import Course
from eventide.standalone.stores import Messages

_BY = "__by"


@dataclass(frozen=True)
class Restoring:
    """What is to be replayed, and how far that has come."""

    first: int
    """The first offset of the earliest window."""
    last: int | None
    """The greatest offset that was ever taken in."""
    course: Course
    begun: pl.DataFrame
    """On the row axis, for each key that counts by itself: offset and number of the first row that is missing."""
    reached: int | None = None

    @staticmethod
    def of(windows: pl.DataFrame, course: Course, last: int | None) -> Restoring:
        """What the windows need."""
        by = pl.col(s.SESSION) if course.per_key else pl.lit("")
        begun = windows.sort(c.START).group_by(by.alias(_BY)).agg(pl.col(s.START_OFFSET, c.START).first())
        first = windows[s.START_OFFSET].min()
        assert isinstance(first, int)
        return Restoring(first, last, course, begun)

    def after(self, messages: Messages, replays: pl.DataFrame) -> Restoring:
        """With these messages stored again."""
        reached = replays[s.OFFSET].max()
        assert isinstance(reached, int)
        if self.course.axis == "time":
            messages.put(replays.with_columns(pl.col(c.TIME).alias(c.AT)))
            return replace(self, reached=reached)
        by = pl.col(s.SESSION) if self.course.per_key else pl.lit("")
        new = replays.filter(pl.col(s.OFFSET) > self.reached) if self.reached is not None else replays
        number = pl.int_range(pl.len()).over(_BY) + pl.col(c.START)
        numbered = (
            new.with_columns(by.alias(_BY))
            .join(self.begun, on=_BY, maintain_order="left")
            .filter(pl.col(s.OFFSET) >= pl.col(s.START_OFFSET))
            .with_columns(number.cast(pl.Int64).alias(c.AT))
        )
        messages.put(numbered.drop(_BY, s.START_OFFSET, c.START))
        counted = numbered.group_by(_BY).agg(pl.len().cast(pl.Int64).alias("more"))
        begun = self.begun.join(counted, on=_BY, how="left").with_columns(pl.col(c.START) + pl.col("more").fill_null(0))
        return replace(self, reached=reached, begun=begun.drop("more"))

    @property
    def over(self) -> bool:
        """Whether the replay has caught up with what was seen before."""
        return self.last is None or (self.reached is not None and self.reached >= self.last)
