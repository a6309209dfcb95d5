"""State and timers of a processor, by key.

Both are tables. A bundle collects its changes, and they are applied to the table once, when the bundle ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from eventide.errors import DataError
from eventide.kernels.keys import as_grouped, join_on_key
from eventide.processors.declared_columns import fitted
from eventide.processors.errors import columns_missing
from eventide.state.pane_log import PaneCodec
from eventide.state.pane_table import CLOCK, DUE, HASH, PaneTable, row_hashes
from eventide.time import FIRST, LAST, MIN, time_column
from eventide.windows.lateness import is_due

ALONE = "__alone"  # the key column of plans without a key
_GONE = "__gone"
_NEVER = (MIN, MIN)


@dataclass(frozen=True)
class Keys:
    """The key columns of a processor."""

    schema: Mapping[str, pl.DataType]
    who: str

    @property
    def by(self) -> tuple[str, ...]:
        """The names of the key columns in tables."""
        return tuple(self.schema) or (ALONE,)

    @property
    def columns(self) -> dict[str, pl.DataType]:
        """The key columns in tables, with their types."""
        return dict(self.schema) or {ALONE: pl.Int8()}

    def of(self, rows: pl.DataFrame, call: str) -> pl.DataFrame:
        """Return the keys of rows."""
        columns = fitted(rows, self.schema, who=self.who, call=call)
        if not self.schema:
            return pl.repeat(0, rows.height, dtype=pl.Int8, eager=True).alias(ALONE).to_frame()
        return as_grouped(columns, self.schema)


class KeyedChanges:
    """Rows that were put or removed in a bundle; the last change of each key."""

    def __init__(self, by: Sequence[str], schema: Mapping[str, pl.DataType]) -> None:
        self.by = list(by)
        self._names = list(schema)
        self.rows = pl.DataFrame(schema={**schema, _GONE: pl.Boolean()})

    def put(self, rows: pl.DataFrame) -> None:
        """Replace the rows of these keys. Of several rows with the same key, the last one counts."""
        self._note(rows.select(*self._names, pl.lit(False).alias(_GONE)))

    def remove(self, keys: pl.DataFrame) -> None:
        """Remove the rows of these keys."""
        others = [
            pl.lit(None, dtype).alias(name) for name, dtype in self.rows.schema.items() if name not in (*self.by, _GONE)
        ]
        self._note(keys.select(*self.by, *others, pl.lit(True).alias(_GONE)).select(self.rows.columns))

    def living(self) -> pl.DataFrame:
        """Return the rows that were put and not removed since."""
        return self.rows.filter(~pl.col(_GONE)).select(self._names)

    def without(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows whose keys have not changed."""
        if self.rows.is_empty():
            return rows
        return rows.join(self.rows, on=self.by, how="anti", nulls_equal=True, maintain_order="left")

    def apply_to(self, table: PaneTable, *, due: pl.Expr, clock: pl.Expr) -> PaneTable:
        """Return the table with these changes. ``due`` and ``clock`` are the times at which a row is due, or null."""
        if self.rows.is_empty():
            return table
        table, taken = table.take(row_hashes(self.rows, self.by), due=_NEVER, clock=_NEVER)
        others = [self.without(rows) for rows in taken]  # others with the same hash
        living = self.living()
        living = living.with_columns(
            row_hashes(living, self.by).alias(HASH), due.cast(pl.Int64).alias(DUE), clock.cast(pl.Int64).alias(CLOCK)
        )
        return table.put(pl.concat([*others, living]))

    def _note(self, rows: pl.DataFrame) -> None:
        if rows.is_empty():
            return
        rows = rows.unique(subset=self.by, keep="last", maintain_order=True)
        self.rows = pl.concat([self.rows.join(rows, on=self.by, how="anti", nulls_equal=True), rows])


def stored_rows(table: PaneTable, keys: pl.DataFrame, by: Sequence[str]) -> list[pl.DataFrame]:
    """Return the rows of some keys, and of others with the same hash. They stay in the table."""
    wanted = np.unique(row_hashes(keys, by).to_numpy())
    matches = [(run, run.find(wanted)) for run in table.runs]
    return [run.panes[rows[run.live[rows]]] for run, rows in matches if len(rows)]


_NEVER_DUE = pl.lit(None, pl.Int64)


