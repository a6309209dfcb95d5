"""Sessions with a maximum duration: a long session is cut into pieces, counted from its start.

When a row moves the start of a session, all of its pieces move. So the content of a session is stored as **atoms**, one
per key and instant, until their piece expires. After that only the interval of the atom stays, to hold the session
together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from eventide import _columns as c
from eventide.aggregates import Bound
from eventide.kernels.grouping import group
from eventide.operators.emission import INDEX, PaneEmitter, StepTime
from eventide.operators.window_logic import UNTIL, PaneLogic, Stamped, WindowUpdate, merge_groups, start_cells
from eventide.plan.window_plan import WindowPlan
from eventide.state.pane_log import PaneCodec
from eventide.state.pane_table import CLOCK, DUE, EMPTY_TABLE, HASH, PaneTable, row_hashes
from eventide.time import MIN
from eventide.windows import Sessions
from eventide.windows.sessions import RUN, may_prove_late, merge_intervals

ANCHOR = "__anchor"  # where the session began, as far as is known
NEW = "__new"
_HOLLOW = "__hollow"  # holds a place, and has no rows any more
_FRESH = "__fresh"  # how many rows are new
_PIECE, _FROM, _TO, _BEGAN = "__piece", "__from", "__to", "__began"


@dataclass(frozen=True)
class Pieces:
    """The open pieces, and the atoms they are made of."""

    table: PaneTable = EMPTY_TABLE
    atoms: PaneTable = EMPTY_TABLE
    clock: int = MIN


class CappedSessionWindows(PaneLogic):
    """The sessions of a touched key are put together from their atoms and cut anew."""

    def __init__(self, plan: WindowPlan, kind: Sessions, bound: Bound, results: tuple[str, ...]) -> None:
        assert kind.max_duration is not None
        self._plan = plan
        self._kind = kind
        self._most = kind.max_duration
        self._bound = bound
        self._key = list(plan.key)
        self._identity = [*plan.key, c.START, c.END]
        self._emitter = PaneEmitter(plan, bound, results)
        self.codecs = {"table": PaneCodec(plan.key), "atoms": PaneCodec(plan.key)}

    def initial(self) -> Pieces:
        return Pieces()

    @property
    def by(self) -> list[str]:
        """An atom is all that a key has at one instant."""
        return [*self._key, c.SLICE]

    def assign(self, rows: pl.DataFrame, earliest: int | None, previous: int) -> Stamped:
        """Rows to atoms. Any of them may prove late: a piece can end before the gap behind its last row does."""
        rows = rows.with_columns(pl.col(c.AT).alias(c.SLICE))
        cells, failed = start_cells(self._bound, rows, self.by)
        late = may_prove_late(rows, 0, self._plan.expiry, earliest, previous)
        return Stamped(cells, late, failed=failed)

    def update(self, store: Pieces, stamped: Stamped, step: StepTime) -> WindowUpdate[Pieces]:
        """Merge the bundle's atoms into state, cut sessions again, then emit the panes that are due."""
        rows, failed = stamped.rows, stamped.failed
        cells = stamped.cells.sort(c.SLICE)  # in order, floats add up alike each time
        touching = row_hashes(cells, self._key)
        due = (step.previous, step.watermark)
        table, taken = store.table.take(touching, due=due, clock=(store.clock, step.now))
        atoms, known = store.atoms.take(touching, due=due, clock=(MIN, MIN))
        if not taken and not known and cells.is_empty():
            return WindowUpdate(replace(store, clock=step.now), [], 0, failed=failed)
        everything = self._atoms(known, cells)
        everything, late_cells = self._without_late(everything, step)
        late = None
        if late_cells.height:
            late = rows.join(late_cells, on=late_cells.columns, how="semi", nulls_equal=True)
        before = pl.concat(taken) if taken else pl.DataFrame(schema=self._emitter.table_schema(rows.schema))
        touched = touching.unique()
        pieces, replaced = self._pieces(everything, before, touched)
        emitted = [self._emitter.retract(replaced)] if self._plan.mode == "retracting" and replaced.height else []
        emission = self._emitter.evaluate(pieces, step, merging=False)
        open_ = emission.open.with_columns(row_hashes(emission.open, self._key).alias(HASH)).select(before.columns)
        store = Pieces(table.put(open_), atoms.put(self._lasting(everything, step)), step.now)
        entered = int(everything.filter(NEW)[c.ROWS].sum())
        return WindowUpdate(
            store, [*emitted, *emission.emitted], entered, late, failed=failed, unemitted=emission.unemitted
        )

    def tables(self, store: Pieces) -> tuple[dict[str, Any], int]:
        """The pieces, and what they are made of."""
        return {"table": store.table, "atoms": store.atoms}, store.clock

    def store(self, tables: Mapping[str, Any], clock: int) -> Pieces:
        return Pieces(tables["table"], tables["atoms"], clock)

    def _atoms(self, known: list[pl.DataFrame], cells: pl.DataFrame) -> pl.DataFrame:
        """All atoms of the touched keys, with the pieces that they belong to now."""
        news = cells.with_columns(
            pl.col(c.FIRST).alias(c.START),
            pl.col(UNTIL).alias(c.END),
            pl.col(c.FIRST).alias(ANCHOR),
            pl.lit(True).alias(NEW),
            pl.lit(False).alias(_HOLLOW),
        )
        olds = [frame.drop(HASH, DUE, CLOCK).with_columns(pl.lit(False).alias(NEW)) for frame in known]
        return self._cut(pl.concat([*olds, news], how="diagonal"))

    def _cut(self, atoms: pl.DataFrame) -> pl.DataFrame:
        # The anchors stay as they are for now: of these rows some may turn out to be late, and move nothing.
        atoms = merge_intervals(
            atoms.drop(RUN, _PIECE, _FROM, _TO, _BEGAN, strict=False), self._key, self._kind.touching
        )
        start, end = pl.col(ANCHOR).min().over(RUN), pl.col(c.END).max().over(RUN)
        atoms = atoms.with_columns(start.alias(_BEGAN), end.alias(_TO))
        atoms = atoms.with_columns(((pl.col(c.START) - pl.col(_BEGAN)) // self._most).alias(_PIECE))
        begin = pl.col(_BEGAN) + pl.col(_PIECE) * self._most
        return atoms.with_columns(begin.alias(_FROM), pl.min_horizontal(_TO, begin + self._most).alias(_TO))

    def _without_late(self, atoms: pl.DataFrame, step: StepTime) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Rows of pieces that had expired are late. Without them a session may begin elsewhere, so look again."""
        late_rows = []
        expired = self._plan.expiry.is_expired(pl.col(_TO), step.previous)
        while (late := atoms.filter(pl.col(NEW) & expired)).height:
            late_rows.append(late.select(*self._key, c.SLICE))
            atoms = self._cut(atoms.filter(~(pl.col(NEW) & expired)))
        return atoms, pl.concat(late_rows) if late_rows else atoms.clear().select(*self._key, c.SLICE)

    def _pieces(
        self, atoms: pl.DataFrame, before: pl.DataFrame, touched: pl.Series
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The pieces as they are now, and the panes that no longer exist. Keys without new rows stay as they are."""
        is_touched = pl.col(HASH).is_in(touched.implode())
        idle, old = before.filter(~is_touched), before.filter(is_touched)
        content = atoms.filter(~pl.col(_HOLLOW), row_hashes(atoms, self._key).is_in(touched.implode()))
        by = [RUN, _PIECE]
        bounds = [pl.col(_FROM).first().alias(c.START), pl.col(_TO).first().alias(c.END)]
        keys = [pl.col(name).first() for name in self._key]
        news = pl.when(NEW).then(c.ROWS).otherwise(0).sum().alias(_FRESH)
        merged = merge_groups(self._bound, content, by, [*self._key, *by])
        now = group(content, by, [*keys, *bounds, news]).join(merged, on=by).drop(by)
        state = old.drop(*self._bound.columns, HASH, DUE, CLOCK)
        now = now.join(state, on=self._identity, how="left", nulls_equal=True)
        # A new piece has all of its rows as added rows; a piece that existed only the new ones.
        added = pl.when(pl.col(INDEX).is_null()).then(c.ROWS).otherwise(_FRESH).alias(c.ADDED)
        now = now.with_columns(added).drop(_FRESH)
        replaced = old.join(now.select(self._identity), on=self._identity, how="anti", nulls_equal=True)
        now = self._with_deadlines(now, replaced)
        unchanged = idle.drop(HASH, DUE, CLOCK).with_columns(pl.lit(0, pl.Int64).alias(c.ADDED))
        return pl.concat([now, unchanged.select(now.columns)]), replaced

    def _with_deadlines(self, now: pl.DataFrame, replaced: pl.DataFrame) -> pl.DataFrame:
        """Pieces that did not exist, with the earliest deadlines of those that they overlap and replace.

        Without them each row that extends a session would start its timers again, and none would ever be due.
        """
        timers = [deadline.meta.output_name() for deadline in self._emitter.trigger.deadlines()]
        fresh = now.filter(pl.col(INDEX).is_null()).select(self._identity)
        if not timers or not replaced.height or not fresh.height:
            return now
        old = replaced.select(*self._key, pl.col(c.START).alias(_FROM), pl.col(c.END).alias(_TO), *timers)
        both = fresh.join(old, on=self._key, nulls_equal=True) if self._key else fresh.join(old, how="cross")
        both = both.filter(pl.col(_FROM) < pl.col(c.END), pl.col(c.START) < pl.col(_TO))
        earliest = both.group_by(self._identity).agg(pl.col(timers).min().name.prefix(_PIECE))
        now = now.join(earliest, on=self._identity, how="left", nulls_equal=True)
        inherited = [pl.coalesce(pl.col(f"{_PIECE}{name}"), pl.col(name)).alias(name) for name in timers]
        return now.with_columns(inherited).drop(f"{_PIECE}{name}" for name in timers)

    def _lasting(self, atoms: pl.DataFrame, step: StepTime) -> pl.DataFrame:
        """What stays of the atoms: their content while the piece lives, then their interval while that does."""
        expiry, end = self._plan.expiry, pl.col(c.END)
        hollow = expiry.is_expired(pl.col(_TO), step.watermark)
        atoms = atoms.with_columns((pl.col(_HOLLOW) | hollow).alias(_HOLLOW))
        atoms = atoms.filter(~(pl.col(_HOLLOW) & expiry.is_expired(end, step.watermark)))
        due = pl.when(_HOLLOW).then(expiry.expires_at(end)).otherwise(expiry.expires_at(pl.col(_TO)))
        columns = [*self._key, c.START, c.END, _HOLLOW, *self._bound.columns]
        index = row_hashes(atoms, self._key).alias(HASH), due.alias(DUE), pl.lit(None, pl.Int64).alias(CLOCK)
        return atoms.select(*columns, pl.col(_BEGAN).alias(ANCHOR), *index)
