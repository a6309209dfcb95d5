"""Aggregates that operators compute for themselves, in the same pass as the user's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import polars as pl

from eventide.aggregates import Accumulator, Aggregate, Parts, Source
from eventide.aggregates.counting import RowCount
from eventide.operators import columns as c

FIRST = "__first"
UNTIL = "__until"


@dataclass(frozen=True)
class Rows(Aggregate):
    """How many rows, retractions counted like any other."""

    def bind(self, source: Source) -> Parts:
        """A plain count; a diff is +1 or -1, and both are a row."""
        start = pl.len() if source.diff is None else pl.col(source.diff).abs().sum()
        rows = RowCount(c.ROWS, pl.Int64(), start, pl.col(c.ROWS).sum(), empty=0, ordered=False)
        return Parts([rows], pl.col(c.ROWS))


@dataclass(frozen=True)
class Net(Aggregate):
    """Rows less retractions: a window without rows has vanished."""

    def bind(self, source: Source) -> Parts:
        """The sum of the diffs."""
        net = Accumulator("__net", pl.Int64(), pl.col(c.DIFF).sum(), pl.col("__net").sum(), empty=0, ordered=False)
        return Parts([net], pl.col("__net"))


@dataclass(frozen=True)
class Extent(Aggregate):
    """From where to where a session's rows reach."""

    gap: int | str

    def bind(self, source: Source) -> Parts:
        """The first position, and the last plus its gap."""
        until = pl.col(c.AT).max() + self.gap if isinstance(self.gap, int) else (pl.col(c.AT) + pl.col("__gap")).max()
        first = Accumulator(FIRST, pl.Int64(), pl.col(c.AT).min(), pl.col(FIRST).min(), ordered=False)
        return Parts([first, Accumulator(UNTIL, pl.Int64(), until, pl.col(UNTIL).max(), ordered=False)], pl.col(FIRST))


@dataclass(frozen=True)
class Held(Aggregate):
    """The output time of a pane that is not stamped with its window's end: of its rows that were not late."""

    which: Literal["earliest", "latest"]

    def bind(self, source: Source) -> Parts:
        """The least or the greatest time."""
        hold, held = pl.col(c.HOLD), pl.col(c.HELD)
        start, merge = (hold.min(), held.min()) if self.which == "earliest" else (hold.max(), held.max())
        return Parts([Accumulator(c.HELD, pl.Int64(), start, merge, ordered=False)], held)
