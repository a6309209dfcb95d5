"""How much history is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from eventide.operators import columns as c
from eventide.standalone import columns as s
from eventide.standalone.bounds import time_and_rows
from eventide.time import MIN, format_duration
from eventide.windows.lifetime import is_complete


@dataclass(frozen=True)
class Retention:
    """Windows that ended so long before the newest message, or beyond so many rows, are dropped. None: never."""

    time: int | None = None
    rows: int | None = None

    def floor(self, windows: pl.DataFrame, front: int) -> int:
        """On the time axis: the position at which, or before which, windows end that are to go."""
        floor = MIN if self.time is None or front < MIN + self.time else front - self.time
        if self.rows is None or windows.is_empty():
            return floor
        # The newest windows that hold no more than so many rows stay, and the newest one in any case.
        sizes = windows.group_by(c.END).agg(pl.col(c.ROWS).sum()).sort(c.END, descending=True)
        older = sizes.filter(pl.col(c.ROWS).cum_sum() > self.rows, pl.int_range(pl.len()) > 0)
        crowded = older[c.END].max()
        return max(floor, crowded) if isinstance(crowded, int) else floor

    def row_floors(self, windows: pl.DataFrame, newest: int, by: pl.Expr) -> pl.DataFrame:
        """On the row axis: for each ``by``, the end of the last window that is too old to stay.

        A window that is full is as old as the latest message in it, or in one before it: windows go in their order.
        """
        if self.time is None or newest < MIN + self.time:
            return windows.select(by, pl.col(c.END).alias(s.FLOOR)).clear()
        full = windows.filter(is_complete(pl.col(c.END), pl.col(s.FRONT))).select(by, c.END, s.LAST_TIME).sort(c.END)
        latest = pl.col(s.LAST_TIME).cum_max().over(by.meta.output_name())
        old = full.filter(latest <= newest - self.time)
        return old.group_by(by.meta.output_name(), maintain_order=True).agg(pl.col(c.END).max().alias(s.FLOOR))

    def describe(self) -> str:
        """One line for ``explain()``."""
        parts = [] if self.time is None else [format_duration(self.time)]
        parts += [] if self.rows is None else [f"{self.rows} rows"]
        return " and at most ".join(parts) or "everything"


def retention(retain: Mapping[str, object] | None) -> Retention:
    """What a user says of it.

    >>> retention({"time": "1 hour", "rows": 1000}).describe()
    '1h and at most 1000 rows'
    """
    return Retention(*time_and_rows("retain", retain, zero=False))
