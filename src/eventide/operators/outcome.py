"""What the inner part of a windowed operator gives back for one bundle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import polars as pl

from eventide.aggregates import Bound
from eventide.operators import columns as c

S = TypeVar("S")


@dataclass
class Outcome(Generic[S]):
    """The new store, what is emitted, and the rows that found no place in a window."""

    store: S
    emitted: list[pl.DataFrame]
    entered: int  # rows that found their place, counted from the cells they went into
    late: pl.DataFrame | None = None
    outside: pl.DataFrame | None = None  # in no window at all
    failed: pl.DataFrame | None = None  # user-written code raised on them; the reason stands beside
    unemitted: int = 0


def start_cells(
    bound: Bound, rows: pl.DataFrame, by: Sequence[str], steps: Mapping[str, int] | None = None
) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """The rows as cells, and the rows on which a user's aggregate raised."""
    started = bound.start(rows, by, steps=steps)
    if started.failed is None:
        return started.cells, None
    failed = rows[started.failed].with_columns(
        pl.lit("failed").alias(c.REASON), pl.Series(c.DETAIL, started.reasons, dtype=pl.String)
    )
    return started.cells, failed
