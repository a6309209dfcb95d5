"""Sessions: windows that grow and merge. The open sessions of a key with new rows are taken out, merged, and put back.

``BoundedSessionWindows`` have state limits, so that each row is judged by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from eventide import _columns as c
from eventide.aggregates import Bound
from eventide.kernels.grouping import group
from eventide.operators.emission import COUNTERS, FINISHED, LAST, PENDING, PaneEmitter, StepTime, new_window
from eventide.operators.retention import SIZE, RetentionPolicy
from eventide.operators.window_logic import UNTIL, PaneLogic, Stamped, WindowUpdate, merge_groups, start_cells
from eventide.plan.window_plan import WindowPlan
from eventide.state.pane_log import PaneCodec
from eventide.state.pane_table import EMPTY_TABLE, HASH, PaneTable, Positions, row_hashes
from eventide.time import MIN
from eventide.triggers import Finish
from eventide.triggers.evaluation import MOVED
from eventide.windows import Sessions
from eventide.windows.kind import floor
from eventide.windows.lateness import last_ends
from eventide.windows.sessions import RUN, may_prove_late, merge_intervals

OLD = "__old"
_OLDS = "__olds"  # how many stored sessions are merged


@dataclass(frozen=True)
class OpenSessions:
    """The open sessions."""

    table: PaneTable = EMPTY_TABLE
    clock: int = MIN
    closed: PaneTable = EMPTY_TABLE  # where retention closes sessions: up to where those of each key are closed


class SessionWindows(PaneLogic):
    """Sessions of one key are unions of intervals; a union does not depend on the order of arrival."""

    def __init__(self, plan: WindowPlan, kind: Sessions, bound: Bound, results: tuple[str, ...]) -> None:
        self._plan = plan
        self._kind = kind
        self._bound = bound
        self._key = list(plan.key)
        self._emitter = PaneEmitter(plan, bound, results)
        self.codecs = {"table": PaneCodec(plan.key)}

    def initial(self) -> OpenSessions:
        return OpenSessions()

    @property
    def by(self) -> list[str]:
        """Rows of one key in one stretch of the gap's length are surely one session."""
        return [*self._key, c.SLICE]

    def assign(self, rows: pl.DataFrame, earliest: int | None, previous: int) -> Stamped:
        """Rows to cells, one per key and stretch."""
        rows = self._sliced(rows)
        if self._bound.python:
            rows = rows.with_row_index(c.ROW)
        cells, failed = start_cells(self._bound, rows, self.by)
        if failed is not None:  # dead letters, even if their session is dropped
            rows = rows.filter(~pl.col(c.ROW).is_in(failed[c.ROW].implode()))
        if self._plan.offset is not None:
            return Stamped(cells, rows, failed=failed)
        late = may_prove_late(rows, self._kind.gap, self._plan.expiry, earliest, previous)
        return Stamped(cells, late, failed=failed)

    def _sliced(self, rows: pl.DataFrame) -> pl.DataFrame:
        gap = self._kind.gap
        stretch = floor(pl.col(c.AT), gap) if isinstance(gap, int) else pl.col(c.AT)
        return rows.with_columns(stretch.alias(c.SLICE))

    def update(self, store: OpenSessions, stamped: Stamped, step: StepTime) -> WindowUpdate[OpenSessions]:
        """Merge the bundle's cells and the sessions in state, then emit the panes that are due."""
        store, before = self._taken(store, stamped.cells, step)
        return self._updated(store, before, stamped, step)

    def _taken(self, store: OpenSessions, news: pl.DataFrame, step: StepTime) -> tuple[OpenSessions, pl.DataFrame]:
        """The open sessions of the keys of ``news``, and those that are due, taken out."""
        touched = row_hashes(news, self._key)
        table, taken = store.table.take(touched, due=self._due(step), clock=(store.clock, step.now))
        before = pl.concat(taken).sort(c.START) if taken else pl.DataFrame(schema=self._schema(news))
        return replace(store, table=table, clock=step.now), before

    def _due(self, step: StepTime) -> tuple[int, int] | Callable[[pl.DataFrame], Positions]:
        return step.due

    def _updated(
        self, store: OpenSessions, before: pl.DataFrame, stamped: Stamped, step: StepTime
    ) -> WindowUpdate[OpenSessions]:
        cells, rows, failed = stamped.cells, stamped.rows, stamped.failed
        if before.is_empty() and cells.is_empty():
            return WindowUpdate(store, [], 0, stamped.late, failed=failed)
        # What merges does so in order of time: floats add up alike each time, and rows are first or last rightly.
        cells = cells.sort(c.SLICE).with_columns(
            pl.col(c.FIRST).alias(c.START), pl.col(UNTIL).alias(c.END), pl.col(c.ROWS).alias(c.ADDED)
        )
        both = self._runs(before, cells, self._bound.columns)
        both, late = self._without_late(both, rows, step)
        entered = int(both[c.ADDED].sum())
        sessions, replaced = self._merged(before, both)
        emitted = []
        if self._plan.mode == "retracting" and replaced.height:
            emitted.append(self._emitter.retract(replaced))
        store, sessions = self._bounded(store, sessions, step)
        emission = self._emitter.evaluate(sessions, step, merging=True)
        store = replace(store, table=store.table.put(self._resting(emission.open).select(before.columns)))
        late = late if stamped.late is None else stamped.late if late is None else pl.concat([stamped.late, late])
        return WindowUpdate(
            store, [*emitted, *emission.emitted], entered, late, failed=failed, unemitted=emission.unemitted
        )

    def _bounded(
        self, store: OpenSessions, sessions: pl.DataFrame, step: StepTime
    ) -> tuple[OpenSessions, pl.DataFrame]:
        """Where retention bounds the state, some sessions are closed here."""
        return store, sessions

    def _resting(self, sessions: pl.DataFrame) -> pl.DataFrame:
        """Sessions as the table stores them."""
        return sessions.with_columns(row_hashes(sessions, self._key).alias(HASH))

    def tables(self, store: OpenSessions) -> tuple[dict[str, Any], int]:
        return {"table": store.table}, store.clock

    def store(self, tables: Mapping[str, Any], clock: int) -> OpenSessions:
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
        return merge_intervals(both, self._key, self._kind.touching)

    def _without_late(
        self, both: pl.DataFrame, rows: pl.DataFrame, step: StepTime
    ) -> tuple[pl.DataFrame, pl.DataFrame | None]:
        """A session that would have expired before the bundle consists of late rows only."""
        previous: int | pl.Expr = step.previous
        if step.offsets is None and (both[c.END] > self._plan.expiry.live_from(step.previous)).all():
            return both, None  # a session ends no earlier than each of its parts
        ends = last_ends(both, RUN)
        if step.offsets is not None:
            previous, parts = pl.col(c.PREVIOUS), step.offsets.with_offsets(both)
            ends = last_ends(parts, RUN, pl.col(c.PREVIOUS).first())
        expired = ends.filter(self._plan.expiry.is_expired(pl.col(c.END), previous))[RUN]
        late = both[RUN].is_in(expired.implode()) & ~both[OLD] if expired.len() else None
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
                pl.col(OLD).sum().alias(_OLDS),
            ],
            ordered=False,  # the parts of a session have one key
        )
        now = now.join(merge_groups(self._bound, both, [RUN], [*self._key, RUN]), on=RUN, how="left")
        old = before.drop(self._bound.columns).with_columns(both[RUN].head(before.height))
        same = pl.col(c.START).first(), pl.col(c.END).first()
        state = group(old, [RUN], [*self._combined_state(), same[0].alias(c.OLD_START), same[1].alias(c.OLD_END)])
        sessions = now.join(state, on=RUN, how="left")
        stays = (pl.col(_OLDS) == 1) & (pl.col(c.OLD_START) == pl.col(c.START)) & (pl.col(c.OLD_END) == pl.col(c.END))
        sessions = sessions.with_columns(((pl.col(_OLDS) > 0) & ~stays).alias(MOVED))
        anew = new_window(pl.col(MOVED))  # a session with other bounds is a new window
        if self._plan.trigger.finish() is Finish.AT_END:  # the end has moved, and with it what finishes there
            anew.append((pl.col(FINISHED) & ~pl.col(MOVED)).alias(FINISHED))
        forgot = [pl.when(~pl.col(MOVED)).then(pl.col(n)).alias(n) for n in state.columns if n.startswith(LAST)]
        sessions = sessions.with_columns(*anew, *forgot)
        # A trigger that has finished emits nothing more, not even retractions.
        moved = sessions.filter(pl.col(MOVED) & ~pl.col(FINISHED))[RUN]
        replaced = old.filter(pl.col(RUN).is_in(moved.implode())) if moved.len() else old.clear()
        return sessions.drop(RUN, _OLDS, c.OLD_START, c.OLD_END), replaced

    def _combined_state(self) -> list[pl.Expr]:
        triggers = self._emitter.trigger.merged()
        remembered = [pl.col(name).first() for name in self._emitter.state_schema() if name.startswith(LAST)]
        return [
            pl.col(PENDING).sum(),
            *(pl.col(name).first() for name in COUNTERS),
            pl.col(FINISHED).min(),
            *triggers,
            *remembered,
        ]

    def _schema(self, rows: pl.DataFrame) -> dict[str, pl.DataType]:
        return self._emitter.table_schema(rows.schema)


