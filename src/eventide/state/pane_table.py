"""The pane table: a row for each key and open window, found by hash or by the time at which it is due.

A step **takes** the rows that it touches out of the table and **puts** back what remains, so each pane is in exactly
one run. Runs are sorted by hash and indexed by due time. The cost of a step depends on the rows that it takes, not on
the size of the table. Tables are immutable: every operation returns a new table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from eventide.kernels.frames import compact
from eventide.time import earliest

HASH = "__hash"
DUE = "__due"  # event time at which the pane must be evaluated again
CLOCK = "__clock"  # processing time at which it must; null: never

_INDEX = (HASH, DUE, CLOCK)
_PROBE_SIZE = 1 << 21  # panes that ``probe`` returns at once

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True)
class DueIndex:
    """The rows of a run in the order in which they are due."""

    times: npt.NDArray[np.int64]
    rows: Positions

    @staticmethod
    def of(times: pl.Series) -> DueIndex:
        """Index a column. Nulls are never due."""
        values = times.drop_nulls().to_numpy()
        rows = np.flatnonzero(times.is_not_null().to_numpy()) if times.null_count() else None
        order = np.argsort(values, kind="stable")
        return DueIndex(values[order], order if rows is None else rows[order])

    def within(self, after: int, until: int) -> Positions:
        """Return the rows due in ``(after, until]``."""
        lo, hi = np.searchsorted(self.times, [after, until], "right")
        return self.rows[lo:hi]

    def first(self, after: int, live: npt.NDArray[np.bool_]) -> int | None:
        """Return the earliest time behind ``after`` of a live row.

        Most removed rows are at or before ``after``. The others are skipped in chunks of growing size, so the usual
        cost does not depend on the number of rows.
        """
        position, size = int(np.searchsorted(self.times, after, "right")), 64
        while position < len(self.rows):
            hits = np.flatnonzero(live[self.rows[position : position + size]])
            if len(hits):
                return int(self.times[position + hits[0]])
            position, size = position + size, 4 * size
        return None


@dataclass(frozen=True)
class PaneRun:
    """Panes sorted by hash. ``live`` masks those that were not taken.

    Each pane has an id, in the order in which panes are put. The array of ids also identifies the run.
    """

    panes: pl.DataFrame
    ids: npt.NDArray[np.int64]
    hashes: npt.NDArray[np.uint64]
    due: DueIndex
    clock: DueIndex
    live: npt.NDArray[np.bool_]
    live_rows: int

    @staticmethod
    def of(panes: pl.DataFrame, ids: npt.NDArray[np.int64]) -> PaneRun:
        """Sort and index ``panes``."""
        panes = _with_index_last(panes).rechunk()  # reordering many chunks is slow
        order = panes.select(pl.arg_sort_by(HASH, maintain_order=True)).to_series()
        panes, ids = compact(panes[order]), ids[order.to_numpy()]
        due, clock = DueIndex.of(panes[DUE]), DueIndex.of(panes[CLOCK])
        return PaneRun(panes, ids, panes[HASH].to_numpy(), due, clock, np.ones(panes.height, np.bool_), panes.height)

    def find(self, hashes: npt.NDArray[np.uint64]) -> Positions:
        """Return every position that has one of these distinct, sorted hashes."""
        lo = np.searchsorted(self.hashes, hashes, "left")
        return _ranges(lo, np.searchsorted(self.hashes, hashes, "right") - lo)

    def take(self, rows: Positions) -> tuple[PaneRun, pl.DataFrame]:
        """Remove rows. Returns those of them that were live."""
        rows = _distinct(rows[self.live[rows]])
        if not len(rows):
            return self, self.panes.clear()
        live = self.live.copy()
        live[rows] = False
        return replace(self, live=live, live_rows=self.live_rows - len(rows)), self.panes[rows]

    def without(self, ids: npt.NDArray[np.int64]) -> PaneRun:
        """Remove the panes with these ids."""
        live = self.live & ~np.isin(self.ids, ids)
        return replace(self, live=live, live_rows=int(np.count_nonzero(live)))

    def live_panes(self) -> pl.DataFrame:
        """Return the panes that are not taken."""
        return self.panes if self.live_rows == self.panes.height else self.panes.filter(pl.Series(self.live))

    def live_ids(self) -> npt.NDArray[np.int64]:
        """Return the ids of the panes that are not taken."""
        return self.ids if self.live_rows == len(self.ids) else self.ids[self.live]


@dataclass(frozen=True)
class PanePositions:
    """Rows of one run that match a hash: ``rows[i]`` matches the hash at ``probes[i]``."""

    run: int
    probes: Positions
    rows: Positions


@dataclass(frozen=True)
class PaneTable:
    """The runs, oldest first. ``next_id`` is the id of the next pane that is put."""

    runs: tuple[PaneRun, ...] = ()
    next_id: int = 0
    lineage: object = None  # equal in all tables that descend from one first put, so that their ids are comparable

    @property
    def height(self) -> int:
        """The number of open panes."""
        return sum(run.live_rows for run in self.runs)

    def take(
        self,
        hashes: pl.Series,
        *,
        due: tuple[int, int] | Callable[[pl.DataFrame], Positions],
        clock: tuple[int, int],
    ) -> tuple[PaneTable, list[pl.DataFrame]]:
        """Remove the panes with one of ``hashes``, and those that are due in ``(after, until]``.

        Where panes have no common axis, ``due`` is a function that finds them among all panes of a run.
        """
        wanted = _distinct(hashes.to_numpy())
        runs, taken = [], []
        for run in self.runs:
            due_rows = due(run.panes) if callable(due) else run.due.within(*due)
            rows = np.concatenate([run.find(wanted), due_rows, run.clock.within(*clock)])
            run, panes = run.take(rows)
            runs.append(run)
            if panes.height:
                taken.append(panes)
        return replace(self, runs=tuple(run for run in runs if run.live_rows)), taken

    def next_due(self, after: int) -> int | None:
        """Return the first event time behind ``after`` at which a pane is due."""
        return earliest(run.due.first(after, run.live) for run in self.runs)

    def next_clock(self, after: int) -> int | None:
        """Return the first processing time behind ``after`` at which a pane is due."""
        return earliest(run.clock.first(after, run.live) for run in self.runs)

    def probe(self, hashes: npt.NDArray[np.uint64], *, at_once: int = _PROBE_SIZE) -> Iterator[PanePositions]:
        """Find the panes that have one of the sorted hashes, about ``at_once`` at a time. They stay in the table."""
        for number, run in enumerate(self.runs):
            lo = np.searchsorted(run.hashes, hashes, "left")
            counts = np.searchsorted(run.hashes, hashes, "right") - lo
            hits = np.flatnonzero(counts)
            batches = np.cumsum(counts[hits]) // at_once
            for batch in np.split(hits, np.flatnonzero(np.diff(batches)) + 1):
                rows = _ranges(lo[batch], counts[batch])
                probes = np.repeat(batch, counts[batch])
                live = run.live[rows]
                yield PanePositions(number, probes[live], rows[live])

    def take_at(self, positions: Mapping[int, Positions]) -> tuple[PaneTable, list[pl.DataFrame]]:
        """Remove the panes at these positions: rows by the number of their run, as ``probe`` returns them."""
        runs, taken = list(self.runs), []
        for number, rows in positions.items():
            runs[number], panes = runs[number].take(rows)
            taken.append(panes)
        return replace(self, runs=tuple(run for run in runs if run.live_rows)), taken

    def put(self, panes: pl.DataFrame) -> PaneTable:
        """Add panes that are not in the table."""
        if panes.is_empty():
            return self
        next_id = self.next_id + panes.height
        return self._with(PaneRun.of(panes, np.arange(self.next_id, next_id)), next_id)

    def refreshed(
        self, removed: npt.NDArray[np.int64], panes: pl.DataFrame | None, ids: npt.NDArray[np.int64], next_id: int
    ) -> PaneTable:
        """Return a newer version of this table: without the ``removed`` ids, with the panes that were added."""
        runs = [run.without(removed) for run in self.runs] if len(removed) else self.runs
        table = replace(self, runs=tuple(run for run in runs if run.live_rows), next_id=next_id)
        return table if panes is None else table._with(PaneRun.of(panes, ids), next_id)

    def _with(self, run: PaneRun, next_id: int) -> PaneTable:
        runs = [*self.runs, run]
        while len(runs) > 1 and runs[-2].live_rows <= 2 * runs[-1].live_rows:
            runs[-2:] = [_merged(runs[-2:])]
        # A run that is mostly taken is rewritten, so that memory follows the open panes.
        runs = [_merged([run]) if 2 * run.live_rows < run.panes.height else run for run in runs]
        return PaneTable(tuple(runs), next_id, self.lineage or object())

    def scan(self) -> pl.DataFrame | None:
        """Return all open panes, for inspection."""
        return pl.concat([run.live_panes() for run in self.runs]) if self.runs else None


EMPTY_TABLE = PaneTable()


def row_hashes(frame: pl.DataFrame, by: Sequence[str]) -> pl.Series:
    """Return a hash for each row, equal for equal ``by``."""
    if not by:
        return pl.zeros(frame.height, pl.UInt64, eager=True)
    return frame.select(by).hash_rows() if frame.height else pl.Series([], dtype=pl.UInt64)


def with_hashes(frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Add the hashes to saved panes. They are not saved, because they depend on the version of Polars."""
    return _with_index_last(frame.with_columns(row_hashes(frame, by).alias(HASH)))


def _with_index_last(panes: pl.DataFrame) -> pl.DataFrame:
    """Move the index columns to the end, in memory and after a restart, so that any two runs can merge."""
    if panes.columns[-len(_INDEX) :] == list(_INDEX):
        return panes
    return panes.select(*(name for name in panes.columns if name not in _INDEX), *_INDEX)


def _distinct(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the distinct values, sorted. ``np.unique`` uses a slower hash table."""
    values = np.sort(values)
    return values[np.append(True, values[1:] != values[:-1])] if len(values) else values


def _ranges(firsts: Positions, counts: Positions) -> Positions:
    """Return ``counts`` consecutive positions from each of ``firsts`` on."""
    total = int(counts.sum())
    if total == 0:
        return np.empty(0, np.int64)
    return np.repeat(firsts - np.append(0, np.cumsum(counts)[:-1]), counts) + np.arange(total)


def _merged(runs: Sequence[PaneRun]) -> PaneRun:
    panes, ids = pl.concat([run.live_panes() for run in runs]), np.concatenate([run.live_ids() for run in runs])
    return PaneRun.of(panes, ids)
