"""Windows of bounded size: as windows that may fire many times, but the panes of a key are taken out together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from eventide.aggregates import Bound
from eventide.operators import columns as c
from eventide.operators.fire_often import FireOften, Panes
from eventide.operators.firing import Moment
from eventide.operators.outcome import Outcome, Stamped, start_cells
from eventide.operators.retaining import SIZE, Retaining
from eventide.operators.slicing import Sliced, sliced, windows_of, without_late
from eventide.plan.plan import Plan
from eventide.state.keys import join_on_key
from eventide.state.pane_pages import PaneForm
from eventide.state.panes import HASH, hashes
from eventide.windows import Inherit, WindowKind


class RetainWindows(FireOften):
    """Rows are judged one by one, for what they may find full or closed."""

    def __init__(self, plan: Plan, kind: WindowKind | Inherit, bound: Bound, results: tuple[str, ...]) -> None:
        super().__init__(plan, kind, bound, results)
        self._retaining = Retaining(plan, bound, self._firing)
        self.forms = {name: PaneForm(plan.key) for name in ("table", "seen", "closed")}

    def stamp(self, rows: pl.DataFrame, earliest: int | None, was: int) -> Stamped:
        """Rows with their slice."""
        live = self._cut(rows, earliest, was)
        return Stamped(pl.DataFrame(), live.rows, live.late, live.outside)

    def absorb(self, store: Panes, stamped: Stamped, moment: Moment) -> Outcome[Panes]:
        """Take in the rows that find room, close what must go, then fire what is to fire."""
        key, late, outside, rows = list(self._plan.key), stamped.late, stamped.outside, stamped.rows
        forgotten = pl.DataFrame()
        if self._counts and key:
            rows, seen = self._numbered(rows, store.seen, moment)
            seen, forgotten = self._without_forgotten(seen, moment)
            store, live = replace(store, seen=seen), sliced(self._kind, rows, c.AT)  # type: ignore[arg-type]
            rows, outside = live.rows, live.outside
        rows = rows.with_row_index(c.ROW)
        touched = hashes(rows, key)
        table, taken = store.table.take(touched, due=self._retaining.due(moment), clock=(store.clock, moment.now))
        store = replace(store, table=table, clock=moment.now)
        places = self._places(rows, taken, store, moment)
        beyond = rows.filter(~pl.col(c.ROW).is_in(places[c.ROW].unique().implode()))
        added, failed = start_cells(self._bound, places, [*self._identity, *self._of_key])
        failed = None if failed is None else failed.unique(c.ROW, maintain_order=True)
        entered = rows.height - beyond.height - (0 if failed is None else failed.height)
        found = entered, late, outside, failed
        if not taken and added.is_empty():
            store = replace(store, closed=self._retaining.without_keys(store.closed, forgotten))
            return Outcome(store, [], *found, beyond=beyond, forgotten=forgotten.height)
        panes = self._combined(taken, added)
        if self._of_key:  # of all panes of the key, also those that got no row
            reached = rows.group_by(key).agg(pl.col(name).max().alias(f"{name}.new") for name in self._of_key)
            panes = join_on_key(panes, reached, key, maintain_order="left")
            panes = panes.with_columns(pl.coalesce(f"{name}.new", name).alias(name) for name in self._of_key)
            panes = panes.drop(f"{name}.new" for name in self._of_key)
        panes, table, closed = self._retaining.close(panes, store.table, store.closed, moment)
        fired = self._firing.fire(panes, moment, merging=False)
        open_ = self._retaining.with_sizes(fired.open).with_columns(hashes(fired.open, key).alias(HASH))
        closed = self._retaining.without_keys(closed, forgotten)
        store = replace(store, table=table.put(open_.select(self._schema())), closed=closed)
        return Outcome(store, fired.emitted, *found, fired.unemitted, beyond, forgotten.height)

    def tables(self, store: Panes) -> tuple[dict[str, Any], int]:
        """The panes, the rows of each key, and up to where windows are closed."""
        return {"table": store.table, "seen": store.seen, "closed": store.closed}, store.clock

    def store(self, tables: Mapping[str, Any], clock: int) -> Panes:
        """The panes."""
        return Panes(tables["table"], tables["seen"], clock, tables["closed"])

    def _cut(self, rows: pl.DataFrame, earliest: int | None, was: int) -> Sliced:
        if isinstance(self._kind, Inherit) or self._counts or self._plan.offset is not None:
            return super()._cut(rows, earliest, was)
        return without_late(self._kind, self._plan.lifetime, sliced(self._kind, rows, c.AT), was, earliest)

    def _places(self, rows: pl.DataFrame, taken: list[pl.DataFrame], store: Panes, moment: Moment) -> pl.DataFrame:
        """Each row in each of its windows that is live, was not closed, and has room."""
        places = self._retaining.above_floors(self._live_windows(rows, moment), store.closed, pl.col(c.END) - 1)
        own = [*self._identity, c.ROWS, *self._retaining.schema]
        if taken:
            held = pl.concat(taken).select(own)
            places = places.join(held, on=self._identity, how="left", nulls_equal=True, maintain_order="left")
        else:
            places = places.with_columns(pl.lit(None, pl.Int64).alias(name) for name in (c.ROWS, SIZE))
        return self._retaining.with_room(places, self._identity).drop(c.ROWS, SIZE, strict=False)

    def _live_windows(self, rows: pl.DataFrame, moment: Moment) -> pl.DataFrame:
        if isinstance(self._kind, Inherit):
            return rows
        windows = windows_of(self._kind, rows[c.SLICE].unique())
        spread = rows.join(windows, on=c.SLICE, how="inner", maintain_order="left")
        if self._counts:
            return spread
        was = moment.was if moment.reach is None else pl.col(c.WAS)
        return spread.filter(~self._plan.lifetime.expired(pl.col(c.END), was))

    def _schema(self) -> list[str]:
        return [*super()._schema(), *self._retaining.schema]
