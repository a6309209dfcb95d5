"""Windows with fixed bounds, in three layouts of state.

``CellWindows`` fire once, at their end: cells per key and slice are all that is stored. ``PaneWindows`` may fire many
times: a pane per key and window is stored, with its trigger. ``BoundedPaneWindows`` have state limits, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import polars as pl

from eventide import _columns as c
from eventide.aggregates import Bound
from eventide.kernels.grouping import GROUP, number
from eventide.kernels.intervals import int_min
from eventide.kernels.keys import join_on_key
from eventide.operators.emission import PaneEmitter, StepTime, only_pane, window_time
from eventide.operators.retention import SIZE, RetentionPolicy
from eventide.operators.slices import Sliced, cut, grids_of, sliced, windows_of, without_late, without_late_offsets
from eventide.operators.window_logic import PaneLogic, Stamped, WindowUpdate, merge_groups, start_cells
from eventide.panes import DIFF
from eventide.plan.window_plan import WindowPlan
from eventide.state.cell_table import CellCodec, CellTable
from eventide.state.pane_log import PaneCodec
from eventide.state.pane_table import CLOCK, DUE, EMPTY_TABLE, HASH, PaneTable, row_hashes
from eventide.time import MAX, MIN
from eventide.watermarks.expiry import forget_at
from eventide.windows import Inherit, WindowKind
from eventide.windows.lateness import is_complete
from eventide.windows.rows import row_numbers


class CellWindows:
    """A bundle appends its cells unread; what the watermark completes is read, merged and dropped."""

    def __init__(self, plan: WindowPlan, kind: WindowKind, bound: Bound, results: tuple[str, ...]) -> None:
        self._plan = plan
        self._kind = kind
        self._bound = bound
        self._results = results
        self.by = [*plan.key, c.SLICE]
        self._grids = grids_of(kind)
        self.codecs = {"cells": CellCodec(c.SLICE)}

    def initial(self) -> CellTable:
        return CellTable(c.SLICE)

    def assign(self, rows: pl.DataFrame, earliest: int | None, previous: int) -> Stamped:
        """Rows to cells."""
        live = cut(self._kind, self._plan.expiry, rows, previous, earliest)
        cells, failed = start_cells(self._bound, live.rows, self.by, self._grids)
        return Stamped(cells, rows.clear(), live.late, live.outside, failed)

    def update(self, store: CellTable, stamped: Stamped, step: StepTime) -> WindowUpdate[CellTable]:
        """Take in the bundle's cells, then emit the windows that the watermark completes."""
        entered = int(stamped.cells[c.ROWS].sum())
        store = store.append(stamped.cells, lambda many: self._bound.merge(many, self.by, grids=self._grids))
        store, emitted = self._complete(store, step)
        return WindowUpdate(store, emitted, entered, stamped.late, stamped.outside, stamped.failed)

    def open(self, store: CellTable) -> int:
        return store.height

    def scan(self, store: CellTable) -> list[pl.DataFrame]:
        return [run.cells for run in store.runs]

    def next_end(self, store: CellTable, watermark: int) -> int | None:
        """The first end of a window that the watermark has not reached. The cost follows the slices, not the cells."""
        slices = store.slices(MAX)
        ends = windows_of(self._kind, pl.Series(slices))[c.END] if len(slices) else None
        return None if ends is None else int_min(ends.filter(~is_complete(ends, watermark)))

    def tables(self, store: CellTable) -> tuple[dict[str, Any], int]:
        """The cells; no clock is needed."""
        return {"cells": store}, MIN

    def store(self, tables: Mapping[str, Any], clock: int) -> CellTable:
        cells: CellTable = tables["cells"]
        return cells

    def _complete(self, store: CellTable, step: StepTime) -> tuple[CellTable, list[pl.DataFrame]]:
        slices = store.slices(step.watermark)
        if not len(slices) or step.watermark == step.previous:
            return store, []
        windows = windows_of(self._kind, pl.Series(slices))
        # A late row's slice can also belong to windows that fired before.
        complete = is_complete(pl.col(c.END), step.watermark)
        due = windows.filter(complete & ~is_complete(pl.col(c.END), step.previous))
        if due.is_empty():
            return store, []
        panes = self._merged(store.read(np.unique(due[c.SLICE].to_numpy())), due)
        needed = windows.filter(~complete)[c.SLICE].to_numpy()
        return store.drop(np.setdiff1d(slices, needed)), [self._emitted(panes)]

    def _merged(self, parts: list[pl.DataFrame], windows: pl.DataFrame) -> pl.DataFrame:
        by = [*self._plan.key, c.START, c.END]
        if self._kind.shared:
            spread = pl.concat(parts).join(windows, on=c.SLICE, how="inner", maintain_order="left")
            return self._bound.merge(spread, by)
        cells = parts[0] if len(parts) == 1 else self._bound.merge(pl.concat(parts), self.by, grids=self._grids)
        return cells.join(windows, on=c.SLICE, how="inner").drop(c.SLICE)

    def _emitted(self, panes: pl.DataFrame) -> pl.DataFrame:
        results = self._bound.results(panes)
        if c.NET in results.columns:  # all rows of the window were retracted
            results = results.filter(pl.col(c.NET) != 0)
        time = window_time(pl.col(c.END))
        if self._plan.output_time != "end":
            time = pl.coalesce(pl.col(c.HELD), time)
        return results.select(
            *self._plan.key,
            c.START,
            c.END,
            *self._results,
            *only_pane(),
            time.alias(c.PANE_TIME),
            pl.lit(True).alias(c.IS_LAST),
            pl.lit(1, pl.Int8).alias(DIFF),
        )


