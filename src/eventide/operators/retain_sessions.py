"""Sessions of bounded size: as sessions that grow and merge, but rows are judged one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from eventide.aggregates import Bound
from eventide.operators import columns as c
from eventide.operators.firing import Moment
from eventide.operators.merge_sessions import OLD, MergeSessions, OpenSessions
from eventide.operators.outcome import Outcome, Stamped, start_cells
from eventide.operators.retaining import SIZE, Retaining
from eventide.operators.unions import RUN
from eventide.plan.plan import Plan
from eventide.state.pane_pages import PaneForm
from eventide.state.panes import Positions
from eventide.windows import Sessions


class RetainSessions(MergeSessions):
    """Rows beyond a session's room do not join it, and do not hold it together."""

    def __init__(self, plan: Plan, kind: Sessions, bound: Bound, results: tuple[str, ...]) -> None:
        super().__init__(plan, kind, bound, results)
        self._retaining = Retaining(plan, bound, self._firing)
        self.forms = {name: PaneForm(plan.key) for name in ("table", "closed")}

    def stamp(self, rows: pl.DataFrame, earliest: int | None, was: int) -> Stamped:
        """Rows as they are: state judges them."""
        return Stamped(pl.DataFrame(), rows)

    def absorb(self, store: OpenSessions, stamped: Stamped, moment: Moment) -> Outcome[OpenSessions]:
        """Take in the rows that find room, merge, close what must go, then fire what is to fire."""
        rows = stamped.rows.with_row_index(c.ROW)
        store, before = self._taken(store, rows, moment)
        rows, late, beyond = self._judged(rows, before, store, moment)
        rows = self._sliced(rows)
        cells, failed = start_cells(self._bound, rows, self.by)
        outcome = self._absorbed(store, before, Stamped(cells, rows, late, failed=failed), moment)
        return replace(outcome, beyond=beyond)

    def tables(self, store: OpenSessions) -> tuple[dict[str, Any], int]:
        """The sessions, and up to where they are closed."""
        return {"table": store.table, "closed": store.closed}, store.clock

    def store(self, tables: Mapping[str, Any], clock: int) -> OpenSessions:
        """The sessions."""
        return OpenSessions(tables["table"], clock, tables["closed"])

    def _judged(
        self, rows: pl.DataFrame, before: pl.DataFrame, store: OpenSessions, moment: Moment
    ) -> tuple[pl.DataFrame, pl.DataFrame | None, pl.DataFrame]:
        """Rows that find room in the session that all of the bundle's rows would make; late ones; those beyond."""
        gap = self._kind.gap
        until = pl.col(c.AT) + (pl.col("__gap") if isinstance(gap, str) else gap)
        alone = rows.with_columns(pl.col(c.AT).alias(c.START), until.alias(c.END))
        held = [name for name in (c.ROWS, SIZE) if name in before.columns]
        both = self._runs(before, alone.select(*self._key, c.AT, c.START, c.END, c.ROW), held)
        sessions = both.group_by(RUN).agg(pl.col(c.END).max(), *(pl.col(name).filter(OLD).sum() for name in held))
        places = (
            both.filter(~pl.col(OLD)).select(*self._key, c.AT, c.ROW, RUN).join(sessions, on=RUN, maintain_order="left")
        )
        was: int | pl.Expr = moment.was
        if moment.reach is not None:
            was, places = pl.col(c.WAS), moment.reach.beside(places)
        gone = self._plan.lifetime.expired(pl.col(c.END), was)
        late = _of(rows, places.filter(gone))
        # A row inside of what was closed would have joined it.
        live = self._retaining.above_floors(places.filter(~gone), store.closed, pl.col(c.AT))
        kept = _of(rows, self._retaining.with_room(live, [RUN]))
        beyond = rows.filter(~pl.col(c.ROW).is_in(pl.concat([late[c.ROW], kept[c.ROW]]).implode()))
        return kept, late if late.height else None, beyond

    def _bounded(
        self, store: OpenSessions, sessions: pl.DataFrame, moment: Moment
    ) -> tuple[OpenSessions, pl.DataFrame]:
        sessions, table, closed = self._retaining.close(sessions, store.table, store.closed, moment)
        return replace(store, table=table, closed=closed), sessions

    def _due(self, moment: Moment) -> tuple[int, int] | Callable[[pl.DataFrame], Positions]:
        return self._retaining.due(moment)

    def _resting(self, sessions: pl.DataFrame) -> pl.DataFrame:
        return super()._resting(self._retaining.with_sizes(sessions))

    def _schema(self, rows: pl.DataFrame) -> dict[str, pl.DataType]:
        return super()._schema(rows) | self._retaining.schema


def _of(rows: pl.DataFrame, places: pl.DataFrame) -> pl.DataFrame:
    return rows.filter(pl.col(c.ROW).is_in(places[c.ROW].implode()))
