"""Timers: a processor asks to be called when event time, or the clock of the batches, has come this far."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from eventide.errors import processing as errors
from eventide.processors.changes import Changes, Keys
from eventide.state.pane_pages import PaneForm
from eventide.state.panes import PaneTable
from eventide.time import FIRST, LAST, time_column

TIMER, AT, CLOCK = "timer", "at", "clock"
COLUMNS = (TIMER, AT, CLOCK)
_INSTANT = pl.Datetime("us", "UTC")
_EVENT, _BATCH = ~pl.col(CLOCK), pl.col(CLOCK)


@dataclass(frozen=True)
class Reach:
    """How far time had come when the bundle began, and how far it has come now: event time, and the batch clock."""

    was: int
    watermark: int
    before: int
    now: int


class Timers:
    """A key has one timer of each name on each clock; to set it again moves it.

    A timer is due when the watermark has reached it; with ``clock=True``, when the time of a batch has.
    """

    def __init__(self, table: PaneTable, keys: Keys, reach: Reach, *, clock: bool) -> None:
        self._table = table
        self._keys = keys
        self._reach = reach
        self._clock = clock
        self._by = [*keys.by, TIMER, CLOCK]
        self._schema = {**keys.columns, TIMER: pl.String(), CLOCK: pl.Boolean(), AT: pl.Int64()}
        self._changes = Changes(self._by, self._schema)
        self._none = pl.DataFrame(schema={**keys.schema, TIMER: pl.String(), AT: _INSTANT, CLOCK: pl.Boolean()})

    @staticmethod
    def form(keys: Keys) -> PaneForm:
        """How the table is written."""
        return PaneForm((*keys.by, TIMER, CLOCK))

    def set(self, rows: pl.DataFrame, *, name: str = "", clock: bool = False) -> None:
        """Set the timers of the keys of these rows to the column ``at``, a time of any kind that Eventide reads."""
        named = self._named(rows, name, clock, "timers.set()")
        if AT not in rows.columns:
            raise errors.columns_missing(self._keys.who, "timers.set()", [AT], rows.columns)
        at, _ = time_column(rows, AT)
        self.put(named.with_columns(at.alias(AT)))

    def remove(self, rows: pl.DataFrame, *, name: str = "", clock: bool = False) -> None:
        """Take back the timers of the keys of these rows, where there are any."""
        self.drop(self._named(rows, name, clock, "timers.remove()"))

    def put(self, timers: pl.DataFrame) -> None:
        """Set timers: their keys, names and clocks, and the time in microseconds."""
        unusable = timers.filter(~pl.col(AT).is_between(FIRST, LAST).fill_null(False))
        if unusable.height:
            raise errors.no_time(self._keys.who, unusable[TIMER][0])
        if not self._clock and timers[CLOCK].any():
            raise errors.clock_not_declared(self._keys.who)
        self._changes.put(timers)

    def drop(self, timers: pl.DataFrame) -> None:
        """Take timers back: their keys, names and clocks."""
        self._changes.remove(timers)

    def due(self) -> pl.DataFrame:
        """Take out the timers that are due, in the order of their times."""
        reach = self._reach
        # Beside what the table holds, only timers of this bundle can lie behind what has been looked at before.
        nothing = pl.Series([], dtype=pl.UInt64)
        self._table, taken = self._table.take(
            nothing, due=(reach.was, reach.watermark), clock=(reach.before, reach.now)
        )
        if not taken and self._changes.rows.is_empty():
            return self._none
        stored = [self._changes.without(rows.select(list(self._schema))) for rows in taken]
        ready = (_EVENT & (pl.col(AT) <= reach.watermark)) | (_BATCH & (pl.col(AT) <= reach.now))
        fresh = self._changes.living().filter(ready)
        self._changes.remove(fresh)
        due = pl.concat([*stored, fresh]).sort(AT, TIMER, CLOCK, *self._keys.schema, maintain_order=True)
        return due.select(*self._keys.schema, TIMER, pl.col(AT).cast(_INSTANT), CLOCK)

    def kept(self) -> PaneTable:
        """The table as the bundle leaves it."""
        return self._changes.made_in(
            self._table, due=pl.when(_EVENT).then(pl.col(AT)), clock=pl.when(_BATCH).then(pl.col(AT))
        )

    def _named(self, rows: pl.DataFrame, name: str, clock: bool, call: str) -> pl.DataFrame:
        return self._keys.of(rows, call).with_columns(
            pl.lit(name, pl.String).alias(TIMER), pl.lit(clock, pl.Boolean).alias(CLOCK)
        )
