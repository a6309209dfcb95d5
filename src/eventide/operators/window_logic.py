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
from eventide.state.pane_table import PaneTable

S = TypeVar("S")


@dataclass(frozen=True)
class Stamped:
    """A bundle as far as it is prepared without state: cells, and the rows that are in no live window.

    ``rows`` are those that state needs in addition to cells: all rows if state numbers them, and for sessions the rows
    that may be late.
    """

    cells: pl.DataFrame
    rows: pl.DataFrame
    late: pl.DataFrame | None = None
    outside: pl.DataFrame | None = None  # in no window at all
    failed: pl.DataFrame | None = None  # user code raised on them; with the reason

    @staticmethod
    def together(parts: Sequence[Stamped], bound: Bound, by: Sequence[str]) -> Stamped:
        """Merge the parts of several tasks, in their order."""
        if len(parts) == 1:
            return parts[0]
        return Stamped(
            bound.merge(pl.concat([part.cells for part in parts]), by),
            pl.concat([part.rows for part in parts]),
            *(_concat([getattr(part, name) for part in parts]) for name in ("late", "outside", "failed")),
        )


@dataclass
class WindowUpdate(Generic[S]):
    """The new store, the emitted panes, and the rows that are in no window."""

    store: S
    emitted: list[pl.DataFrame]
    entered: int  # rows that are in a window, counted in cells
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
        """The columns by which cells are grouped."""
        ...

    def assign(self, rows: pl.DataFrame, earliest: int | None, previous: int) -> Stamped:
        """Assign rows to cells, as far as that needs no state. ``previous`` is the watermark before the bundle."""
        ...

    def update(self, store: Any, stamped: Stamped, step: StepTime) -> WindowUpdate[Any]:
        """Merge the assigned rows into the store, then emit the panes that are due."""
        ...

    def open(self, store: Any) -> int:
        """The number of entries in state."""
        ...

    def scan(self, store: Any) -> list[pl.DataFrame]:
        """The entries in state, for inspection."""
        ...


class PaneStore(Protocol):
    """A store with a table of open panes."""

    @property
    def table(self) -> PaneTable:
        """The open panes."""
        ...


class PaneLogic:
    """What window logics with a table of open panes share."""

    def open(self, store: PaneStore) -> int:
        """How many panes are open."""
        return store.table.height

    def scan(self, store: PaneStore) -> list[pl.DataFrame]:
        """The open panes."""
        panes = store.table.scan()
        return [] if panes is None else [panes]


def merge_groups(bound: Bound, cells: pl.DataFrame, by: Sequence[str], named: Sequence[str]) -> pl.DataFrame:
    """Merge the cells of each group. Error messages name the columns ``named`` instead of the number of the group."""
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
    """Return the rows as cells, and the rows on which a user's aggregate raised."""
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
    """The number of rows, including retractions."""

    def bind(self, source: Source) -> Parts:
        """A plain count: a row counts once whether its diff is +1 or -1."""
        start = pl.len() if source.diff is None else pl.col(source.diff).abs().sum()
        rows = RowCount(c.ROWS, pl.Int64(), start, pl.col(c.ROWS).sum(), empty=0, ordered=False)
        return Parts([rows], pl.col(c.ROWS))


@dataclass(frozen=True)
class Net(Aggregate):
    """Rows minus retractions: at zero, the window is empty."""

    def bind(self, source: Source) -> Parts:
        """The sum of the diffs."""
        net = Accumulator(c.NET, pl.Int64(), pl.col(c.WEIGHT).sum(), pl.col(c.NET).sum(), empty=0, ordered=False)
        return Parts([net], pl.col(c.NET))


@dataclass(frozen=True)
class Extent(Aggregate):
    """The interval that a session's rows cover."""

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
    """The output time of a pane if it is not the window's end: that of its rows that were not late."""

    which: Literal["earliest", "latest"]

    def bind(self, source: Source) -> Parts:
        """The least or the greatest time."""
        hold, held = pl.col(c.HOLD), pl.col(c.HELD)
        start, merge = (hold.min(), held.min()) if self.which == "earliest" else (hold.max(), held.max())
        return Parts([Accumulator(c.HELD, pl.Int64(), start, merge, ordered=False)], held)