_DUE_BEFORE = "__due_before"
_NEW_ROWS = "__new_rows"


@dataclass(frozen=True)
class Panes:
    """The open panes and, for windows counted in rows, how many rows of each key have been seen."""

    table: PaneTable = EMPTY_TABLE
    seen: PaneTable = EMPTY_TABLE
    clock: int = MIN
    closed: PaneTable = EMPTY_TABLE  # where retention closes windows: up to where those of each key are closed


class PaneWindows(PaneLogic):
    """A bundle takes the panes that it touches out of the table, merges, fires, and puts back what stays open."""

    def __init__(self, plan: WindowPlan, kind: WindowKind | Inherit, bound: Bound, results: tuple[str, ...]) -> None:
        self._plan = plan
        self._kind = kind
        self._bound = bound
        self._emitter = PaneEmitter(plan, bound, results)
        self._identity = [*plan.key, c.START, c.END]
        self._counts = plan.window.axis == "rows" and plan.offset is None
        # Columns of a key, in addition to those of its panes, that its cells carry.
        self._of_key = [c.SEEN] if self._counts and plan.key else []
        self._of_key += [c.FORGET] if plan.forget_after is not None else []
        self.codecs = {"table": PaneCodec(tuple(self._identity)), "seen": PaneCodec(plan.key)}

    def initial(self) -> Panes:
        return Panes()

    @property
    def by(self) -> list[str]:
        """Key and slice; an inherited window is its own slice; rows of a key carry how many there are."""
        if isinstance(self._kind, Inherit):
            return self._identity
        return [*self._plan.key, c.SLICE, *self._of_key]

    def assign(self, rows: pl.DataFrame, earliest: int | None, previous: int) -> Stamped:
        """Rows to cells."""
        live = self._cut(rows, earliest, previous)
        cells, failed = start_cells(self._bound, live.rows, self.by, grids_of(self._kind))
        return Stamped(cells, rows.clear(), live.late, live.outside, failed)

    def update(self, store: Panes, stamped: Stamped, step: StepTime) -> WindowUpdate[Panes]:
        """Merge the bundle's cells into state, then emit the panes that are due."""
        forgotten = 0
        if self._counts and self._plan.key:
            rows, seen = self._numbered(stamped.rows, store.seen, step)
            seen, keys = self._without_forgotten(seen, step)
            store, stamped, forgotten = replace(store, seen=seen), self.assign(rows, None, step.previous), keys.height
        places = stamped.late, stamped.outside, stamped.failed
        entered = int(stamped.cells[c.ROWS].sum())
        added = self._added(stamped.cells, step)
        table, taken = store.table.take(row_hashes(added, self._identity), due=step.due, clock=(store.clock, step.now))
        store = replace(store, table=table, clock=step.now)
        if not taken and added.is_empty():
            return WindowUpdate(store, [], entered, *places, forgotten=forgotten)
        panes = self._combined(taken, added)
        emission = self._emitter.evaluate(panes, step, merging=False)
        open_ = emission.open.with_columns(row_hashes(emission.open, self._identity).alias(HASH))
        store = replace(store, table=store.table.put(open_.select(self._schema())))
        return WindowUpdate(store, emission.emitted, entered, *places, emission.unemitted, forgotten=forgotten)

    def tables(self, store: Panes) -> tuple[dict[str, Any], int]:
        """The panes, and the rows of each key."""
        return {"table": store.table, "seen": store.seen}, store.clock

    def store(self, tables: Mapping[str, Any], clock: int) -> Panes:
        return Panes(tables["table"], tables["seen"], clock)

    def _cut(self, rows: pl.DataFrame, earliest: int | None, previous: int) -> Sliced:
        if isinstance(self._kind, Inherit):
            expired = self._plan.expiry.is_expired(pl.col(c.END), previous)
            late = rows.filter(expired)
            return Sliced(rows.filter(~expired), late) if late.height else Sliced(rows)
        if self._counts:
            return sliced(self._kind, rows, c.AT)
        if self._plan.offset is not None:
            return without_late_offsets(self._kind, self._plan.expiry, sliced(self._kind, rows, c.AT))
        return cut(self._kind, self._plan.expiry, rows, previous, earliest)

    def _added(self, cells: pl.DataFrame, step: StepTime) -> pl.DataFrame:
        """The bundle's own partial panes: its cells, each in all of its windows that are still live."""
        if isinstance(self._kind, Inherit):
            return cells
        windows = windows_of(self._kind, cells[c.SLICE].unique())
        if not self._counts and step.offsets is None:
            windows = windows.filter(~self._plan.expiry.is_expired(pl.col(c.END), step.previous))
        if not self._kind.shared:
            return cells.join(windows, on=c.SLICE, how="inner").drop(c.SLICE)
        # Groups have no defined order. Sorted by slice, sums of floats and the order of ties are deterministic.
        spread = cells.sort(c.SLICE).join(windows, on=c.SLICE, how="inner", maintain_order="left")
        if step.offsets is not None:
            expired = self._plan.expiry.is_expired(pl.col(c.END), pl.col(c.PREVIOUS))
            spread = step.offsets.with_offsets(spread).filter(~expired).drop(c.PREVIOUS, c.REACHED)
        return self._bound.merge(spread, [*self._identity, *self.by[len(self._plan.key) + 1 :]])

    def _numbered(self, rows: pl.DataFrame, seen: PaneTable, step: StepTime) -> tuple[pl.DataFrame, PaneTable]:
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
        counts = numbered.rows.group_by(GROUP).agg(pl.len().alias(_NEW_ROWS), pl.col(c.TIME).max())
        keys = keys.join(counts, on=GROUP, how="left", maintain_order="left").with_columns(
            pl.col(c.SEEN).fill_null(0), self._forget_at(step).alias(DUE), pl.lit(None, pl.Int64).alias(CLOCK)
        )
        base = pl.Series(keys[c.SEEN]).gather(numbered.rows[GROUP])
        rank = numbered.rows.select(row_numbers(0, by=[GROUP])).to_series()
        keys = keys.with_columns((pl.col(c.SEEN) + pl.col(_NEW_ROWS)).alias(c.SEEN))
        total = pl.Series(keys[c.SEEN]).gather(numbered.rows[GROUP])
        rows = rows.with_columns((base + rank).alias(c.AT), total.alias(c.SEEN))
        if c.FORGET in self._of_key:
            rows = rows.with_columns(pl.Series(keys[DUE]).gather(numbered.rows[GROUP]).alias(c.FORGET))
        return rows, seen.put(keys.select(*key, c.SEEN, HASH, DUE, CLOCK))

    def _forget_at(self, step: StepTime) -> pl.Expr:
        """The watermark at which keys are forgotten that have rows in this bundle."""
        if self._plan.forget_after is None:
            return pl.lit(None, pl.Int64)
        return pl.max_horizontal(DUE, forget_at(pl.col(c.TIME), step.time, self._plan.forget_after))

    def _without_forgotten(self, seen: PaneTable, step: StepTime) -> tuple[PaneTable, pl.DataFrame]:
        """Divide the stored keys into those that stay and those that are forgotten, with whom their panes are due.

        A window that is open holds the last row of its key, so its panes know when the key is forgotten.
        """
        forgotten: list[pl.DataFrame] = []
        if self._plan.forget_after is not None and step.time < MAX:
            due = (step.previous_time, step.time)
            seen, forgotten = seen.take(pl.Series([], dtype=pl.UInt64), due=due, clock=(MIN, MIN))
        return seen, pl.concat(forgotten).select(self._plan.key) if forgotten else pl.DataFrame()

    def _combined(self, taken: list[pl.DataFrame], added: pl.DataFrame) -> pl.DataFrame:
        """Panes from state and the bundle's, one row per key and window."""
        added = added.with_columns(pl.col(c.ROWS).alias(c.ADDED))
        empty = pl.DataFrame(schema=self._emitter.state_schema())
        if not taken:
            return pl.concat([added, empty.clear(0)], how="diagonal")
        before = pl.concat(taken).drop(HASH, CLOCK)
        before = before.rename({DUE: _DUE_BEFORE}) if c.FORGET in self._of_key else before.drop(DUE)
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
            combined = combined.with_columns(pl.coalesce(c.FORGET, _DUE_BEFORE).alias(c.FORGET)).drop(_DUE_BEFORE)
        return combined.collect(engine="in-memory")

    def _schema(self) -> list[str]:
        return [*self._identity, *self._bound.columns, *self._emitter.state_schema(), HASH, DUE, CLOCK]


