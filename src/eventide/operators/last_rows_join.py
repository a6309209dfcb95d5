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
from eventide.state.keys import join_on_key
from eventide.state.panes import DUE, HASH, PaneTable
from eventide.time import MAX
from eventide.watermarks.forget import forget_at

_NEVER = (0, 0)


class LastRowsJoin(IntervalJoin):
    """A join over ``rows(n)``, bound to the columns of its sides."""

    def _met(
        self, store: Store, new: Sequence[pl.DataFrame], was: Sequence[int], reached: Sequence[int]
    ) -> tuple[Store, list[pl.DataFrame], int]:
        meetings = Meetings()
        ours, theirs = self._sides
        left, right = (side.with_key(rows) for side, rows in zip(self._sides, new, strict=True))
        (met_left,) = self._matcher.meet(RIGHT, right, [store[LEFT]], meetings)
        forget = self._forget_at(left, right, reached[LEFT])
        last, passed_by = self._last(store[RIGHT], self._marked(theirs, right, meetings), forget)
        (met_right,) = self._matcher.meet(LEFT, left, [last], meetings)
        left = self._marked(ours, left, meetings)
        tables, alone, forgotten = [], theirs.alone(passed_by, new[RIGHT].clear(), MAX), 0
        parts = (ours, store[LEFT], left, met_left), (theirs, last, right.clear(), met_right)
        for side, table, fresh, places in parts:
            # A right row goes with its key, or at the end of the left side; one that comes later goes at once.
            passed = min(was[side.kept.by], MAX - (side is theirs)), reached[side.kept.by]
            table, gone = self._passed(side, table, fresh, places, passed)
            if side is theirs and gone and passed[1] < MAX:
                forgotten = pl.concat(gone).select(self.plan.key).n_unique()
            tables.append(table)
            alone += side.alone([*gone, fresh], new[side.edge], passed[1])
        return (tables[LEFT], tables[RIGHT]), [*meetings.pairs, *alone], forgotten

    def _forget_at(self, left: pl.DataFrame, right: pl.DataFrame, watermark: int) -> pl.DataFrame | None:
        """The keys that have rows in this bundle, on either side, and when they are forgotten."""
        forget_after = self.plan.forget_after
        if forget_after is None:
            return None
        active = pl.concat([rows.select(*self.plan.key, HASH, c.TIME) for rows in (left, right)])
        latest = active.group_by(*self.plan.key, HASH).agg(pl.col(c.TIME).max())
        return latest.select(*self.plan.key, HASH, forget_at(pl.col(c.TIME), watermark, forget_after).alias(c.FORGET))

    def _last(
        self, table: PaneTable, new: pl.DataFrame, forget: pl.DataFrame | None
    ) -> tuple[PaneTable, list[pl.DataFrame]]:
        """The table with the last rows of each key that has new ones, and the rows that are no longer among them.

        Rows of a key are forgotten together.
        """
        touched = new[HASH] if forget is None else forget[HASH]
        if not len(touched):
            return table, []
        table, known = table.take(touched, due=_NEVER, clock=_NEVER)
        rows = pl.concat([*known, new])
        if forget is not None:
            known_due = pl.when(pl.col(DUE) < MAX).then(DUE)
            due = pl.max_horizontal(known_due, c.FORGET).max().over(self.plan.key).fill_null(MAX)
            rows = join_on_key(rows, forget.drop(HASH), self.plan.key, maintain_order="left")
            rows = rows.with_columns(due.alias(DUE)).drop(c.FORGET)
        newer = pl.col(c.ROW).rank("ordinal", descending=True).over(self.plan.key)
        last = rows.select(newer <= self.plan.last).to_series()
        return table.put(rows.filter(last)), [rows.filter(~last)]
