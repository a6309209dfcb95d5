"""What a processor remembers of each key."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from eventide.processors.changes import Changes, Keys, found_in
from eventide.processors.fitting import fitted
from eventide.state.keys import join_on_key
from eventide.state.pane_pages import PaneForm
from eventide.state.panes import PaneTable

_NEVER = pl.lit(None, pl.Int64)


class KeyedState:
    """One row for each key, read and written by columns: ``state_schema`` of the processor names them.

    What is read follows the keys that are asked for, and what is saved follows the keys that are written.
    """

    def __init__(self, table: PaneTable, keys: Keys, columns: Mapping[str, pl.DataType]) -> None:
        self._table = table
        self._keys = keys
        self.columns = dict(columns)
        self._changes = Changes(keys.by, keys.columns | self.columns)

    @staticmethod
    def form(keys: Keys) -> PaneForm:
        """How the table is written."""
        return PaneForm(keys.by)

    def get(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The state of each row's key, row by row: the key columns and those of the state, null where there is none."""
        keys = self._keys.of(rows, "state.get()")
        by = list(self._keys.by)
        stored = [self._changes.without(part.select(*by, *self.columns)) for part in self._stored(keys)]
        known = pl.concat([*stored, self._changes.living()])
        found = join_on_key(keys, known, by, maintain_order="left")
        return found.select(*self._keys.schema, *self.columns)

    def put(self, rows: pl.DataFrame) -> None:
        """Remember these values, one row for each key (of several the last one); other columns are left aside."""
        values = fitted(rows, self.columns, who=self._keys.who, call="state.put()")
        self._changes.put(pl.concat([self._keys.of(rows, "state.put()"), values], how="horizontal"))

    def remove(self, rows: pl.DataFrame) -> None:
        """Forget the keys of these rows."""
        self._changes.remove(self._keys.of(rows, "state.remove()"))

    def kept(self) -> PaneTable:
        """The table as the bundle leaves it."""
        return self._changes.made_in(self._table, due=_NEVER, clock=_NEVER)

    def _stored(self, keys: pl.DataFrame) -> list[pl.DataFrame]:
        return found_in(self._table, keys, self._keys.by)
