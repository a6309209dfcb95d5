"""Unions of intervals: which of a key's intervals hang together. The answer does not depend on their order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from eventide.aggregates.numbering import GROUP, number
from eventide.operators import columns as c
from eventide.windows.lifetime import Lifetime
from eventide.windows.sessions import Touching

RUN = "__run"


def may_prove_late(
    rows: pl.DataFrame, gap: int | str, lifetime: Lifetime, earliest: int | None, was: int
) -> pl.DataFrame:
    """The rows whose own interval has expired: unless they join a session that is still live, they are late."""
    if earliest is None or earliest >= lifetime.live_from(was):
        return rows.clear()
    until = pl.col(c.AT) + (pl.col("__gap") if isinstance(gap, str) else gap)
    return rows.filter(lifetime.expired(until, was))


def with_runs(intervals: pl.DataFrame, key: Sequence[str], touching: Touching) -> pl.DataFrame:
    """The intervals ``[start, end)`` in their order, each with the number of the run that it is part of."""
    groups = number(intervals, key).rows[GROUP] if key else pl.zeros(intervals.height, pl.UInt32, eager=True)
    order = (
        intervals.select(c.START, c.END, groups.alias(GROUP))
        .with_row_index(c.ROW)
        .sort(GROUP, c.START, maintain_order=True)
    )
    reach = pl.col(c.END).cum_max().over(GROUP).shift(1)
    apart = pl.col(c.START) > reach if touching == "merge" else pl.col(c.START) >= reach
    first = pl.col(GROUP) != pl.col(GROUP).shift(1)
    begins = order.select((first | apart).fill_null(True).cum_sum()).to_series().to_numpy()
    runs = np.empty(intervals.height, np.uint32)
    runs[order[c.ROW].to_numpy()] = begins
    return intervals.with_columns(pl.Series(RUN, runs))
