"""What a state of bounded size keeps: which rows still find room, and which windows are closed to make it.

Bounds are looked at once a bundle. First, rows for windows that were closed, and rows beyond what a single window may
hold, are set aside. Then the others come in, what has expired goes, and of what is left the oldest windows are closed
until all bounds hold. The newest window of a key stays open, and a window is never closed in part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import polars as pl

from eventide.aggregates import Bound
from eventide.operators import columns as c
from eventide.operators.firing import EVICTED, Firing, Moment
from eventide.operators.slicing import windows_of
from eventide.plan.plan import Plan
from eventide.state.keys import join_on_key
from eventide.state.panes import CLOCK, DUE, HASH, PaneTable, Positions, hashes
from eventide.state.sizes import sizes
from eventide.time import MIN
from eventide.windows import Inherit, Sessions

SIZE = "__size"
FLOOR = "__floor"  # the end of the last window of a key that was closed
_ALL = "__all"  # stands for the key, where there is none
_AT = "__pane"


def split_late(plan: Plan, late: pl.DataFrame, was: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows that came too late: those that are late, and those whose last window would be out of retention by now."""
    if plan.late_is_out_of_retention:
        return late.clear(), late
    if plan.retention is None or plan.retention.time is None or plan.window.axis == "rows" or late.is_empty():
        return late, late.clear()
    gone = replace(plan.lifetime, lateness=plan.retention.time).expired(pl.col(c.END), was)
    beside = late.with_columns(_last_end(plan, late).alias(c.END))
    return late.filter(beside.select(~gone).to_series()), late.filter(beside.select(gone).to_series())


def _last_end(plan: Plan, rows: pl.DataFrame) -> pl.Series:
    if isinstance(plan.window, Inherit):
        return rows[c.END]
    if isinstance(plan.window, Sessions):
        gap = plan.window.gap
        return rows.select(pl.col(c.AT) + (pl.col("__gap") if isinstance(gap, str) else gap)).to_series()
    slices = rows.select(plan.window.slice_of(pl.col(c.AT)).alias(c.SLICE))
    ends = windows_of(plan.window, slices[c.SLICE].unique()).group_by(c.SLICE).agg(pl.col(c.END).max())
    return slices.join(ends, on=c.SLICE, how="left", maintain_order="left")[c.END]