class BoundedPaneWindows(PaneWindows):
    """Rows are judged one by one, for what they may find full or closed."""

    def __init__(self, plan: WindowPlan, kind: WindowKind | Inherit, bound: Bound, results: tuple[str, ...]) -> None:
        super().__init__(plan, kind, bound, results)
        self._retention = RetentionPolicy(plan, bound, self._emitter)
        self.codecs = {name: PaneCodec(plan.key) for name in ("table", "seen", "closed")}

    def assign(self, rows: pl.DataFrame, earliest: int | None, previous: int) -> Stamped:
        """Rows with their slice."""
        live = self._cut(rows, earliest, previous)
        return Stamped(pl.DataFrame(), live.rows, live.late, live.outside)

    def update(self, store: Panes, stamped: Stamped, step: StepTime) -> WindowUpdate[Panes]:
        """Merge the rows within the limits into state, close windows beyond them, then emit the panes that are due."""
        key, late, outside, rows = list(self._plan.key), stamped.late, stamped.outside, stamped.rows
        forgotten = pl.DataFrame()
        if self._counts and key:
            rows, seen = self._numbered(rows, store.seen, step)
            seen, forgotten = self._without_forgotten(seen, step)
            # Inherited windows do not number rows.
            store, live = replace(store, seen=seen), sliced(cast("WindowKind", self._kind), rows, c.AT)
            rows, outside = live.rows, live.outside
        rows = rows.with_row_index(c.ROW)
        touched = row_hashes(rows, key)
        table, taken = store.table.take(touched, due=self._retention.due(step), clock=(store.clock, step.now))
        store = replace(store, table=table, clock=step.now)
        places = self._places(rows, taken, store, step)
        beyond = rows.filter(~pl.col(c.ROW).is_in(places[c.ROW].unique().implode()))
        added, failed = start_cells(self._bound, places, [*self._identity, *self._of_key])
        failed = None if failed is None else failed.unique(c.ROW, maintain_order=True)
        entered = rows.height - beyond.height - (0 if failed is None else failed.height)
        counts = entered, late, outside, failed
        if not taken and added.is_empty():
            store = replace(store, closed=self._retention.without_keys(store.closed, forgotten))
            return WindowUpdate(store, [], *counts, beyond=beyond, forgotten=forgotten.height)
        panes = self._combined(taken, added)
        if self._of_key:  # of all panes of the key, also those that got no row
            reached = rows.group_by(key).agg(pl.col(name).max().alias(f"{name}.new") for name in self._of_key)
            panes = join_on_key(panes, reached, key, maintain_order="left")
            panes = panes.with_columns(pl.coalesce(f"{name}.new", name).alias(name) for name in self._of_key)
            panes = panes.drop(f"{name}.new" for name in self._of_key)
        panes, table, closed = self._retention.close(panes, store.table, store.closed, step)
        emission = self._emitter.evaluate(panes, step, merging=False)
        open_ = self._retention.with_sizes(emission.open).with_columns(row_hashes(emission.open, key).alias(HASH))
        closed = self._retention.without_keys(closed, forgotten)
        store = replace(store, table=table.put(open_.select(self._schema())), closed=closed)
        return WindowUpdate(store, emission.emitted, *counts, emission.unemitted, beyond, forgotten.height)

    def tables(self, store: Panes) -> tuple[dict[str, Any], int]:
        """The panes, the rows of each key, and up to where windows are closed."""
        return {"table": store.table, "seen": store.seen, "closed": store.closed}, store.clock

    def store(self, tables: Mapping[str, Any], clock: int) -> Panes:
        return Panes(tables["table"], tables["seen"], clock, tables["closed"])

    def _cut(self, rows: pl.DataFrame, earliest: int | None, previous: int) -> Sliced:
        if isinstance(self._kind, Inherit) or self._counts or self._plan.offset is not None:
            return super()._cut(rows, earliest, previous)
        return without_late(self._kind, self._plan.expiry, sliced(self._kind, rows, c.AT), previous, earliest)

    def _places(self, rows: pl.DataFrame, taken: list[pl.DataFrame], store: Panes, step: StepTime) -> pl.DataFrame:
        """Each row in each of its windows that is live, was not closed, and has room."""
        places = self._retention.above_floors(self._live_windows(rows, step), store.closed, pl.col(c.END) - 1)
        columns = [*self._identity, c.ROWS, *self._retention.schema]
        if taken:
            held = pl.concat(taken).select(columns)
            places = places.join(held, on=self._identity, how="left", nulls_equal=True, maintain_order="left")
        else:
            places = places.with_columns(pl.lit(None, pl.Int64).alias(name) for name in (c.ROWS, SIZE))
        return self._retention.with_room(places, self._identity).drop(c.ROWS, SIZE, strict=False)

    def _live_windows(self, rows: pl.DataFrame, step: StepTime) -> pl.DataFrame:
        if isinstance(self._kind, Inherit):
            return rows
        windows = windows_of(self._kind, rows[c.SLICE].unique())
        spread = rows.join(windows, on=c.SLICE, how="inner", maintain_order="left")
        if self._counts:
            return spread
        previous = step.previous if step.offsets is None else pl.col(c.PREVIOUS)
        return spread.filter(~self._plan.expiry.is_expired(pl.col(c.END), previous))

    def _schema(self) -> list[str]:
        return [*super()._schema(), *self._retention.schema]
