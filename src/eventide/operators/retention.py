"""State limits: which rows are accepted, and which windows are closed to stay within the limits.

Limits are applied once per bundle. First, rows of closed windows and rows beyond the limit of a single window are
rejected. Then the other rows are added, expired windows are dropped, and the oldest windows are closed until all
limits hold.
The newest window of a key stays open, and a window is never closed in part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from eventide import _columns as c
from eventide.aggregates import Bound
from eventide.kernels.frames import sizes
from eventide.kernels.keys import join_on_key
from eventide.operators.emission import EVICTED, PaneEmitter, StepTime
from eventide.plan.window_plan import WindowPlan
from eventide.state.pane_table import CLOCK, DUE, HASH, PaneTable, Positions, row_hashes
from eventide.time import MIN
from eventide.windows.lateness import is_due, is_expired

SIZE = "__size"
FLOOR = "__floor"  # the end of the last window of a key that was closed
TOTAL = "__total"  # the size of a window and of all newer ones
_ALL = "__all"  # replaces the key, if there is none


def closing_order(
    windows: pl.DataFrame, size: str, *, key: Sequence[str] = (), within: Sequence[str] = ()
) -> pl.DataFrame:
    """Return the windows that may be closed, the newest first, with their ``TOTAL``: all but the newest one.

    A window is closed if its total is above the limit. ``within`` names the columns of a group with its own limit.
    Windows with the same bounds are closed in the order of their ``key``.
    """
    order = [c.END, c.START, *key]
    newest_first = windows.sort(order, descending=True, nulls_last=True, maintain_order=True)
    total, position = pl.col(size).cum_sum(), pl.int_range(pl.len())
    if within:
        total, position = total.over(within), position.over(within)
    return newest_first.with_columns(total.alias(TOTAL)).filter(position > 0)


class RetentionPolicy:
    """The state limits of a plan."""

    def __init__(self, plan: WindowPlan, bound: Bound, emitter: PaneEmitter) -> None:
        self._plan = plan
        self._bound = bound
        self._emitter = emitter
        self._rows = None if plan.limits is None else plan.limits.rows
        self._bytes = None if plan.limits is None else plan.limits.bytes
        self._key = list(plan.key) or [_ALL]
        # If rows are numbered per key, positions have no watermark.
        by_row = plan.window.axis == "rows"
        self._numbers_by_key = by_row and plan.offset is None and bool(plan.key) and not plan.counts_all_keys
        # Windows that end at a row are as old as the latest of their rows.
        self._longest = plan.timeout

    def due(self, step: StepTime) -> tuple[int, int] | Callable[[pl.DataFrame], Positions]:
        """Return how to find the panes that the bundle makes due."""
        due = step.due
        if self._longest is None:
            return due

        def due_positions(run: pl.DataFrame) -> Positions:
            outlived = np.flatnonzero(run.select(self._outlived(step)).to_series().to_numpy())
            if callable(due):
                return np.union1d(outlived, due(run))
            fallen = ~is_due(pl.col(DUE), due[0]) & is_due(pl.col(DUE), due[1])
            return np.union1d(outlived, np.flatnonzero(run.select(fallen.fill_null(False)).to_series().to_numpy()))

        return due_positions

    def _outlived(self, step: StepTime) -> pl.Expr:
        if self._longest is None or step.time == MIN:
            return pl.lit(False)
        return is_expired(pl.col(c.HELD), step.time, self._longest)

    def with_sizes(self, panes: pl.DataFrame) -> pl.DataFrame:
        """Add the size of each pane, if there is a limit in bytes."""
        if self._bytes is None:
            return panes
        schema = panes.schema
        return panes.with_columns(
            sizes({name: schema[name] for name in (*self._plan.key, *self._bound.columns)}).alias(SIZE)
        )

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """The additional column of a pane."""
        return {} if self._bytes is None else {SIZE: pl.Int64()}

    def above_floors(self, places: pl.DataFrame, closed: PaneTable, last: pl.Expr) -> pl.DataFrame:
        """Keep the assignments whose ``last`` position is not in a window that was closed before."""
        _, known = closed.take(row_hashes(places, self._plan.key), due=(MIN, MIN), clock=(MIN, MIN))
        if not known:
            return places
        floors = pl.concat(known).select(*self._key, FLOOR)
        joined = join_on_key(self._keyed(places), floors, self._key, maintain_order="left")
        return joined.filter((last >= pl.col(FLOOR)).fill_null(True)).select(places.columns)

    def without_keys(self, closed: PaneTable, keys: pl.DataFrame) -> PaneTable:
        """Remove the floors of some keys."""
        if keys.is_empty():
            return closed
        closed, known = closed.take(row_hashes(keys, self._plan.key), due=(MIN, MIN), clock=(MIN, MIN))
        others = [frame.join(keys, on=keys.columns, how="anti", nulls_equal=True) for frame in known]
        return closed.put(pl.concat(others)) if others else closed

    def with_room(self, places: pl.DataFrame, window: list[str]) -> pl.DataFrame:
        """Keep the assignments (one per row and window, in order of arrival) whose window is below its limits.

        ``ROWS`` and ``SIZE`` of an assignment hold the present content of its window.
        """
        if self._rows is not None:
            held = pl.col(c.ROWS).fill_null(0)
            taken = pl.int_range(1, pl.len() + 1).over(window) if window else pl.int_range(1, pl.len() + 1)
            places = places.filter(held + taken <= self._rows)
        if self._bytes is not None:
            places = places.filter(pl.col(SIZE).fill_null(0) < self._bytes)
        return places

    def close(
        self, panes: pl.DataFrame, table: PaneTable, closed: PaneTable, step: StepTime
    ) -> tuple[pl.DataFrame, PaneTable, PaneTable]:
        """Mark the panes to close. Some of them may have to be taken out of the table first."""
        panes = self.with_sizes(panes).with_columns(self._outlived(step).alias(EVICTED))
        if self._rows is not None:
            panes = self._oldest_of_key(panes, step, self._rows)
        if self._bytes is not None:
            panes, table = self._oldest_of_all(panes, table, step, self._bytes)
        return panes, table, self._with_floors(closed, panes.filter(EVICTED), step)

    def _oldest_of_key(self, panes: pl.DataFrame, step: StepTime, most: int) -> pl.DataFrame:
        live = self._keyed(self._live(panes, step).filter(~pl.col(EVICTED)))
        return self._marked(panes, closing_order(live, c.ROWS, within=self._key).filter(pl.col(TOTAL) > most))

    def _oldest_of_all(
        self, panes: pl.DataFrame, table: PaneTable, step: StepTime, most: int
    ) -> tuple[pl.DataFrame, PaneTable]:
        live = self._live(panes, step).filter(~pl.col(EVICTED))
        resting = table.scan()
        total = int(live[SIZE].sum()) + (0 if resting is None else int(resting[SIZE].sum()))
        if total <= most:
            return panes, table
        window = [*self._plan.key, c.START, c.END]
        everything = live.select(*window, SIZE)
        if resting is not None:
            everything = pl.concat([everything, resting.select(*window, SIZE)])
        closing = closing_order(everything, SIZE, key=self._plan.key).filter(pl.col(TOTAL) > most).select(window)

        def among(run: pl.DataFrame) -> Positions:
            where = run.select(window).with_row_index(c.PANE_ROW).join(closing, on=window, how="semi", nulls_equal=True)
            return where[c.PANE_ROW].to_numpy()

        table, more = table.take(pl.Series([], dtype=pl.UInt64), due=among, clock=(MIN, MIN))
        panes = self._marked(panes, live.join(closing, on=window, how="semi", nulls_equal=True))
        if more:
            out = pl.concat(more).drop(HASH, DUE, CLOCK)
            out = out.with_columns(pl.lit(True).alias(EVICTED), pl.lit(0, pl.Int64).alias(c.ADDED))
            panes = pl.concat([panes, out], how="diagonal")
        return panes, table

    def _live(self, panes: pl.DataFrame, step: StepTime) -> pl.DataFrame:
        return panes.with_row_index(c.PANE_ROW).filter(~self._emitter.expired(panes, step))

    def _marked(self, panes: pl.DataFrame, closing: pl.DataFrame) -> pl.DataFrame:
        if closing.is_empty():
            return panes
        return panes.with_columns(pl.col(EVICTED) | pl.int_range(pl.len()).is_in(closing[c.PANE_ROW].implode()))

    def _with_floors(self, closed: PaneTable, closing: pl.DataFrame, step: StepTime) -> PaneTable:
        """Store the end of the closed windows of each key. Expired floors are dropped: rows below them are late."""
        due = (MIN, MIN) if self._numbers_by_key else step.due
        closed, known = closed.take(row_hashes(closing, self._plan.key), due=due, clock=(MIN, MIN))
        floors = [frame.select(*self._key, FLOOR) for frame in known]
        floors += [self._keyed(closing).select(*self._key, pl.col(c.END).alias(FLOOR))] if closing.height else []
        if not floors:
            return closed
        highest = pl.concat(floors).group_by(self._key, maintain_order=True).agg(pl.col(FLOOR).max())
        expires = pl.lit(None, pl.Int64) if self._numbers_by_key else self._plan.expiry.expires_at(pl.col(FLOOR))
        if not self._numbers_by_key:
            joined = highest if step.offsets is None else step.offsets.with_offsets(highest)
            watermark = step.watermark if step.offsets is None else pl.col(c.REACHED)
            expired = self._plan.expiry.is_expired(pl.col(FLOOR), watermark)
            highest = joined.filter(~expired).select(highest.columns)
        return closed.put(
            highest.with_columns(
                row_hashes(highest, self._plan.key).alias(HASH), expires.alias(DUE), pl.lit(None, pl.Int64).alias(CLOCK)
            )
        )

    def _keyed(self, frame: pl.DataFrame) -> pl.DataFrame:
        return frame if self._plan.key else frame.with_columns(pl.lit(0, pl.Int8).alias(_ALL))