class KeyedState:
    """One row for each key, with the columns of ``state_schema``.

    Only the requested keys are read, and only the changed keys are written.
    """

    def __init__(self, table: PaneTable, keys: Keys, columns: Mapping[str, pl.DataType]) -> None:
        self._table = table
        self._keys = keys
        self.columns = dict(columns)
        self._changes = KeyedChanges(keys.by, keys.columns | self.columns)

    @staticmethod
    def form(keys: Keys) -> PaneCodec:
        """Return the codec of the table."""
        return PaneCodec(keys.by)

    def get(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the state of each row's key: the key columns and those of the state, null where there is none."""
        keys = self._keys.of(rows, "state.get()")
        by = list(self._keys.by)
        stored = [self._changes.without(part.select(*by, *self.columns)) for part in self._stored(keys)]
        known = pl.concat([*stored, self._changes.living()])
        states = join_on_key(keys, known, by, maintain_order="left")
        return states.select(*self._keys.schema, *self.columns)

    def put(self, rows: pl.DataFrame) -> None:
        """Store these values, one row for each key (of several the last one). Other columns are ignored."""
        values = fitted(rows, self.columns, who=self._keys.who, call="state.put()")
        self._changes.put(pl.concat([self._keys.of(rows, "state.put()"), values], how="horizontal"))

    def remove(self, rows: pl.DataFrame) -> None:
        """Remove the state of the keys of these rows."""
        self._changes.remove(self._keys.of(rows, "state.remove()"))

    def updated_table(self) -> PaneTable:
        """Return the table after the bundle."""
        return self._changes.apply_to(self._table, due=_NEVER_DUE, clock=_NEVER_DUE)

    def _stored(self, keys: pl.DataFrame) -> list[pl.DataFrame]:
        return stored_rows(self._table, keys, self._keys.by)


TIMER, AT, ON_CLOCK = "timer", "at", "clock"
COLUMNS = (TIMER, AT, ON_CLOCK)
_INSTANT = pl.Datetime("us", "UTC")
_EVENT, _BATCH = ~pl.col(ON_CLOCK), pl.col(ON_CLOCK)


@dataclass(frozen=True)
class DueRange:
    """Watermark and batch time before the bundle and now."""

    previous_watermark: int
    watermark: int
    before: int
    now: int


class Timers:
    """The timers of all keys. A key has one timer of each name on each clock; setting it again moves it.

    A timer is due when the watermark has reached it; with ``clock=True``, when the batch time has.
    """

    def __init__(self, table: PaneTable, keys: Keys, reach: DueRange, *, clock: bool) -> None:
        self._table = table
        self._keys = keys
        self._reach = reach
        self._clock = clock
        self._by = [*keys.by, TIMER, ON_CLOCK]
        self._schema = {**keys.columns, TIMER: pl.String(), ON_CLOCK: pl.Boolean(), AT: pl.Int64()}
        self._changes = KeyedChanges(self._by, self._schema)
        self._none = pl.DataFrame(schema={**keys.schema, TIMER: pl.String(), AT: _INSTANT, ON_CLOCK: pl.Boolean()})

    @staticmethod
    def form(keys: Keys) -> PaneCodec:
        """Return the codec of the table."""
        return PaneCodec((*keys.by, TIMER, ON_CLOCK))

    def set(self, rows: pl.DataFrame, *, name: str = "", clock: bool = False) -> None:
        """Set the timers of the keys of these rows to the column ``at``, a time of any kind that Eventide reads."""
        named = self._named(rows, name, clock, "timers.set()")
        if AT not in rows.columns:
            raise columns_missing(self._keys.who, "timers.set()", [AT], rows.columns)
        at, _ = time_column(rows, AT)
        self.put(named.with_columns(at.alias(AT)))

    def remove(self, rows: pl.DataFrame, *, name: str = "", clock: bool = False) -> None:
        """Remove the timers of the keys of these rows, if there are any."""
        self.drop(self._named(rows, name, clock, "timers.remove()"))

    def put(self, timers: pl.DataFrame) -> None:
        """Set timers: their keys, names and clocks, and the time in microseconds."""
        unusable = timers.filter(~pl.col(AT).is_between(FIRST, LAST).fill_null(False))
        if unusable.height:
            raise _no_time(self._keys.who, unusable[TIMER][0])
        if not self._clock and timers[ON_CLOCK].any():
            raise DataError(
                f"{self._keys.who} sets a timer on the batch clock. Set `clock = True` in the class, so that "
                "there are batches even when no rows arrive."
            )
        self._changes.put(timers)

    def drop(self, timers: pl.DataFrame) -> None:
        """Remove timers: their keys, names and clocks."""
        self._changes.remove(timers)

    def due(self) -> pl.DataFrame:
        """Take out the timers that are due, in the order of their times."""
        reach = self._reach
        # The table has no timers before this range. Timers that the bundle has set may be before it.
        nothing = pl.Series([], dtype=pl.UInt64)
        self._table, taken = self._table.take(
            nothing, due=(reach.previous_watermark, reach.watermark), clock=(reach.before, reach.now)
        )
        if not taken and self._changes.rows.is_empty():
            return self._none
        stored = [self._changes.without(rows.select(list(self._schema))) for rows in taken]
        ready = (_EVENT & is_due(pl.col(AT), reach.watermark)) | (_BATCH & is_due(pl.col(AT), reach.now))
        fresh = self._changes.living().filter(ready)
        self._changes.remove(fresh)
        due = pl.concat([*stored, fresh]).sort(AT, TIMER, ON_CLOCK, *self._keys.schema, maintain_order=True)
        return due.select(*self._keys.schema, TIMER, pl.col(AT).cast(_INSTANT), ON_CLOCK)

    def updated_table(self) -> PaneTable:
        """Return the table after the bundle."""
        return self._changes.apply_to(
            self._table, due=pl.when(_EVENT).then(pl.col(AT)), clock=pl.when(_BATCH).then(pl.col(AT))
        )

    def _named(self, rows: pl.DataFrame, name: str, clock: bool, call: str) -> pl.DataFrame:
        return self._keys.of(rows, call).with_columns(
            pl.lit(name, pl.String).alias(TIMER), pl.lit(clock, pl.Boolean).alias(ON_CLOCK)
        )


def _no_time(processor: str, name: str) -> DataError:
    """Return the error about a timer without a time."""
    timer = f"timer {name!r}" if name else "a timer"
    return DataError(
        f"{processor}: {timer} was set to a time that is null or cannot be read. Filter such rows out, or use "
        "timers.remove(…) to remove a timer."
    )
