"""Windows that fire exactly once, at their end: cells per slice are all that rests in state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from eventide.aggregates import Bound
from eventide.operators import columns as c
from eventide.operators.firing import Moment
from eventide.operators.outcome import Outcome, Stamped, start_cells
from eventide.operators.slicing import cut, grids_of, windows_of
from eventide.panes import ON_TIME
from eventide.plan.plan import Plan
from eventide.state.cell_pages import CellForm
from eventide.state.cells import Cells
from eventide.time import MAX, MIN
from eventide.windows import WindowKind


class FireOnce:
    """A bundle appends its cells unread; what the watermark completes is read, merged and dropped."""

    def __init__(self, plan: Plan, kind: WindowKind, bound: Bound, results: tuple[str, ...]) -> None:
        self._plan = plan
        self._kind = kind
        self._bound = bound
        self._results = results
        self.by = [*plan.key, c.SLICE]
        self._grids = grids_of(kind)
        self.forms = {"cells": CellForm(c.SLICE)}

    def initial(self) -> Cells:
        """No cells."""
        return Cells(c.SLICE)

    def stamp(self, rows: pl.DataFrame, earliest: int | None, was: int) -> Stamped:
        """Rows to cells."""
        live = cut(self._kind, self._plan.lifetime, rows, was, earliest)
        cells, failed = start_cells(self._bound, live.rows, self.by, self._grids)
        return Stamped(cells, rows.clear(), live.late, live.outside, failed)

    def absorb(self, store: Cells, stamped: Stamped, moment: Moment) -> Outcome[Cells]:
        """Take in the bundle's cells, then emit the windows that the watermark completes."""
        entered = int(stamped.cells[c.ROWS].sum())
        store = store.append(stamped.cells, lambda many: self._bound.merge(many, self.by, grids=self._grids))
        store, emitted = self._complete(store, moment)
        return Outcome(store, emitted, entered, stamped.late, stamped.outside, stamped.failed)

    def open(self, store: Cells) -> int:
        """How many cells rest in state."""
        return store.height

    def scan(self, store: Cells) -> list[pl.DataFrame]:
        """The cells that rest in state."""
        return [run.cells for run in store.runs]

    def next_end(self, store: Cells, watermark: int) -> int | None:
        """The first end of a window that the watermark has not reached. The cost follows the slices, not the cells."""
        slices = store.slices(MAX)
        ends = windows_of(self._kind, pl.Series(slices))[c.END] if len(slices) else None
        end = None if ends is None else ends.filter(ends > watermark).min()
        return None if end is None else int(end)  # type: ignore[arg-type]

    def tables(self, store: Cells) -> tuple[dict[str, Any], int]:
        """The cells; no clock is needed."""
        return {"cells": store}, MIN

    def store(self, tables: Mapping[str, Any], clock: int) -> Cells:
        """The cells."""
        cells: Cells = tables["cells"]
        return cells

    def _complete(self, store: Cells, moment: Moment) -> tuple[Cells, list[pl.DataFrame]]:
        slices = store.slices(moment.watermark)
        if not len(slices) or moment.watermark == moment.was:
            return store, []
        windows = windows_of(self._kind, pl.Series(slices))
        # A late row's slice can also belong to windows that fired before.
        complete = self._plan.lifetime.complete(pl.col(c.END), moment.watermark)
        due = windows.filter(complete & ~self._plan.lifetime.complete(pl.col(c.END), moment.was))
        if due.is_empty():
            return store, []
        panes = self._merged(store.read(np.unique(due[c.SLICE].to_numpy())), due)
        needed = windows.filter(~complete)[c.SLICE].to_numpy()
        return store.drop(np.setdiff1d(slices, needed)), [self._told(panes)]

    def _merged(self, parts: list[pl.DataFrame], windows: pl.DataFrame) -> pl.DataFrame:
        by = [*self._plan.key, c.START, c.END]
        if self._kind.shared:
            spread = pl.concat(parts).join(windows, on=c.SLICE, how="inner", maintain_order="left")
            return self._bound.merge(spread, by)
        cells = parts[0] if len(parts) == 1 else self._bound.merge(pl.concat(parts), self.by, grids=self._grids)
        return cells.join(windows, on=c.SLICE, how="inner").drop(c.SLICE)

    def _told(self, panes: pl.DataFrame) -> pl.DataFrame:
        results = self._bound.results(panes)
        end = pl.col(c.END)
        time: pl.Expr = pl.when(end < MAX).then(end - 1)
        if self._plan.output_time != "end":
            time = pl.coalesce(pl.col(c.HELD), time)
        return results.select(
            *self._plan.key,
            c.START,
            c.END,
            *self._results,
            pl.lit(ON_TIME).alias(c.TIMING),
            pl.lit(0, pl.Int32).alias(c.INDEX),
            pl.lit(0, pl.Int32).alias(c.NONSPECULATIVE),
            pl.lit(True).alias(c.IS_FIRST),
            time.alias(c.PANE_TIME),
            pl.lit(True).alias(c.IS_LAST),
            pl.lit(1, pl.Int8).alias("diff"),
        )
