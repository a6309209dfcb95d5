"""The contract of window state, and the internal aggregates that are computed with the user's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

import polars as pl

from eventide import _columns as c
from eventide.aggregates import Accumulator, Aggregate, Bound, Parts, Source
from eventide.aggregates.sums import RowCount
from eventide.errors import DataError
from eventide.kernels.grouping import Grid
from eventide.operators.emission import StepTime
from eventide.state.operator_state import StatefulTables

S = TypeVar("S")


@dataclass(frozen=True)
class Stamped:
    """Rows as far as they are prepared without state: cells, and the rows that are in no live window.

    ``rows`` are those that state needs as they are: all of them where state numbers them, for sessions the ones that
    may prove late.
    """

    cells: pl.DataFrame
    rows: pl.DataFrame
    late: pl.DataFrame | None = None
    outside: pl.DataFrame | None = None  # in no window at all
    failed: pl.DataFrame | None = None  # user-written code raised on them; the reason is in a column of theirs

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
class WindowUpdate(Generic[S]):
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


class WindowLogic(StatefulTables, Protocol):
    """The state of one kind of window. Pure: each update returns a new store."""

    def initial(self) -> Any:
        """The store before the first bundle."""
        ...

    @property
    def by(self) -> list[str]:
        """What cells are grouped by."""
        ...

    def assign(self, rows: pl.DataFrame, earliest: int | None, previous: int) -> Stamped:
        """Assign rows to cells, as far as that needs no state. ``previous`` is the watermark before the bundle."""
        ...

    def update(self, store: Any, stamped: Stamped, step: StepTime) -> WindowUpdate[Any]:
        """Merge what was assigned, then emit what is due."""
        ...

    def open(self, store: Any) -> int:
        """The number of entries in state."""
        ...

    def scan(self, store: Any) -> list[pl.DataFrame]:
        """The entries in state, for inspection."""
        ...


def merge_groups(bound: Bound, cells: pl.DataFrame, by: Sequence[str], named: Sequence[str]) -> pl.DataFrame:
    """The cells of each group as one. What fails is said of ``named`` columns, not of the group's number."""
    try:
        return bound.merge(cells, by)
    except DataError:
        bound.merge(cells, named)
        raise


def _concat(frames: Sequence[pl.DataFrame | None]) -> pl.DataFrame | None:
    present = [frame for frame in frames if frame is not None]
    return pl.concat(present) if present else None


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
        net = Accumulator(c.NET, pl.Int64(), pl.col(c.DIFF).sum(), pl.col(c.NET).sum(), empty=0, ordered=False)
        return Parts([net], pl.col(c.NET))


@dataclass(frozen=True)
class Extent(Aggregate):
    """From where to where a session's rows reach."""

    gap: int | str

    def bind(self, source: Source) -> Parts:
        """The first position, and the last plus its gap."""
        until = pl.col(c.AT).max() + self.gap if isinstance(self.gap, int) else (pl.col(c.AT) + pl.col(c.GAP)).max()
        first = Accumulator(c.FIRST, pl.Int64(), pl.col(c.AT).min(), pl.col(c.FIRST).min(), ordered=False)
        return Parts(
            [first, Accumulator(UNTIL, pl.Int64(), until, pl.col(UNTIL).max(), ordered=False)], pl.col(c.FIRST)
        )


@dataclass(frozen=True)
class OutputTimeHold(Aggregate):
    """The output time of a pane that is not stamped with its window's end: of its rows that were not late."""

    which: Literal["earliest", "latest"]

    def bind(self, source: Source) -> Parts:
        """The least or the greatest time."""
        hold, held = pl.col(c.HOLD), pl.col(c.HELD)
        start, merge = (hold.min(), held.min()) if self.which == "earliest" else (hold.max(), held.max())
        return Parts([Accumulator(c.HELD, pl.Int64(), start, merge, ordered=False)], held)
