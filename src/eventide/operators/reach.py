"""Windows by offset: how far the offsets of each origin have come, which is their watermark."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from eventide.operators import columns as c
from eventide.state.panes import DUE, Positions
from eventide.time import MAX, MIN
from eventide.watermarks import AnyTracker

_ORIGIN = "__origin"


@dataclass(frozen=True)
class Reach:
    """The first offset of each origin that is still to come: before a bundle and after it.

    The end of the stream is the end of all origins.
    """

    origin: str | None  # the column that names a row's origin
    table: pl.DataFrame
    was_drained: bool
    drained: bool

    @staticmethod
    def between(before: AnyTracker, after: AnyTracker, was: int, watermark: int) -> Reach:
        """What a bundle has changed."""
        now = after.at(0).offsets().rename({"origin": _ORIGIN, "reached": c.REACHED})
        known = before.at(0).offsets().rename({"origin": _ORIGIN, "reached": c.WAS})
        # An origin that is forgotten sends nothing more: its windows end as if its offsets had.
        names = pl.Series(_ORIGIN, after.at(0).forgotten, dtype=pl.String)
        now = pl.concat([now, pl.DataFrame({_ORIGIN: names, c.REACHED: pl.repeat(MAX, len(names), eager=True)})])
        table = now.join(known, on=_ORIGIN, how="left", nulls_equal=True)
        return Reach(after.at(0).strategy.options.origin, table, was == MAX, watermark == MAX)

    def beside(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Rows, cells or panes with what their origin had reached, and has now."""
        name = pl.lit(None, pl.String) if self.origin is None else pl.col(self.origin).cast(pl.String)
        joined = frame.with_columns(name.alias(_ORIGIN)).join(
            self.table, on=_ORIGIN, how="left", nulls_equal=True, maintain_order="left"
        )
        was, now = pl.col(c.WAS).fill_null(MIN), pl.col(c.REACHED).fill_null(MIN)
        end = pl.lit(MAX, pl.Int64)
        return joined.drop(_ORIGIN).with_columns(
            (end if self.was_drained else was).alias(c.WAS), (end if self.drained else now).alias(c.REACHED)
        )

    def due(self, panes: pl.DataFrame) -> Positions:
        """The panes that must be looked at."""
        stands = (pl.col(c.WAS) == pl.col(c.REACHED)).fill_null(False)
        if not self.drained and self.table.select(stands.all()).item():
            return np.empty(0, np.int64)
        columns = [DUE] if self.origin is None else [self.origin, DUE]
        ready = self.beside(panes.select(columns)).select(pl.col(DUE) <= pl.col(c.REACHED)).to_series()
        return np.flatnonzero(ready.fill_null(False).to_numpy())