class Retaining:
    """The bounds of a plan."""

    def __init__(self, plan: Plan, bound: Bound, firing: Firing) -> None:
        assert plan.retention is not None
        self._plan = plan
        self._bound = bound
        self._firing = firing
        self._rows = plan.retention.rows
        self._bytes = plan.retention.bytes
        self._key = list(plan.key) or [_ALL]
        self._in_time = plan.window.axis == "time"
        # Where each key numbers its rows, no watermark says that a position has passed.
        self._numbers_by_key = not self._in_time and plan.offset is None and bool(plan.key) and not plan.counts_all_keys
        # Windows that end at a row are as old as the latest of their rows.
        self._longest = None if self._in_time else plan.retention.time

    def due(self, moment: Moment) -> tuple[int, int] | Callable[[pl.DataFrame], Positions]:
        """What finds the panes that the bundle makes due."""
        due = moment.due
        if self._longest is None:
            return due

        def found(run: pl.DataFrame) -> Positions:
            outlived = np.flatnonzero(run.select(self._outlived(moment)).to_series().to_numpy())
            if callable(due):
                return np.union1d(outlived, due(run))
            fallen = (pl.col(DUE) > due[0]) & (pl.col(DUE) <= due[1])
            return np.union1d(outlived, np.flatnonzero(run.select(fallen.fill_null(False)).to_series().to_numpy()))

        return found

    def _outlived(self, moment: Moment) -> pl.Expr:
        if self._longest is None or moment.stands == MIN:
            return pl.lit(False)
        return pl.col(c.HELD) <= moment.stands - self._longest

    def with_sizes(self, panes: pl.DataFrame) -> pl.DataFrame:
        """Panes with their size, where it counts."""
        if self._bytes is None:
            return panes
        schema = panes.schema
        return panes.with_columns(
            sizes({name: schema[name] for name in (*self._plan.key, *self._bound.columns)}).alias(SIZE)
        )

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """The column that a pane has besides others'."""
        return {} if self._bytes is None else {SIZE: pl.Int64()}

    def above_floors(self, places: pl.DataFrame, closed: PaneTable, last: pl.Expr) -> pl.DataFrame:
        """Places whose ``last`` position is not in what was closed before."""
        _, known = closed.take(hashes(places, self._plan.key), due=(MIN, MIN), clock=(MIN, MIN))
        if not known:
            return places
        floors = pl.concat(known).select(*self._key, FLOOR)
        beside = join_on_key(self._keyed(places), floors, self._key, maintain_order="left")
        return beside.filter((last >= pl.col(FLOOR)).fill_null(True)).select(places.columns)

    def without_keys(self, closed: PaneTable, keys: pl.DataFrame) -> PaneTable:
        """What is closed, without what is known of some keys."""
        if keys.is_empty():
            return closed
        closed, known = closed.take(hashes(keys, self._plan.key), due=(MIN, MIN), clock=(MIN, MIN))
        others = [frame.join(keys, on=keys.columns, how="anti", nulls_equal=True) for frame in known]
        return closed.put(pl.concat(others)) if others else closed

    def with_room(self, places: pl.DataFrame, window: list[str]) -> pl.DataFrame:
        """Places (one a row and window, in order of arrival) in windows that hold less than a window may.

        Beside each place stands what its window holds already, in ``ROWS`` and ``SIZE``.
        """
        if self._rows is not None:
            held = pl.col(c.ROWS).fill_null(0)
            taken = pl.int_range(1, pl.len() + 1).over(window) if window else pl.int_range(1, pl.len() + 1)
            places = places.filter(held + taken <= self._rows)
        if self._bytes is not None:
            places = places.filter(pl.col(SIZE).fill_null(0) < self._bytes)
        return places

    def close(
        self, panes: pl.DataFrame, table: PaneTable, closed: PaneTable, moment: Moment
    ) -> tuple[pl.DataFrame, PaneTable, PaneTable]:
        """Mark the panes that must go; some may have to come out of the table for it."""
        panes = self.with_sizes(panes).with_columns(self._outlived(moment).alias(EVICTED))
        if self._rows is not None:
            panes = self._oldest_of_key(panes, moment, self._rows)
        if self._bytes is not None:
            panes, table = self._oldest_of_all(panes, table, moment, self._bytes)
        return panes, table, self._with_floors(closed, panes.filter(EVICTED), moment)

    def _oldest_of_key(self, panes: pl.DataFrame, moment: Moment, most: int) -> pl.DataFrame:
        live = self._keyed(self._live(panes, moment).filter(~pl.col(EVICTED)))
        newest_first = live.sort(c.END, c.START, descending=True, maintain_order=True)
        held = pl.col(c.ROWS).cum_sum().over(self._key)
        first = pl.int_range(pl.len()).over(self._key) == 0
        return self._marked(panes, newest_first.filter((held > most) & ~first))

    def _oldest_of_all(
        self, panes: pl.DataFrame, table: PaneTable, moment: Moment, most: int
    ) -> tuple[pl.DataFrame, PaneTable]:
        live = self._live(panes, moment).filter(~pl.col(EVICTED))
        resting = table.scan()
        total = int(live[SIZE].sum()) + (0 if resting is None else int(resting[SIZE].sum()))
        if total <= most:
            return panes, table
        window = [*self._plan.key, c.START, c.END]
        everything = live.select(*window, SIZE)
        if resting is not None:
            everything = pl.concat([everything, resting.select(*window, SIZE)])
        order = [c.END, c.START, *self._plan.key]
        newest_first = everything.sort(order, descending=True, nulls_last=True, maintain_order=True)
        gone = newest_first.filter((pl.col(SIZE).cum_sum() > most) & (pl.int_range(pl.len()) > 0)).select(window)

        def among(run: pl.DataFrame) -> Positions:
            where = run.select(window).with_row_index(_AT).join(gone, on=window, how="semi", nulls_equal=True)
            return where[_AT].to_numpy()

        table, more = table.take(pl.Series([], dtype=pl.UInt64), due=among, clock=(MIN, MIN))
        panes = self._marked(panes, live.join(gone, on=window, how="semi", nulls_equal=True))
        if more:
            out = pl.concat(more).drop(HASH, DUE, CLOCK)
            out = out.with_columns(pl.lit(True).alias(EVICTED), pl.lit(0, pl.Int64).alias(c.ADDED))
            panes = pl.concat([panes, out], how="diagonal")
        return panes, table

    def _live(self, panes: pl.DataFrame, moment: Moment) -> pl.DataFrame:
        return panes.with_row_index(_AT).filter(~self._firing.expired(panes, moment))

    def _marked(self, panes: pl.DataFrame, gone: pl.DataFrame) -> pl.DataFrame:
        if gone.is_empty():
            return panes
        return panes.with_columns(pl.col(EVICTED) | pl.int_range(pl.len()).is_in(gone[_AT].implode()))

    def _with_floors(self, closed: PaneTable, gone: pl.DataFrame, moment: Moment) -> PaneTable:
        """Up to where the windows of each key are closed. A floor that has expired is not needed: rows are late."""
        due = (MIN, MIN) if self._numbers_by_key else moment.due
        closed, known = closed.take(hashes(gone, self._plan.key), due=due, clock=(MIN, MIN))
        floors = [frame.select(*self._key, FLOOR) for frame in known]
        floors += [self._keyed(gone).select(*self._key, pl.col(c.END).alias(FLOOR))] if gone.height else []
        if not floors:
            return closed
        highest = pl.concat(floors).group_by(self._key, maintain_order=True).agg(pl.col(FLOOR).max())
        expires = pl.lit(None, pl.Int64) if self._numbers_by_key else self._plan.lifetime.expires_at(pl.col(FLOOR))
        if not self._numbers_by_key:
            beside = highest if moment.reach is None else moment.reach.beside(highest)
            watermark = moment.watermark if moment.reach is None else pl.col(c.REACHED)
            expired = self._plan.lifetime.expired(pl.col(FLOOR), watermark)
            highest = beside.filter(~expired).select(highest.columns)
        return closed.put(
            highest.with_columns(
                hashes(highest, self._plan.key).alias(HASH), expires.alias(DUE), pl.lit(None, pl.Int64).alias(CLOCK)
            )
        )

    def _keyed(self, frame: pl.DataFrame) -> pl.DataFrame:
        return frame if self._plan.key else frame.with_columns(pl.lit(0, pl.Int8).alias(_ALL))
