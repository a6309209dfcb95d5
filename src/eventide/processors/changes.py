"""A table of rows by key, and what a bundle changes in it. The table itself changes once, when the bundle ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from eventide.processors.fitting import fitted
from eventide.state.keys import as_grouped
from eventide.state.panes import CLOCK, DUE, HASH, PaneTable, hashes
from eventide.time import MIN

ALONE = "__alone"  # where rows have no key: all of them have this one
_GONE = "__gone"
_NEVER = (MIN, MIN)


@dataclass(frozen=True)
class Keys:
    """The key columns, as a processor names rows by them."""

    schema: Mapping[str, pl.DataType]
    who: str

    @property
    def by(self) -> tuple[str, ...]:
        """The columns of tables that hold the key."""
        return tuple(self.schema) or (ALONE,)

    @property
    def columns(self) -> dict[str, pl.DataType]:
        """The same, with their types."""
        return dict(self.schema) or {ALONE: pl.Int8()}

    def of(self, rows: pl.DataFrame, call: str) -> pl.DataFrame:
        """The keys of some rows."""
        found = fitted(rows, self.schema, who=self.who, call=call)
        if not self.schema:
            return pl.repeat(0, rows.height, dtype=pl.Int8, eager=True).alias(ALONE).to_frame()
        return as_grouped(found, self.schema)


class Changes:
    """Rows that were put or removed, the last word on each key."""

    def __init__(self, by: Sequence[str], schema: Mapping[str, pl.DataType]) -> None:
        self.by = list(by)
        self._names = list(schema)
        self.rows = pl.DataFrame(schema={**schema, _GONE: pl.Boolean()})

    def put(self, rows: pl.DataFrame) -> None:
        """Rows take the place of those with the same key; of several the last one counts."""
        self._note(rows.select(*self._names, pl.lit(False).alias(_GONE)))

    def remove(self, keys: pl.DataFrame) -> None:
        """The rows of these keys are gone."""
        others = [
            pl.lit(None, dtype).alias(name) for name, dtype in self.rows.schema.items() if name not in (*self.by, _GONE)
        ]
        self._note(keys.select(*self.by, *others, pl.lit(True).alias(_GONE)).select(self.rows.columns))

    def living(self) -> pl.DataFrame:
        """The rows that were put and not removed since."""
        return self.rows.filter(~pl.col(_GONE)).select(self._names)

    def without(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Those of ``rows`` on whose key nothing was said."""
        if self.rows.is_empty():
            return rows
        return rows.join(self.rows, on=self.by, how="anti", nulls_equal=True, maintain_order="left")

    def made_in(self, table: PaneTable, *, due: pl.Expr, clock: pl.Expr) -> PaneTable:
        """The table with these changes. ``due`` and ``clock`` are the times at which a row falls due, or null."""
        if self.rows.is_empty():
            return table
        table, taken = table.take(hashes(self.rows, self.by), due=_NEVER, clock=_NEVER)
        kept = [self.without(rows) for rows in taken]  # others with the same hash
        living = self.living()
        living = living.with_columns(
            hashes(living, self.by).alias(HASH), due.cast(pl.Int64).alias(DUE), clock.cast(pl.Int64).alias(CLOCK)
        )
        return table.put(pl.concat([*kept, living]))

    def _note(self, rows: pl.DataFrame) -> None:
        if rows.is_empty():
            return
        rows = rows.unique(subset=self.by, keep="last", maintain_order=True)
        self.rows = pl.concat([self.rows.join(rows, on=self.by, how="anti", nulls_equal=True), rows])


def found_in(table: PaneTable, keys: pl.DataFrame, by: Sequence[str]) -> list[pl.DataFrame]:
    """The rows of some keys (and of others with the same hash), which stay where they are."""
    wanted = np.unique(hashes(keys, by).to_numpy())
    found = [(run, run.find(wanted)) for run in table.runs]
    return [run.panes[rows[run.alive[rows]]] for run, rows in found if len(rows)]
