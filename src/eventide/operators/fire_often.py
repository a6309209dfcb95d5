"""Windows that may fire many times: one pane per key and window rests in state, with its trigger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from eventide.aggregates import Bound
from eventide.aggregates.numbering import GROUP, number
from eventide.operators import columns as c
from eventide.operators.firing import Firing, Moment
from eventide.operators.outcome import Outcome, Stamped, merge_groups, start_cells
from eventide.operators.slicing import Sliced, cut, grids_of, sliced, windows_of, without_late_offsets
from eventide.plan.plan import Plan
from eventide.state.keys import join_on_key
from eventide.state.pane_pages import PaneForm
from eventide.state.panes import CLOCK, DUE, EMPTY, HASH, PaneTable, hashes
from eventide.time import MAX, MIN
from eventide.watermarks.forget import forget_at
from eventide.windows import Inherit, WindowKind

_WAS_DUE = "__was_due"


@dataclass(frozen=True)
class Panes:
    """The open panes and, for windows counted in rows, how many rows of each key have been seen."""

    table: PaneTable = EMPTY
    seen: PaneTable = EMPTY
    clock: int = MIN
    closed: PaneTable = EMPTY  # where retention closes windows: up to where those of each key are closed


class FireOften:
    """A bundle takes the panes that it touches out of the table, merges, fires, and puts back what stays open."""

    def __init__(self, plan: Plan, kind: WindowKind | Inherit, bound: Bound, results: tuple[str, ...]) -> None:
        self._plan = plan
        self._kind = kind
        self._bound = bound
        self._firing = Firing(plan, bound, results)
        self._identity = [*plan.key, c.START, c.END]
        self._counts = plan.window.axis == "rows" and plan.offset is None
        # What is known of a key beside its panes, and goes with its cells.
        self._of_key = [c.SEEN] if self._counts and plan.key else []
        self._of_key += [c.FORGET] if plan.forget_after is not None else []
        self.forms = {"table": PaneForm(tuple(self._identity)), "seen": PaneForm(plan.key)}

    def initial(self) -> Panes:
        """No panes."""
        return Panes()

    def open(self, store: Panes) -> int:
        """How many panes are open."""
        return store.table.height

    def scan(self, store: Panes) -> list[pl.DataFrame]:
        """The open panes."""
        panes = store.table.scan()
        return [] if panes is None else [panes]

    @property
    def by(self) -> list[str]:
        """Key and slice; an inherited window is its own slice; rows of a key carry how many there are."""
        if isinstance(self._kind, Inherit):
            return self._identity
        return [*self._plan.key, c.SLICE, *self._of_key]

    def stamp(self, rows: pl.DataFrame, earliest: int | None, was: int) -> Stamped:
        """Rows to cells."""
        live = self._cut(rows, earliest, was)
        cells, failed = start_cells(self._bound, live.rows, self.by, grids_of(self._kind))
        return Stamped(cells, rows.clear(), live.late, live.outside, failed)

    def absorb(self, store: Panes, stamped: Stamped, moment: Moment) -> Outcome[Panes]:
        """Take in the bundle's cells, then fire what is to fire."""
        forgotten = 0
        if self._counts and self._plan.key:
            rows, seen = self._numbered(stamped.rows, store.seen, moment)
            seen, keys = self._without_forgotten(seen, moment)
            store, stamped, forgotten = replace(store, seen=seen), self.stamp(rows, None, moment.was), keys.height
        places = stamped.late, stamped.outside, stamped.failed
        entered = int(stamped.cells[c.ROWS].sum())
        added = self._added(stamped.cells, moment)
        table, taken = store.table.take(hashes(added, self._identity), due=moment.due, clock=(store.clock, moment.now))
        store = replace(store, table=table, clock=moment.now)
        if not taken and added.is_empty():
            return Outcome(store, [], entered, *places, forgotten=forgotten)
        panes = self._combined(taken, added)
        fired = self._firing.fire(panes, moment, merging=False)
        open_ = fired.open.with_columns(hashes(fired.open, self._identity).alias(HASH))
        store = replace(store, table=store.table.put(open_.select(self._schema())))
        return Outcome(store, fired.emitted, entered, *places, fired.unemitted, forgotten=forgotten)

    def tables(self, store: Panes) -> tuple[dict[str, Any], int]:
        """The panes, and the rows of each key."""
        return {"table": store.table, "seen": store.seen}, store.clock

    def store(self, tables: Mapping[str, Any], clock: int) -> Panes:
        """The panes."""
        return Panes(tables["table"], tables["seen"], clock)

    def _cut(self, rows: pl.DataFrame, earliest: int | None, was: int) -> Sliced:
        if isinstance(self._kind, Inherit):
            gone = self._plan.lifetime.expired(pl.col(c.END), was)
            late = rows.filter(gone)
            return Sliced(rows.filter(~gone), late) if late.height else Sliced(rows)
        if self._counts:
            return sliced(self._kind, rows, c.AT)
        if self._plan.offset is not None:
            return without_late_offsets(self._kind, self._plan.lifetime, sliced(self._kind, rows, c.AT))
        return cut(self._kind, self._plan.lifetime, rows, was, earliest)

    def _added(self, cells: pl.DataFrame, moment: Moment) -> pl.DataFrame:
        """The bundle's own partial panes: its cells, each in all of its windows that are still live."""
        if isinstance(self._kind, Inherit):
            return cells
        windows = windows_of(self._kind, cells[c.SLICE].unique())
        if not self._counts and moment.reach is None:
            windows = windows.filter(~self._plan.lifetime.expired(pl.col(c.END), moment.was))
        if not self._kind.shared:
            return cells.join(windows, on=c.SLICE, how="inner").drop(c.SLICE)
        # Groups come in any order. In that of their slices floats add up alike each time, and ties are in order.
        spread = cells.sort(c.SLICE).join(windows, on=c.SLICE, how="inner", maintain_order="left")
        if moment.reach is not None:
            gone = self._plan.lifetime.expired(pl.col(c.END), pl.col(c.WAS))
            spread = moment.reach.beside(spread).filter(~gone).drop(c.WAS, c.REACHED)
        return self._bound.merge(spread, [*self._identity, *self.by[len(self._plan.key) + 1 :]])

    def _numbered(self, rows: pl.DataFrame, seen: PaneTable, moment: Moment) -> tuple[pl.DataFrame, PaneTable]:
        """Each row's number among the rows of its key, and how many of the key there are with this bundle."""
        key = list(self._plan.key)
        if rows.is_empty():
            return rows.with_columns(pl.lit(0, pl.Int64).alias(name) for name in self._of_key), seen
        numbered = number(rows, key)
        keys = numbered.keys.with_columns(numbered.keys.hash_rows().alias(HASH)).with_row_index(GROUP)
        seen, known = seen.take(keys[HASH], due=(MIN, MIN), clock=(MIN, MIN))
        if known:
            before = pl.concat(known)
            keys = join_on_key(keys, before.select(*key, c.SEEN, DUE), key, maintain_order="left")
            others = before.join(keys.select(key), on=key, how="anti", nulls_equal=True)
            seen = seen.put(others)
        else:
            keys = keys.with_columns(pl.lit(0, pl.Int64).alias(c.SEEN), pl.lit(None, pl.Int64).alias(DUE))
        counts = numbered.rows.group_by(GROUP).agg(pl.len().alias("__new"), pl.col(c.TIME).max())
        keys = keys.join(counts, on=GROUP, how="left", maintain_order="left").with_columns(
            pl.col(c.SEEN).fill_null(0), self._forget_at(moment).alias(DUE), pl.lit(None, pl.Int64).alias(CLOCK)
        )
        base = pl.Series(keys[c.SEEN]).gather(numbered.rows[GROUP])
        rank = numbered.rows.select(pl.int_range(1, pl.len() + 1).over(GROUP)).to_series()
        keys = keys.with_columns((pl.col(c.SEEN) + pl.col("__new")).alias(c.SEEN))
        total = pl.Series(keys[c.SEEN]).gather(numbered.rows[GROUP])
        rows = rows.with_columns((base + rank).alias(c.AT), total.alias(c.SEEN))
        if c.FORGET in self._of_key:
            rows = rows.with_columns(pl.Series(keys[DUE]).gather(numbered.rows[GROUP]).alias(c.FORGET))
        return rows, seen.put(keys.select(*key, c.SEEN, HASH, DUE, CLOCK))

    def _forget_at(self, moment: Moment) -> pl.Expr:
        """The watermark at which keys are forgotten that have rows in this bundle."""
        if self._plan.forget_after is None:
            return pl.lit(None, pl.Int64)
        return pl.max_horizontal(DUE, forget_at(pl.col(c.TIME), moment.stands, self._plan.forget_after))

    def _without_forgotten(self, seen: PaneTable, moment: Moment) -> tuple[PaneTable, pl.DataFrame]:
        """What is known of the keys that stay, and the keys that are forgotten. Their panes are due with them.

        A window that is open holds the last row of its key, so its panes know when the key is forgotten.
        """
        gone: list[pl.DataFrame] = []
        if self._plan.forget_after is not None and moment.stands < MAX:
            due = (moment.stood, moment.stands)
            seen, gone = seen.take(pl.Series([], dtype=pl.UInt64), due=due, clock=(MIN, MIN))
        return seen, pl.concat(gone).select(self._plan.key) if gone else pl.DataFrame()

    def _combined(self, taken: list[pl.DataFrame], added: pl.DataFrame) -> pl.DataFrame:
        """Panes from state and the bundle's, one row per key and window."""
        added = added.with_columns(pl.col(c.ROWS).alias(c.ADDED))
        empty = pl.DataFrame(schema=self._firing.state_schema())
        if not taken:
            return pl.concat([added, empty.clear(0)], how="diagonal")
        before = pl.concat(taken).drop(HASH, CLOCK)
        before = before.rename({DUE: _WAS_DUE}) if c.FORGET in self._of_key else before.drop(DUE)
        carried = [name for name in self._of_key if name in added.columns]
        both = pl.concat([before.select(*self._identity, *self._bound.columns), added], how="diagonal")
        rows, keys, _ = number(both, self._identity)
        merged = merge_groups(self._bound, rows, [GROUP], self._identity)
        state = before.drop(self._identity, *self._bound.columns).with_columns(rows[GROUP].head(before.height))
        news = rows.slice(before.height).select(GROUP, c.ADDED, *carried)
        combined = (
            keys.lazy()
            .with_row_index(GROUP)
            .join(merged.lazy(), on=GROUP, how="left")
            .join(state.lazy(), on=GROUP, how="left")
            .join(news.lazy(), on=GROUP, how="left")
            .with_columns(pl.col(c.ADDED).fill_null(0))
            .drop(GROUP)
        )
        if c.FORGET in self._of_key:
            combined = combined.with_columns(pl.coalesce(c.FORGET, _WAS_DUE).alias(c.FORGET)).drop(_WAS_DUE)
        return combined.collect(engine="in-memory")

    def _schema(self) -> list[str]:
        return [*self._identity, *self._bound.columns, *self._firing.state_schema(), HASH, DUE, CLOCK]