class BoundedSessionWindows(SessionWindows):
    """Rows beyond a session's room do not join it, and do not hold it together."""

    def __init__(self, plan: WindowPlan, kind: Sessions, bound: Bound, results: tuple[str, ...]) -> None:
        super().__init__(plan, kind, bound, results)
        self._retention = RetentionPolicy(plan, bound, self._emitter)
        self.codecs = {name: PaneCodec(plan.key) for name in ("table", "closed")}

    def assign(self, rows: pl.DataFrame, earliest: int | None, previous: int) -> Stamped:
        """Rows as they are: state judges them."""
        return Stamped(pl.DataFrame(), rows)

    def update(self, store: OpenSessions, stamped: Stamped, step: StepTime) -> WindowUpdate[OpenSessions]:
        """Merge the rows within the limits and the sessions in state, close sessions beyond, then emit what is due."""
        rows = stamped.rows.with_row_index(c.ROW)
        store, before = self._taken(store, rows, step)
        rows, late, beyond = self._judged(rows, before, store, step)
        rows = self._sliced(rows)
        cells, failed = start_cells(self._bound, rows, self.by)
        outcome = self._updated(store, before, Stamped(cells, rows, late, failed=failed), step)
        return replace(outcome, beyond=beyond)

    def tables(self, store: OpenSessions) -> tuple[dict[str, Any], int]:
        """The sessions, and up to where they are closed."""
        return {"table": store.table, "closed": store.closed}, store.clock

    def store(self, tables: Mapping[str, Any], clock: int) -> OpenSessions:
        return OpenSessions(tables["table"], clock, tables["closed"])

    def _judged(
        self, rows: pl.DataFrame, before: pl.DataFrame, store: OpenSessions, step: StepTime
    ) -> tuple[pl.DataFrame, pl.DataFrame | None, pl.DataFrame]:
        """Rows that find room in the session that all of the bundle's rows would make; late ones; those beyond."""
        gap = self._kind.gap
        until = pl.col(c.AT) + (pl.col(c.GAP) if isinstance(gap, str) else gap)
        alone = rows.with_columns(pl.col(c.AT).alias(c.START), until.alias(c.END))
        held = [name for name in (c.ROWS, SIZE) if name in before.columns]
        both = self._runs(before, alone.select(*self._key, c.AT, c.START, c.END, c.ROW), held)
        sessions = last_ends(both, RUN, *(pl.col(name).filter(OLD).sum() for name in held))
        places = (
            both.filter(~pl.col(OLD)).select(*self._key, c.AT, c.ROW, RUN).join(sessions, on=RUN, maintain_order="left")
        )
        previous: int | pl.Expr = step.previous
        if step.offsets is not None:
            previous, places = pl.col(c.PREVIOUS), step.offsets.with_offsets(places)
        expired = self._plan.expiry.is_expired(pl.col(c.END), previous)
        late = _of(rows, places.filter(expired))
        # A row inside of what was closed would have joined it.
        live = self._retention.above_floors(places.filter(~expired), store.closed, pl.col(c.AT))
        stored = _of(rows, self._retention.with_room(live, [RUN]))
        beyond = rows.filter(~pl.col(c.ROW).is_in(pl.concat([late[c.ROW], stored[c.ROW]]).implode()))
        return stored, late if late.height else None, beyond

    def _bounded(
        self, store: OpenSessions, sessions: pl.DataFrame, step: StepTime
    ) -> tuple[OpenSessions, pl.DataFrame]:
        sessions, table, closed = self._retention.close(sessions, store.table, store.closed, step)
        return replace(store, table=table, closed=closed), sessions

    def _due(self, step: StepTime) -> tuple[int, int] | Callable[[pl.DataFrame], Positions]:
        return self._retention.due(step)

    def _resting(self, sessions: pl.DataFrame) -> pl.DataFrame:
        return super()._resting(self._retention.with_sizes(sessions))

    def _schema(self, rows: pl.DataFrame) -> dict[str, pl.DataType]:
        return super()._schema(rows) | self._retention.schema


def _of(rows: pl.DataFrame, places: pl.DataFrame) -> pl.DataFrame:
    return rows.filter(pl.col(c.ROW).is_in(places[c.ROW].implode()))
