"""Messages that were lost while their windows were not: replayed, they are stored again and change nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import polars as pl

from eventide.operators import columns as c
from eventide.standalone import columns as s
from eventide.standalone.offsets import Offsets
from eventide.standalone.progress import Course
from eventide.standalone.stores import Messages

_BY = "__by"


@dataclass(frozen=True)
class Restoring:
    """What is to be replayed, and how far that has come."""

    first: int
    """The first offset of the earliest window."""
    taken: Offsets
    """The offsets that were ever taken in."""
    course: Course
    begun: pl.DataFrame
    """On the row axis, for each key that counts by itself: offset and number of the first row that is missing."""
    restored: Offsets = field(default_factory=Offsets)
    """The offsets that were replayed, in whatever order."""

    @staticmethod
    def of(windows: pl.DataFrame, course: Course, taken: Offsets) -> Restoring:
        """What the windows need."""
        by = pl.col(s.SESSION) if course.per_key else pl.lit("")
        begun = windows.sort(c.START).group_by(by.alias(_BY)).agg(pl.col(s.START_OFFSET, c.START).first())
        first = windows[s.START_OFFSET].min()
        assert isinstance(first, int)
        return Restoring(first, taken, course, begun)

    def seeing(self, offsets: pl.Series) -> Restoring:
        """With these offsets replayed, among them those of messages that could not be used."""
        return replace(self, restored=self.restored.including(offsets)) if offsets.len() else self

    def after(self, messages: Messages, replays: pl.DataFrame) -> Restoring:
        """With these messages stored again."""
        new = replays.filter(pl.Series(~self.restored.hold(replays[s.OFFSET])))
        after = self.seeing(replays[s.OFFSET])
        if self.course.axis == "time":
            messages.put(replays.with_columns(pl.col(c.TIME).alias(c.AT)))
            return after
        by = pl.col(s.SESSION) if self.course.per_key else pl.lit("")
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
        return replace(after, begun=begun.drop("more"))

    @property
    def over(self) -> bool:
        """Whether all that windows need has been replayed: offsets may be out of order, so the last is not enough."""
        return self.restored.cover(self.taken, self.first)
