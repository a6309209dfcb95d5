"""Sessions: windows that grow and merge. What is open of a touched key is taken out, merged anew, and put back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from eventide.aggregates import Bound
from eventide.aggregates.grouping import group
from eventide.operators import columns as c
from eventide.operators.firing import FINISHED, INDEX, LAST, MOVED, NONSPECULATIVE, PENDING, Firing, Moment
from eventide.operators.hidden import FIRST, UNTIL
from eventide.operators.outcome import Outcome, Stamped, merge_groups, start_cells
from eventide.operators.unions import RUN, may_prove_late, with_runs
from eventide.plan.plan import Plan
from eventide.state.pane_pages import PaneForm
from eventide.state.panes import CLOCK, DUE, EMPTY, HASH, PaneTable, Positions, hashes
from eventide.time import MIN
from eventide.triggers import Finish
from eventide.windows import Sessions
from eventide.windows.kind import floor

OLD = "__old"


@dataclass(frozen=True)
class OpenSessions:
    """The open sessions."""

    table: PaneTable = EMPTY
    clock: int = MIN
    closed: PaneTable = EMPTY  # where retention closes sessions: up to where those of each key are closed


class MergeSessions:
    """Sessions of one key are unions of intervals; a union does not depend on the order of arrival."""

    def __init__(self, plan: Plan, kind: Sessions, bound: Bound, results: tuple[str, ...]) -> None:
        self._plan = plan
        self._kind = kind
        self._bound = bound
        self._key = list(plan.key)
        self._firing = Firing(plan, bound, results)
        self.forms = {"table": PaneForm(plan.key)}

    def initial(self) -> OpenSessions:
        """No sessions."""
        return OpenSessions()

    def open(self, store: OpenSessions) -> int:
        """How many sessions are open."""
        return store.table.height

    def scan(self, store: OpenSessions) -> list[pl.DataFrame]:
        """The open sessions."""
        panes = store.table.scan()
        return [] if panes is None else [panes]

    @property
    def by(self) -> list[str]:
        """Rows of one key in one stretch of the gap's length are surely one session."""
        return [*self._key, c.SLICE]

    def stamp(self, rows: pl.DataFrame, earliest: int | None, was: int) -> Stamped:
        """Rows to cells, one per key and stretch."""
        rows = self._sliced(rows)
        if self._bound.python:
            rows = rows.with_row_index(c.ROW)
        cells, failed = start_cells(self._bound, rows, self.by)
        if failed is not None:  # they are dead letters, whatever becomes of their session
            rows = rows.filter(~pl.col(c.ROW).is_in(failed[c.ROW].implode()))
        if self._plan.offset is not None:
            return Stamped(cells, rows, failed=failed)
        late = may_prove_late(rows, self._kind.gap, self._plan.lifetime, earliest, was)
        return Stamped(cells, late, failed=failed)

    def _sliced(self, rows: pl.DataFrame) -> pl.DataFrame:
        gap = self._kind.gap
        stretch = floor(pl.col(c.AT), gap) if isinstance(gap, int) else pl.col(c.AT)
        return rows.with_columns(stretch.alias(c.SLICE))

    def absorb(self, store: OpenSessions, stamped: Stamped, moment: Moment) -> Outcome[OpenSessions]:
        """Take in the bundle's cells, merge, then fire what is to fire."""
        store, before = self._taken(store, stamped.cells, moment)
        return self._absorbed(store, before, stamped, moment)

    def _taken(self, store: OpenSessions, news: pl.DataFrame, moment: Moment) -> tuple[OpenSessions, pl.DataFrame]:
        """The open sessions of the keys of ``news``, and those that are due, taken out."""
        touched = hashes(news, self._key)
        table, taken = store.table.take(touched, due=self._due(moment), clock=(store.clock, moment.now))
        before = pl.concat(taken).sort(c.START) if taken else pl.DataFrame(schema=self._schema(news))
        return replace(store, table=table, clock=moment.now), before

    def _due(self, moment: Moment) -> tuple[int, int] | Callable[[pl.DataFrame], Positions]:
        return moment.due

    def _absorbed(
        self, store: OpenSessions, before: pl.DataFrame, stamped: Stamped, moment: Moment
    ) -> Outcome[OpenSessions]:
        cells, rows, failed = stamped.cells, stamped.rows, stamped.failed
        if before.is_empty() and cells.is_empty():
            return Outcome(store, [], 0, stamped.late, failed=failed)
        # What merges does so in order of time: floats add up alike each time, and rows are first or last rightly.
        cells = cells.sort(c.SLICE).with_columns(
            pl.col(FIRST).alias(c.START), pl.col(UNTIL).alias(c.END), pl.col(c.ROWS).alias(c.ADDED)
        )
        both = self._runs(before, cells, self._bound.columns)
        both, late = self._without_late(both, rows, moment)
        entered = int(both[c.ADDED].sum())
        sessions, replaced = self._merged(before, both)
        emitted = []
        if self._plan.mode == "retracting" and replaced.height:
            emitted.append(self._firing.retract(replaced))
        store, sessions = self._bounded(store, sessions, moment)
        fired = self._firing.fire(sessions, moment, merging=True)
        store = replace(store, table=store.table.put(self._resting(fired.open).select(before.columns)))
        late = late if stamped.late is None else stamped.late if late is None else pl.concat([stamped.late, late])
        return Outcome(store, [*emitted, *fired.emitted], entered, late, failed=failed, unemitted=fired.unemitted)

    def _bounded(
        self, store: OpenSessions, sessions: pl.DataFrame, moment: Moment
    ) -> tuple[OpenSessions, pl.DataFrame]:
        """Where retention bounds the state, some sessions are closed here."""
        return store, sessions

    def _resting(self, sessions: pl.DataFrame) -> pl.DataFrame:
        """Sessions as they rest in the table."""
        return sessions.with_columns(hashes(sessions, self._key).alias(HASH))

    def tables(self, store: OpenSessions) -> tuple[dict[str, Any], int]:
        """The sessions."""
        return {"table": store.table}, store.clock

    def store(self, tables: Mapping[str, Any], clock: int) -> OpenSessions:
        """The sessions."""
        return OpenSessions(tables["table"], clock)

    def _runs(self, before: pl.DataFrame, cells: pl.DataFrame, held: Sequence[str]) -> pl.DataFrame:
        """Sessions from state (with what they hold) and the bundle's cells, each with the session it is part of now."""
        both = pl.concat(
            [
                before.select(*self._key, c.START, c.END, *held).with_columns(pl.lit(True).alias(OLD)),
                cells.with_columns(pl.lit(False).alias(OLD)),
            ],
            how="diagonal",
        )
        return with_runs(both, self._key, self._kind.touching)

    def _without_late(
        self, both: pl.DataFrame, rows: pl.DataFrame, moment: Moment
    ) -> tuple[pl.DataFrame, pl.DataFrame | None]:
        """A session that would have expired before the bundle consists of late rows only."""
        was: int | pl.Expr = moment.was
        ends = both.group_by(RUN).agg(pl.col(c.END).max())
        if moment.reach is not None:
            was, own = pl.col(c.WAS), moment.reach.beside(both)
            ends = own.group_by(RUN).agg(pl.col(c.END).max(), pl.col(c.WAS).first())
        gone = ends.filter(self._plan.lifetime.expired(pl.col(c.END), was))[RUN]
        late = both[RUN].is_in(gone.implode()) & ~both[OLD] if gone.len() else None
        if late is None or not late.any():
            return both, None
        where = both.filter(late).select(*self._key, c.SLICE)
        return both.filter(~late), rows.join(where, on=where.columns, how="semi", nulls_equal=True)

    def _merged(self, before: pl.DataFrame, both: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """One row per session as it is now, and the sessions from state that it replaces."""
        now = group(
            both,
            [RUN],
            [
                *(pl.col(name).first() for name in self._key),
                pl.col(c.START).min(),
                pl.col(c.END).max(),
                pl.col(c.ADDED).sum(),
                pl.col(OLD).sum().alias("__olds"),
            ],
        )
        now = now.join(merge_groups(self._bound, both, [RUN], [*self._key, RUN]), on=RUN, how="left")
        old = before.drop(self._bound.columns).with_columns(both[RUN].head(before.height))
        same = pl.col(c.START).first(), pl.col(c.END).first()
        state = group(old, [RUN], [*self._combined_state(), same[0].alias("__was_start"), same[1].alias("__was_end")])
        sessions = now.join(state, on=RUN, how="left")
        stays = (
            (pl.col("__olds") == 1)
            & (pl.col("__was_start") == pl.col(c.START))
            & (pl.col("__was_end") == pl.col(c.END))
        )
        sessions = sessions.with_columns(((pl.col("__olds") > 0) & ~stays).alias(MOVED))
        # A session with other bounds is a new window: its panes are counted anew.
        anew = [pl.when(MOVED).then(0).otherwise(name).cast(pl.Int32).alias(name) for name in (INDEX, NONSPECULATIVE)]
        if self._plan.trigger.finish() is Finish.AT_END:  # the end has moved, and with it what finishes there
            anew.append((pl.col(FINISHED) & ~pl.col(MOVED)).alias(FINISHED))
        forgot = [pl.when(~pl.col(MOVED)).then(pl.col(n)).alias(n) for n in state.columns if n.startswith(LAST)]
        sessions = sessions.with_columns(*anew, *forgot)
        # A trigger that has finished for good says nothing more, not even that what it said is no longer so.
        moved = sessions.filter(pl.col(MOVED) & ~pl.col(FINISHED))[RUN]
        replaced = old.filter(pl.col(RUN).is_in(moved.implode())) if moved.len() else old.clear()
        return sessions.drop(RUN, "__olds", "__was_start", "__was_end"), replaced

    def _combined_state(self) -> list[pl.Expr]:
        triggers = [getattr(pl.col(column.name), column.merge)() for column in self._firing.trigger_columns]
        remembered = [pl.col(name).first() for name in self._firing.state_schema() if name.startswith(LAST)]
        return [
            pl.col(PENDING).sum(),
            pl.col(INDEX).first(),
            pl.col(NONSPECULATIVE).first(),
            pl.col(FINISHED).min(),
            *triggers,
            *remembered,
        ]

    def _schema(self, rows: pl.DataFrame) -> dict[str, pl.DataType]:
        window: dict[str, pl.DataType] = {c.START: pl.Int64(), c.END: pl.Int64()}
        index: dict[str, pl.DataType] = {HASH: pl.UInt64(), DUE: pl.Int64(), CLOCK: pl.Int64()}
        key = {name: rows.schema[name] for name in self._key}
        return key | window | self._bound.schema | self._firing.state_schema() | index
