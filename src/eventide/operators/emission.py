"""Which panes are emitted: triggers, timing, pane index and retractions, as vectors over the panes of a bundle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from eventide import _columns as c
from eventide.aggregates import Bound
from eventide.operators.slices import OffsetWatermarks
from eventide.panes import DIFF, EARLY, LATE, ON_TIME
from eventide.plan.window_plan import WindowPlan
from eventide.state.pane_table import CLOCK, DUE, HASH, Positions
from eventide.time import MAX, MIN
from eventide.triggers.evaluation import FIRES, TriggerEvaluation
from eventide.triggers.trigger import ADDED, COMPLETE, NOW, WAS_COMPLETE
from eventide.windows.lateness import Lateness, is_complete, is_due

PENDING = c.PENDING
INDEX = "__index"  # of the next pane
NONSPECULATIVE = "__nonspeculative"
FINISHED = "__finished"
LAST = "__last."  # prefix: columns of the last pane
EVICTED = "__evicted"  # a state limit closes the window
COUNTERS = (INDEX, NONSPECULATIVE)
FIRST_INDEX = 0

_INFO = (c.TIMING, c.INDEX, c.NONSPECULATIVE, c.IS_FIRST, c.PANE_TIME)
_LAST_INDEX = f"{LAST}{c.INDEX}"  # null: the window has no pane that could be retracted
_UNEMITTED = "__unemitted"

# Rows that arrive after their trigger has finished are not emitted.
_UNEMITTED_ROWS = pl.when(FINISHED).then(ADDED).otherwise(0).alias(_UNEMITTED)
# Rows still pending at expiry are emitted.
_CLOSING = pl.col(c.EXPIRED) & ~pl.col(FINISHED) & (pl.col(PENDING) > 0)
# A pane has new rows, or is the one of the complete window.
_HAS_NEWS = (pl.col(PENDING) > 0) | (COMPLETE & ~WAS_COMPLETE)


@dataclass(frozen=True)
class StepTime:
    """The time of a bundle: its batch time, and the watermark before and after it.

    ``previous`` and ``watermark`` are positions on the windows' axis, ``previous_time`` and ``time`` event times.
    """

    previous: int
    watermark: int
    now: int
    previous_time: int = MIN
    time: int = MIN
    offsets: OffsetWatermarks | None = None  # for windows by offset, where each origin has its own axis

    @property
    def due(self) -> tuple[int, int] | Callable[[pl.DataFrame], Positions]:
        """What finds the panes that the bundle makes due."""
        return (self.previous, self.watermark) if self.offsets is None else self.offsets.due


@dataclass(frozen=True)
class EmittedPanes:
    """The panes that stay open, and the rows that are emitted, with ``diff``."""

    open: pl.DataFrame
    emitted: list[pl.DataFrame]
    unemitted: int


def pane_timing(complete: pl.Expr, late: pl.Expr) -> pl.Expr:
    """Return the timing of panes: EARLY until the window is complete, then ON_TIME, then LATE.

    >>> pl.select(pane_timing(pl.lit(True), late=pl.lit(False))).item()
    'ON_TIME'
    """
    return pl.when(~complete).then(pl.lit(EARLY)).when(~late).then(pl.lit(ON_TIME)).otherwise(pl.lit(LATE))


def next_index(index: pl.Expr, emitted: pl.Expr | pl.Series) -> pl.Expr:
    """Return the index of the next pane: one more for every pane that was emitted.

    >>> pl.select(next_index(pl.lit(2), pl.lit(True))).item()
    3
    """
    return index + emitted.cast(pl.Int32)


def new_window(moved: pl.Expr, counters: Sequence[str] = COUNTERS) -> list[pl.Expr]:
    """The counters of windows whose bounds have moved: they are new windows, and count their panes from 0."""
    first = pl.lit(FIRST_INDEX, pl.Int32)
    return [pl.when(moved).then(first).otherwise(name).alias(name) for name in counters]


def pane_info(index: pl.Expr, nonspeculative: pl.Expr, complete: pl.Expr, when: pl.Expr) -> list[pl.Expr]:
    """The columns of a pane about itself; a pane of an incomplete window has no nonspeculative index (-1)."""
    return [
        when.alias(c.TIMING),
        index.alias(c.INDEX),
        pl.when(complete).then(nonspeculative).otherwise(-1).cast(pl.Int32).alias(c.NONSPECULATIVE),
        (index == FIRST_INDEX).alias(c.IS_FIRST),
    ]


def only_pane() -> list[pl.Expr]:
    """The columns of the pane of a window that fires once, when it is complete."""
    first, complete = pl.lit(FIRST_INDEX, pl.Int32), pl.lit(True)
    return pane_info(first, first, complete, pane_timing(complete, late=~complete))


def retract(panes: pl.DataFrame, identity: Sequence[str], results: Sequence[str]) -> pl.DataFrame:
    """The rows that retract the last pane of each window that has one, with ``diff = -1``."""
    emitted_before = panes.filter(pl.col(_LAST_INDEX).is_not_null())
    return emitted_before.select(
        *identity,
        *(pl.col(f"{LAST}{name}").alias(name) for name in (*results, *_INFO)),
        pl.lit(False).alias(c.IS_LAST),
        pl.lit(-1, pl.Int8).alias(DIFF),
    )


def window_time(end: pl.Expr) -> pl.Expr:
    """The event time of a pane: the last instant of its window; null without an end."""
    return pl.when(end < MAX).then(end - 1)


class PaneEmitter:
    """The plan's trigger, accumulation mode and lateness, compiled to expressions over the pane table."""

    def __init__(self, plan: WindowPlan, bound: Bound, results: Sequence[str]) -> None:
        self._plan = plan
        self._bound = bound
        self._results = tuple(results)
        self._identity = (*plan.key, c.START, c.END)
        self._expiry: Lateness = plan.expiry
        self.trigger = TriggerEvaluation(plan.trigger, "__trigger", accepts=~pl.col(FINISHED))
        self._fires = (self.trigger.fires & ~pl.col(FINISHED) & _HAS_NEWS).alias(FIRES)
        self._fired = [*self.trigger.fired, (pl.col(FINISHED) | self.trigger.finishes).alias(FINISHED)]
        self._with_defaults = [
            *self.trigger.started(pl.col(INDEX).is_null(), keep_set=True),
            pl.col(PENDING).fill_null(0),
            pl.col(INDEX).fill_null(FIRST_INDEX),
            pl.col(NONSPECULATIVE).fill_null(FIRST_INDEX),
            pl.col(FINISHED).fill_null(False),
        ]

    def state_schema(self) -> dict[str, pl.DataType]:
        """The columns that an open pane has in addition to key, window and accumulators."""
        schema = {PENDING: pl.Int64(), INDEX: pl.Int32(), NONSPECULATIVE: pl.Int32(), FINISHED: pl.Boolean()}
        schema |= self.trigger.schema()
        if self._plan.stores_last_pane:
            schema |= {f"{LAST}{name}": self._bound.result_schema[name] for name in self._results}
            info = (pl.String(), pl.Int32(), pl.Int32(), pl.Boolean(), pl.Int64())
            schema |= {f"{LAST}{name}": dtype for name, dtype in zip(_INFO, info, strict=True)}
        return schema

    def table_schema(self, rows: Mapping[str, pl.DataType]) -> dict[str, pl.DataType]:
        """All columns of the table of open panes."""
        bounds: dict[str, pl.DataType] = {c.START: pl.Int64(), c.END: pl.Int64()}
        index: dict[str, pl.DataType] = {HASH: pl.UInt64(), DUE: pl.Int64(), CLOCK: pl.Int64()}
        return {name: rows[name] for name in self._plan.key} | bounds | self._bound.schema | self.state_schema() | index

    def evaluate(self, panes: pl.DataFrame, step: StepTime, *, merging: bool) -> EmittedPanes:
        """Evaluate the trigger of all ``panes``. With ``merging``, the bounds of windows may have moved."""
        # One query from state to decision: small bundles pay for each call of Polars.
        panes = (
            self._prepared(panes, step, merging)
            .with_columns(*self.trigger.added, _UNEMITTED_ROWS, pl.col(PENDING) + ADDED)
            .with_columns(self._fires)
            .with_columns((pl.col(FIRES) | _CLOSING).alias(c.EMIT))
            .with_columns(self._fired)
            .collect(engine="in-memory")
        )
        unemitted = int(panes[_UNEMITTED].sum())
        panes = panes.drop(_UNEMITTED)
        firing = panes.filter(c.EMIT)
        waiting = panes.filter(~pl.col(c.EMIT) & ~pl.col(c.EXPIRED))
        emitted: list[pl.DataFrame] = []
        if firing.height:
            firing, emitted = self._emit(firing, step)
        return EmittedPanes(self._open(firing.filter(~pl.col(c.EXPIRED)), waiting), emitted, unemitted)

    def expired(self, panes: pl.DataFrame, step: StepTime) -> pl.Series:
        """Which of ``panes`` expire with this bundle."""
        panes, _, _, expired = self._ends(panes, step)
        return panes.with_columns(expired.alias(c.EXPIRED))[c.EXPIRED]

    def retract(self, panes: pl.DataFrame) -> pl.DataFrame:
        """The rows that retract the last pane of each window that has one."""
        return retract(panes, self._identity, self._results)

    def _ends(self, panes: pl.DataFrame, step: StepTime) -> tuple[pl.DataFrame, pl.Expr, pl.Expr, pl.Expr]:
        """Whether windows are complete, were so before, and are expired, on the axis of the windows."""
        end, expiry = pl.col(c.END), self._expiry
        if self._plan.window.axis == "rows" and c.SEEN in panes.columns:
            complete = is_complete(end, pl.col(c.SEEN) + 1).fill_null(False) | pl.lit(step.watermark == MAX)
            if c.FORGET in panes.columns:  # no more rows are expected of a key that is forgotten
                complete |= is_due(pl.col(c.FORGET), step.time).fill_null(False)
            return panes, complete, pl.lit(False), complete
        if step.offsets is not None:
            panes, previous, now = step.offsets.with_offsets(panes), pl.col(c.PREVIOUS), pl.col(c.REACHED)
            return panes, is_complete(end, now), is_complete(end, previous), expiry.is_expired(end, now)
        return (
            panes,
            is_complete(end, step.watermark),
            is_complete(end, step.previous),
            expiry.is_expired(end, step.watermark),
        )

    def _prepared(self, panes: pl.DataFrame, step: StepTime, merging: bool) -> pl.LazyFrame:
        """Panes with what their trigger must know, and with a state for those that are new."""
        panes, complete, was_complete, expired = self._ends(panes, step)
        if EVICTED in panes.columns:
            expired = expired | pl.col(EVICTED)
        prepared = (
            panes.lazy()
            .with_columns(
                complete.alias(COMPLETE.meta.output_name()),
                was_complete.alias(WAS_COMPLETE.meta.output_name()),
                expired.alias(c.EXPIRED),
                pl.lit(step.now, pl.Int64).alias(NOW.meta.output_name()),
            )
            .with_columns(self._with_defaults)
            .drop(c.PREVIOUS, c.REACHED, EVICTED, strict=False)
        )
        return prepared.with_columns(self.trigger.moved) if merging else prepared

    def _emit(self, firing: pl.DataFrame, step: StepTime) -> tuple[pl.DataFrame, list[pl.DataFrame]]:
        """The panes after they have fired, and the emitted rows."""
        results = self._bound.results(firing.select(self._bound.columns))
        info = firing.select(
            *pane_info(pl.col(INDEX), pl.col(NONSPECULATIVE), COMPLETE, pane_timing(COMPLETE, late=WAS_COMPLETE)),
            (pl.col(c.EXPIRED) | pl.col(FINISHED)).alias(c.IS_LAST),
        ).with_columns(self._output_time(firing, results, step))
        values = results.select(self._results)
        rows = firing.select(self._identity).hstack(values).hstack(info)
        rows = rows.with_columns(pl.lit(1, pl.Int8).alias(DIFF))
        changed = self._changed(firing, values)
        emptied = results[c.NET] == 0 if c.NET in results.columns else None  # all rows were retracted
        if changed is not None and emptied is not None:  # a window without rows can equal one without values
            changed = changed | (emptied & firing[_LAST_INDEX].is_not_null())
        emitted = []
        if self._plan.mode == "retracting":
            emitted.append(self.retract(firing if changed is None else firing.filter(changed)))
        emits = changed if emptied is None else (~emptied if changed is None else changed & ~emptied)
        emitted.append(rows if emits is None else rows.filter(emits))
        return self._after_emission(firing, values, info, changed, emptied), emitted

    def _output_time(self, firing: pl.DataFrame, results: pl.DataFrame, step: StepTime) -> pl.Series:
        if self._plan.window.axis == "rows":  # a pane behind the watermark would be late in a chained pipeline
            return results[c.HELD].clip(lower_bound=step.previous_time).alias(c.PANE_TIME)
        at_end = firing.select(window_time(pl.col(c.END)).alias(c.PANE_TIME)).to_series()
        if self._plan.output_time != "end":
            return pl.select(pl.coalesce(results[c.HELD], at_end)).to_series().alias(c.PANE_TIME)
        return at_end

    def _changed(self, firing: pl.DataFrame, values: pl.DataFrame) -> pl.Series | None:
        """Which panes differ from the last one of their window; None: all are emitted."""
        if not self._plan.skip_unchanged:
            return None
        if self._plan.mode == "discarding":  # equal values are not the same rows
            return firing.select((pl.col(PENDING) > 0) | (pl.col(INDEX) == FIRST_INDEX)).to_series()
        before = firing.select(pl.col(f"{LAST}{name}").alias(name) for name in self._results)
        same = [before[name].eq_missing(values[name]) for name in self._results]
        first = firing[_LAST_INDEX].is_null()
        return first | ~pl.DataFrame(same).select(pl.all_horizontal(pl.all())).to_series()

    def _after_emission(
        self,
        firing: pl.DataFrame,
        values: pl.DataFrame,
        info: pl.DataFrame,
        changed: pl.Series | None,
        emptied: pl.Series | None,
    ) -> pl.DataFrame:
        emitted = pl.lit(True) if changed is None else changed
        updates = [
            pl.lit(0, pl.Int64).alias(PENDING),
            next_index(pl.col(INDEX), emitted).alias(INDEX),
            next_index(pl.col(NONSPECULATIVE), emitted & COMPLETE).alias(NONSPECULATIVE),
        ]
        after = firing.with_columns(updates)
        if self._plan.mode == "discarding":
            nothing = self._bound.empty(firing.height)
            if self._plan.window.axis == "rows":  # the output time is that of all rows of the window
                nothing = nothing.drop(c.HELD)
            after = after.with_columns(nothing.get_columns())
        if self._plan.stores_last_pane:
            last = values.rename({name: f"{LAST}{name}" for name in self._results})
            facts = info.select(pl.col(name).alias(f"{LAST}{name}") for name in _INFO)
            new = [*last.get_columns(), *facts.get_columns()]
            if changed is not None:
                new = [
                    pl.select(pl.when(changed).then(s).otherwise(firing[s.name])).to_series().alias(s.name) for s in new
                ]
            after = after.with_columns(new)
            if emptied is not None and emptied.any():
                after = after.with_columns(pl.when(~emptied).then(pl.col(_LAST_INDEX)).alias(_LAST_INDEX))
        return after

    def _open(self, fired: pl.DataFrame, waiting: pl.DataFrame) -> pl.DataFrame:
        """Panes that stay open, with the times at which they are due again."""
        panes = pl.concat([fired.select(waiting.columns), waiting]) if fired.height else waiting
        due = pl.when(COMPLETE).then(self._expiry.expires_at(pl.col(c.END))).otherwise(pl.col(c.END))
        if self._plan.window.axis == "rows" and c.SEEN in panes.columns:
            due = pl.col(c.FORGET) if c.FORGET in panes.columns else pl.lit(MAX, pl.Int64)
        # A clock time that has passed would hide the later ones.
        clocks = [pl.when(time > NOW).then(time) for time in self.trigger.deadlines()]
        clock = pl.min_horizontal(clocks) if clocks else pl.lit(None, pl.Int64)
        return panes.with_columns(
            due.cast(pl.Int64).alias(DUE), pl.when(~pl.col(FINISHED)).then(clock).cast(pl.Int64).alias(CLOCK)
        )
