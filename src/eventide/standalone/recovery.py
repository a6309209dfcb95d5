"""Recovery of lost messages: replayed messages are stored again, and change nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import polars as pl

from eventide import _columns as c
from eventide.standalone.offsets import Offsets
from eventide.standalone.progress import AxisConfig
from eventide.standalone.stores import MessageStore

_BY, _MORE = "__by", "__more"


@dataclass(frozen=True)
class MessageRecovery:
    """The messages that must be replayed because windows still need them, and those that were replayed so far."""

    first: int
    """The first offset of the earliest window."""
    seen: Offsets
    """All offsets that were ever processed."""
    axis_config: AxisConfig
    next_rows: pl.DataFrame
    """On the row axis, for each key with row numbers of its own: offset and number of the first missing row."""
    replayed: Offsets = field(default_factory=Offsets)

    @staticmethod
    def of(windows: pl.DataFrame, axis_config: AxisConfig, seen: Offsets) -> MessageRecovery:
        """Return the recovery of the messages of these windows."""
        by = pl.col(c.SESSION) if axis_config.per_key else pl.lit("")
        next_rows = windows.sort(c.START).group_by(by.alias(_BY)).agg(pl.col(c.START_OFFSET, c.START).first())
        first = windows[c.START_OFFSET].min()
        assert isinstance(first, int)
        return MessageRecovery(first, seen, axis_config, next_rows)

    @property
    def is_complete(self) -> bool:
        """Whether all messages that windows need were replayed. Offsets may be out of order."""
        return self.replayed.cover(self.seen, self.first)

    def with_replayed(self, offsets: pl.Series) -> MessageRecovery:
        """Return the recovery after these offsets were replayed, also those of dead letters."""
        return replace(self, replayed=self.replayed.including(offsets)) if offsets.len() else self

    def store(self, messages: MessageStore, replays: pl.DataFrame) -> MessageRecovery:
        """Store replayed messages again, and return the recovery after them."""
        new = replays.filter(pl.Series(~self.replayed.contain(replays[c.OFFSET])))
        after = self.with_replayed(replays[c.OFFSET])
        if self.axis_config.axis == "time":
            messages.put(replays.with_columns(pl.col(c.TIME).alias(c.AT)))
            return after
        by = pl.col(c.SESSION) if self.axis_config.per_key else pl.lit("")
        number = pl.int_range(pl.len()).over(_BY) + pl.col(c.START)
        numbered = (
            new.with_columns(by.alias(_BY))
            .join(self.next_rows, on=_BY, maintain_order="left")
            .filter(pl.col(c.OFFSET) >= pl.col(c.START_OFFSET))
            .with_columns(number.cast(pl.Int64).alias(c.AT))
        )
        messages.put(numbered.drop(_BY, c.START_OFFSET, c.START))
        counts = numbered.group_by(_BY).agg(pl.len().cast(pl.Int64).alias(_MORE))
        joined = self.next_rows.join(counts, on=_BY, how="left")
        next_rows = joined.with_columns(pl.col(c.START) + pl.col(_MORE).fill_null(0)).drop(_MORE)
        return replace(after, next_rows=next_rows)
