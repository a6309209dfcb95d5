"""What the inner parts of a windowed operator are asked for, and what they give back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import polars as pl

from eventide.aggregates import Bound
from eventide.aggregates.dense import Grid
from eventide.errors import DataError
from eventide.operators import columns as c
from eventide.operators.firing import Moment
from eventide.operators.saving import Kept

S = TypeVar("S")


@dataclass(frozen=True)
class Stamped:
    """What can be made of rows without any state: cells, and the rows that found no place in a window.

    ``rows`` are those that state still needs as they are: all of them where state numbers them, for sessions the ones
    that may prove late.
    """

    cells: pl.DataFrame
    rows: pl.DataFrame
    late: pl.DataFrame | None = None
    outside: pl.DataFrame | None = None  # in no window at all
    failed: pl.DataFrame | None = None  # user-written code raised on them; the reason stands beside

    @staticmethod
    def together(parts: Sequence[Stamped], bound: Bound, by: Sequence[str]) -> Stamped:
        """The parts of several tasks as one, in their order."""
        if len(parts) == 1:
            return parts[0]
        return Stamped(
            bound.merge(pl.concat([part.cells for part in parts]), by),
            pl.concat([part.rows for part in parts]),
            *(_concat([getattr(part, name) for part in parts]) for name in ("late", "outside", "failed")),
        )


@dataclass
class Outcome(Generic[S]):
    """The new store, what is emitted, and the rows that found no place in a window."""

    store: S
    emitted: list[pl.DataFrame]
    entered: int  # rows that found their place, counted from the cells they went into
    late: pl.DataFrame | None = None
    outside: pl.DataFrame | None = None
    failed: pl.DataFrame | None = None
    unemitted: int = 0
    beyond: pl.DataFrame | None = None  # out of retention
    forgotten: int = 0  # keys


class Inner(Kept, Protocol):
    """The part of a windowed operator that knows one kind of state. Pure: a store goes in, a new one comes out."""

    def initial(self) -> Any:
        """The store before the first bundle."""
        ...

    @property
    def by(self) -> list[str]:
        """What cells are grouped by."""
        ...

    def stamp(self, rows: pl.DataFrame, earliest: int | None, was: int) -> Stamped:
        """Make of rows what can be made without state. ``was`` is the watermark that stands when the bundle begins."""
        ...

    def absorb(self, store: Any, stamped: Stamped, moment: Moment) -> Outcome[Any]:
        """Take in what was stamped, then emit what is due."""
        ...

    def open(self, store: Any) -> int:
        """How many entries rest in state."""
        ...

    def scan(self, store: Any) -> list[pl.DataFrame]:
        """What rests in state, for inspection."""
        ...


def merge_groups(bound: Bound, cells: pl.DataFrame, by: Sequence[str], named: Sequence[str]) -> pl.DataFrame:
    """The cells of each group as one. What fails is said of ``named`` columns, not of the group's number."""
    try:
        return bound.merge(cells, by)
    except DataError:
        bound.merge(cells, named)
        raise


def _concat(frames: Sequence[pl.DataFrame | None]) -> pl.DataFrame | None:
    found = [frame for frame in frames if frame is not None]
    return pl.concat(found) if found else None


def start_cells(
    bound: Bound, rows: pl.DataFrame, by: Sequence[str], grids: Mapping[str, Grid] | None = None
) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """The rows as cells, and the rows on which a user's aggregate raised."""
    started = bound.start(rows, by, grids=grids)
    if started.failed is None:
        return started.cells, None
    failed = rows[started.failed].with_columns(
        pl.lit("failed").alias(c.REASON), pl.Series(c.DETAIL, started.reasons, dtype=pl.String)
    )
    return started.cells, failed
