"""A join with the last rows of the right side: rows of the left meet so many right ones of their key.

In a bundle the right rows come first. Each meets the left rows that are kept, once, when it comes; then the left rows
of the bundle meet the right ones that are the last of their key by now.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from eventide.operators import columns as c
from eventide.operators.interval_join import IntervalJoin, Store
from eventide.operators.meeting import Meetings
from eventide.plan.join_plan import LEFT, RIGHT
from eventide.state.panes import HASH, PaneTable
from eventide.time import MAX, MIN

_NEVER = (0, 0)


class LastRowsJoin(IntervalJoin):
    """A join over ``rows(n)``, bound to the columns of its sides."""

    def _met(
        self, store: Store, new: Sequence[pl.DataFrame], was: Sequence[int], reached: Sequence[int]
    ) -> tuple[Store, list[pl.DataFrame]]:
        meetings = Meetings()
        ours, theirs = self._sides
        left, right = (side.with_key(rows) for side, rows in zip(self._sides, new, strict=True))
        (met_left,) = self._matcher.meet(RIGHT, right, [store[LEFT]], meetings)
        last, passed_by = self._last(store[RIGHT], self._marked(theirs, right, meetings))
        (met_right,) = self._matcher.meet(LEFT, left, [last], meetings)
        left = self._marked(ours, left, meetings)
        tables, alone = [], theirs.alone(passed_by, new[RIGHT].clear(), MAX)
        parts = (ours, store[LEFT], left, met_left), (theirs, last, right.clear(), met_right)
        for side, table, fresh, places in parts:
            # A right row has no time at which it goes, but the end of the left side.
            passed = MIN if side is theirs else was[side.kept.by], reached[side.kept.by]
            table, gone = self._passed(side, table, fresh, places, passed)
            tables.append(table)
            alone += side.alone([*gone, fresh], new[side.edge], passed[1])
        return (tables[LEFT], tables[RIGHT]), [*meetings.pairs, *alone]

    def _last(self, table: PaneTable, new: pl.DataFrame) -> tuple[PaneTable, list[pl.DataFrame]]:
        """The table with the last rows of each key that has new ones, and the rows that are no longer among them."""
        if not new.height:
            return table, []
        table, known = table.take(new[HASH], due=_NEVER, clock=_NEVER)
        rows = pl.concat([*known, new])
        newer = pl.col(c.ROW).rank("ordinal", descending=True).over(self.plan.key)
        last = rows.select(newer <= self.plan.last).to_series()
        return table.put(rows.filter(last)), [rows.filter(~last)]
