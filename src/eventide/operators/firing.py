"""Which panes are emitted: triggers evaluated once per bundle, as vectors over the panes that a bundle touched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl

from eventide.aggregates import Bound
from eventide.operators import columns as c
from eventide.operators.reach import Reach
from eventide.panes import EARLY, LATE, ON_TIME
from eventide.plan.plan import Plan
from eventide.state.panes import CLOCK, DUE, Positions
from eventide.time import MAX, MIN
from eventide.triggers.trigger import ADDED, COMPLETE, NOW, WAS_COMPLETE, Changes, Column
from eventide.windows.lifetime import Lifetime

PENDING = "__pending"  # rows since the last pane
INDEX = "__index"  # of the next pane
NONSPECULATIVE = "__nonspeculative"
FINISHED = "__finished"
MOVED = "__moved"  # the window's bounds changed in this bundle
LAST = "__last."  # prefix: what the last pane said

_INFO = (c.TIMING, c.INDEX, c.NONSPECULATIVE, c.IS_FIRST, c.PANE_TIME)
_SPOKEN = f"{LAST}{c.INDEX}"  # null: no pane of this window stands
EVICTED = "__evicted"  # retention closes the window
_EXPIRED, _EMIT, _FIRES, _LOST = "__expired", "__emit", "__fires", "__lost"

# Rows that come when their trigger has finished.
_UNHEARD = pl.when(FINISHED).then(ADDED).otherwise(0).alias(_LOST)
# When a window expires, what has not been told yet is told.
_CLOSING = pl.col(_EXPIRED) & ~pl.col(FINISHED) & (pl.col(PENDING) > 0)
# Nothing is said twice: a pane has new rows in it, or is the one that the watermark brings.
_NEWS = (pl.col(PENDING) > 0) | (COMPLETE & ~WAS_COMPLETE)


@dataclass(frozen=True)
class Moment:
    """A bundle's place in time: the watermark before and after it on the windows' axis, and its clock."""

    was: int
    watermark: int
    now: int
    stood: int = MIN  # the watermark before it in event time, whatever the axis
    stands: int = MIN  # and after it
    reach: Reach | None = None  # for windows by offset, where each origin has an axis of its own

    @property
    def due(self) -> tuple[int, int] | Callable[[pl.DataFrame], Positions]:
        """What finds the panes that the bundle makes due."""
        return (self.was, self.watermark) if self.reach is None else self.reach.due


@dataclass(frozen=True)
class Fired:
    """What firing gives: panes that stay open, and what is emitted (with ``diff``)."""

    open: pl.DataFrame
    emitted: list[pl.DataFrame]
    unemitted: int


class Firing:
    """The plan's trigger, accumulation mode and lateness, compiled to expressions over the pane table."""

    def __init__(self, plan: Plan, bound: Bound, results: Sequence[str]) -> None:
        self._plan = plan
        self._bound = bound
        self._results = tuple(results)
        self._lifetime: Lifetime = plan.lifetime
        self._trigger = plan.trigger.compile("__trigger")
        self._columns = self._trigger.columns()
        add, move, after = Changes(), Changes(), Changes()
        self._trigger.add(~pl.col(FINISHED), add)
        self._trigger.moved(pl.col(MOVED), move)
        done = self._trigger.fired(pl.col(_FIRES), after)
        after.set(FINISHED, done & pl.col(_FIRES), pl.lit(True))
        self._added, self._moved, self._fired = add.expressions(), move.expressions(), after.expressions()
        self._fires = (self._trigger.fires() & ~pl.col(FINISHED) & _NEWS).alias(_FIRES)
        new = pl.col(INDEX).is_null()
        self._begun = [
            # A new pane may have a deadline already: that of the pieces of a session that it replaces.
            *(
                pl.when(new & pl.col(column.name).is_null())
                .then(column.start)
                .otherwise(column.name)
                .alias(column.name)
                for column in self._columns
            ),
            pl.col(PENDING).fill_null(0),
            pl.col(INDEX).fill_null(0),
            pl.col(NONSPECULATIVE).fill_null(0),
            pl.col(FINISHED).fill_null(False),
        ]

    @property
    def trigger_columns(self) -> list[Column]:
        """The trigger's own columns."""
        return self._columns

    def state_schema(self) -> dict[str, pl.DataType]:
        """The columns that an open pane has beside key, window and accumulators."""
        own = {PENDING: pl.Int64(), INDEX: pl.Int32(), NONSPECULATIVE: pl.Int32(), FINISHED: pl.Boolean()}
        own |= {column.name: column.dtype for column in self._columns}
        if self._plan.remembers:
            own |= {f"{LAST}{name}": self._bound.result_schema[name] for name in self._results}
            info = (pl.String(), pl.Int32(), pl.Int32(), pl.Boolean(), pl.Int64())
            own |= {f"{LAST}{name}": dtype for name, dtype in zip(_INFO, info, strict=True)}
        return own

    def fire(self, panes: pl.DataFrame, moment: Moment, *, merging: bool) -> Fired:
        """Evaluate all ``panes`` at ``moment``."""
        # One query from state to decision: on small bundles, what counts is how often Polars is called.
        panes = (
            self._prepared(panes, moment, merging)
            .with_columns(*self._added, _UNHEARD, pl.col(PENDING) + ADDED)
            .with_columns(self._fires)
            .with_columns((pl.col(_FIRES) | _CLOSING).alias(_EMIT))
            .with_columns(self._fired)
            .collect(engine="in-memory")
        )
        unemitted = int(panes[_LOST].sum())
        panes = panes.drop(_LOST)
        told = panes.filter(_EMIT)
        quiet = panes.filter(~pl.col(_EMIT) & ~pl.col(_EXPIRED))
        emitted: list[pl.DataFrame] = []
        if told.height:
            told, emitted = self._emit(told, moment)
        return Fired(self._kept(told.filter(~pl.col(_EXPIRED)), quiet), emitted, unemitted)

    def expired(self, panes: pl.DataFrame, moment: Moment) -> pl.Series:
        """Which of ``panes`` go with this bundle in any case."""
        panes, _, _, expired = self._ends(panes, moment)
        return panes.with_columns(expired.alias(_EXPIRED))[_EXPIRED]

    def retract(self, panes: pl.DataFrame) -> pl.DataFrame:
        """The rows that take back the last pane of each of ``panes`` that has one."""
        spoken = panes.filter(pl.col(_SPOKEN).is_not_null())
        return spoken.select(
            *self._plan.key,
            c.START,
            c.END,
            *(pl.col(f"{LAST}{name}").alias(name) for name in self._results),
            *(pl.col(f"{LAST}{name}").alias(name) for name in _INFO),
            pl.lit(False).alias(c.IS_LAST),
            pl.lit(-1, pl.Int8).alias("diff"),
        )

    def _ends(self, panes: pl.DataFrame, moment: Moment) -> tuple[pl.DataFrame, pl.Expr, pl.Expr, pl.Expr]:
        """Whether windows are complete, were so before, and have expired, on whatever axis they lie."""
        end, life = pl.col(c.END), self._lifetime
        if self._plan.window.axis == "rows" and c.SEEN in panes.columns:
            complete = life.complete(end, pl.col(c.SEEN) + 1).fill_null(False) | pl.lit(moment.watermark == MAX)
            return panes, complete, pl.lit(False), complete
        if moment.reach is not None:
            panes, was, now = moment.reach.beside(panes), pl.col(c.WAS), pl.col(c.REACHED)
            return panes, life.complete(end, now), life.complete(end, was), life.expired(end, now)
        was_complete = life.complete(end, moment.was)
        return panes, life.complete(end, moment.watermark), was_complete, life.expired(end, moment.watermark)

    def _prepared(self, panes: pl.DataFrame, moment: Moment, merging: bool) -> pl.LazyFrame:
        """Panes with what their trigger must know, and with a state for those that are new."""
        panes, complete, was, expired = self._ends(panes, moment)
        if EVICTED in panes.columns:
            expired = expired | pl.col(EVICTED)
        prepared = (
            panes.lazy()
            .with_columns(
                complete.alias(COMPLETE.meta.output_name()),
                was.alias(WAS_COMPLETE.meta.output_name()),
                expired.alias(_EXPIRED),
                pl.lit(moment.now, pl.Int64).alias(NOW.meta.output_name()),
            )
            .with_columns(self._begun)
            .drop(c.WAS, c.REACHED, EVICTED, strict=False)
        )
        return prepared.with_columns(self._moved) if merging else prepared

    def _emit(self, told: pl.DataFrame, moment: Moment) -> tuple[pl.DataFrame, list[pl.DataFrame]]:
        """Panes as output rows, and the same panes as they stand afterwards."""
        results = self._bound.results(told.select(self._bound.columns))
        timing = (
            pl.when(~COMPLETE).then(pl.lit(EARLY)).when(~WAS_COMPLETE).then(pl.lit(ON_TIME)).otherwise(pl.lit(LATE))
        )
        info = told.select(
            timing.alias(c.TIMING),
            pl.col(INDEX).alias(c.INDEX),
            pl.when(COMPLETE).then(NONSPECULATIVE).otherwise(-1).cast(pl.Int32).alias(c.NONSPECULATIVE),
            (pl.col(INDEX) == 0).alias(c.IS_FIRST),
            (pl.col(_EXPIRED) | pl.col(FINISHED)).alias(c.IS_LAST),
        ).with_columns(self._output_time(told, results, moment))
        values = results.select(self._results)
        said = told.select(*self._plan.key, c.START, c.END).hstack(values).hstack(info)
        said = said.with_columns(pl.lit(1, pl.Int8).alias("diff"))
        changed = self._changed(told, values)
        vanished = results["__net"] == 0 if "__net" in results.columns else None
        if changed is not None and vanished is not None:  # no rows can look like rows without values
            changed = changed | (vanished & told[_SPOKEN].is_not_null())
        emitted = []
        if self._plan.mode == "retracting":
            emitted.append(self.retract(told if changed is None else told.filter(changed)))
        speaks = changed if vanished is None else (~vanished if changed is None else changed & ~vanished)
        emitted.append(said if speaks is None else said.filter(speaks))
        return self._afterwards(told, values, info, changed, vanished), emitted

    def _output_time(self, told: pl.DataFrame, results: pl.DataFrame, moment: Moment) -> pl.Series:
        if self._plan.window.axis == "rows":  # not behind the watermark, or a chained pipeline would find it late
            return results[c.HELD].clip(lower_bound=moment.stood).alias(c.PANE_TIME)
        end = told[c.END]
        at_end = pl.select(pl.when(end < MAX).then(end - 1)).to_series().alias(c.PANE_TIME)
        if self._plan.output_time != "end":
            return pl.select(pl.coalesce(results[c.HELD], at_end)).to_series().alias(c.PANE_TIME)
        return at_end

    def _changed(self, told: pl.DataFrame, values: pl.DataFrame) -> pl.Series | None:
        """Which panes say something else than the last one did; None: all are to be told."""
        if not self._plan.skip_unchanged:
            return None
        if self._plan.mode == "discarding":  # equal values are not the same rows
            return told.select((pl.col(PENDING) > 0) | (pl.col(INDEX) == 0)).to_series()
        before = told.select(pl.col(f"{LAST}{name}").alias(name) for name in self._results)
        same = [before[name].eq_missing(values[name]) for name in self._results]
        first = told[_SPOKEN].is_null()
        return first | ~pl.DataFrame(same).select(pl.all_horizontal(pl.all())).to_series()

    def _afterwards(
        self,
        told: pl.DataFrame,
        values: pl.DataFrame,
        info: pl.DataFrame,
        changed: pl.Series | None,
        vanished: pl.Series | None,
    ) -> pl.DataFrame:
        spoke = pl.lit(True) if changed is None else changed
        updates = [
            pl.lit(0, pl.Int64).alias(PENDING),
            (pl.col(INDEX) + spoke.cast(pl.Int32)).alias(INDEX),
            (pl.col(NONSPECULATIVE) + (spoke & COMPLETE).cast(pl.Int32)).alias(NONSPECULATIVE),
        ]
        after = told.with_columns(updates)
        if self._plan.mode == "discarding":
            nothing = self._bound.empty(told.height)
            if self._plan.window.axis == "rows":  # the time of such a window is that of all of its rows
                nothing = nothing.drop(c.HELD)
            after = after.with_columns(nothing.get_columns())
        if self._plan.remembers:
            last = values.rename({name: f"{LAST}{name}" for name in self._results})
            facts = info.select(pl.col(name).alias(f"{LAST}{name}") for name in _INFO)
            new = [*last.get_columns(), *facts.get_columns()]
            if changed is not None:
                new = [
                    pl.select(pl.when(changed).then(s).otherwise(told[s.name])).to_series().alias(s.name) for s in new
                ]
            after = after.with_columns(new)
            if vanished is not None and vanished.any():
                after = after.with_columns(pl.when(~vanished).then(pl.col(_SPOKEN)).alias(_SPOKEN))
        return after

    def _kept(self, told: pl.DataFrame, quiet: pl.DataFrame) -> pl.DataFrame:
        """Panes that stay open, with the times at which they must be looked at again."""
        panes = pl.concat([told.select(quiet.columns), quiet]) if told.height else quiet
        due = pl.when(COMPLETE).then(self._lifetime.expires_at(pl.col(c.END))).otherwise(pl.col(c.END))
        if self._plan.window.axis == "rows" and c.SEEN in panes.columns:
            due = pl.lit(MAX, pl.Int64)
        # A time that has passed does not come again; kept, it would hide the ones that are still to come.
        times = [pl.col(column.name) for column in self._columns if column.due]
        clocks = [pl.when(time > NOW).then(time) for time in times]
        clock = pl.min_horizontal(clocks) if clocks else pl.lit(None, pl.Int64)
        return panes.with_columns(
            due.cast(pl.Int64).alias(DUE), pl.when(~pl.col(FINISHED)).then(clock).cast(pl.Int64).alias(CLOCK)
        )
