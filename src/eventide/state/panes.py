"""The pane table: one row per key and open window, found by hash or by the time at which it is due.

A step **takes** the rows that it touches out of the table and **puts** back what is left of them, so each pane stands
in exactly one run. Runs are sorted by hash; each also knows its rows in the order in which they fall due. What a step
costs follows the rows it takes, not the rows that stay. Everything here is immutable: an operation gives a new table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from eventide.state.compact import compact
from eventide.time import earliest

HASH = "__hash"
DUE = "__due"  # event time at which the pane must be looked at again
CLOCK = "__clock"  # processing time at which it must; null: no such time

_INDEX = (HASH, DUE, CLOCK)

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Due:
    """Rows of a run in the order in which they fall due."""

    times: npt.NDArray[np.int64]
    rows: Positions

    @staticmethod
    def of(times: pl.Series) -> Due:
        """An index over one column; nulls are never due."""
        values = times.drop_nulls().to_numpy()
        rows = np.flatnonzero(times.is_not_null().to_numpy()) if times.null_count() else None
        order = np.argsort(values, kind="stable")
        return Due(values[order], order if rows is None else rows[order])

    def within(self, after: int, until: int) -> Positions:
        """The rows due in ``(after, until]``."""
        lo, hi = np.searchsorted(self.times, [after, until], "right")
        return self.rows[lo:hi]

    def first(self, after: int, alive: npt.NDArray[np.bool_]) -> int | None:
        """The earliest time behind ``after`` of a row that is ``alive``.

        Most rows that were taken are behind ``after``. The others are passed over in pieces that grow, so the usual
        cost does not follow the number of rows.
        """
        at, size = int(np.searchsorted(self.times, after, "right")), 64
        while at < len(self.rows):
            living = np.flatnonzero(alive[self.rows[at : at + size]])
            if len(living):
                return int(self.times[at + living[0]])
            at, size = at + size, 4 * size
        return None


@dataclass(frozen=True)
class Run:
    """Panes sorted by hash. ``alive`` tells which of them have not been taken.

    Each pane that is put has an ``id``, in the order of putting. The array of ids is also what a run is known by.
    """

    panes: pl.DataFrame
    ids: npt.NDArray[np.int64]
    hashes: npt.NDArray[np.uint64]
    due: Due
    clock: Due
    alive: npt.NDArray[np.bool_]
    living: int

    @staticmethod
    def of(panes: pl.DataFrame, ids: npt.NDArray[np.int64]) -> Run:
        """Index ``panes``."""
        panes = _in_column_order(panes).rechunk()  # what was put together from parts is slow to reorder
        order = panes.select(pl.arg_sort_by(HASH, maintain_order=True)).to_series()
        panes, ids = compact(panes[order]), ids[order.to_numpy()]
        alive = np.ones(panes.height, np.bool_)
        return Run(panes, ids, panes[HASH].to_numpy(), Due.of(panes[DUE]), Due.of(panes[CLOCK]), alive, panes.height)

    def find(self, hashes: npt.NDArray[np.uint64]) -> Positions:
        """Every position that holds one of these (distinct, sorted) hashes."""
        lo = np.searchsorted(self.hashes, hashes, "left")
        return _ranges(lo, np.searchsorted(self.hashes, hashes, "right") - lo)

    def take(self, rows: Positions) -> tuple[Run, pl.DataFrame]:
        """Without the given rows, and those of them that were alive."""
        rows = _distinct(rows[self.alive[rows]])
        if not len(rows):
            return self, self.panes.clear()
        alive = self.alive.copy()
        alive[rows] = False
        return replace(self, alive=alive, living=self.living - len(rows)), self.panes[rows]

    def without(self, ids: npt.NDArray[np.int64]) -> Run:
        """Without the rows of some ids."""
        alive = self.alive & ~np.isin(self.ids, ids)
        return replace(self, alive=alive, living=int(np.count_nonzero(alive)))

    def survivors(self) -> pl.DataFrame:
        """The panes that have not been taken."""
        return self.panes if self.living == self.panes.height else self.panes.filter(pl.Series(self.alive))

    def living_ids(self) -> npt.NDArray[np.int64]:
        """Their ids."""
        return self.ids if self.living == len(self.ids) else self.ids[self.alive]


@dataclass(frozen=True)
class Found:
    """Rows of one run that were found and not taken: which of the hashes asked for led to which row."""

    run: int
    asked: Positions
    rows: Positions


@dataclass(frozen=True)
class PaneTable:
    """The runs, oldest first, and how many panes have ever been put into this table or one that it came from."""

    runs: tuple[Run, ...] = ()
    born: int = 0
    lineage: object = None  # the same in all tables that come from one first put, so that their ids can be compared

    @property
    def height(self) -> int:
        """Open panes."""
        return sum(run.living for run in self.runs)

    def take(
        self,
        hashes: pl.Series,
        *,
        due: tuple[int, int] | Callable[[pl.DataFrame], Positions],
        clock: tuple[int, int],
    ) -> tuple[PaneTable, list[pl.DataFrame]]:
        """Take out the panes with one of ``hashes`` and those that fall due in ``(after, until]``.

        Where panes have no common axis, ``due`` finds them among all of a run.
        """
        wanted = _distinct(hashes.to_numpy())
        runs, taken = [], []
        for run in self.runs:
            fallen = due(run.panes) if callable(due) else run.due.within(*due)
            rows = np.concatenate([run.find(wanted), fallen, run.clock.within(*clock)])
            run, panes = run.take(rows)
            runs.append(run)
            if panes.height:
                taken.append(panes)
        return replace(self, runs=tuple(run for run in runs if run.living)), taken

    def next_due(self, after: int) -> int | None:
        """The first event time behind ``after`` at which a pane is due."""
        return earliest(run.due.first(after, run.alive) for run in self.runs)

    def next_clock(self, after: int) -> int | None:
        """The first processing time behind ``after`` at which a pane is due."""
        return earliest(run.clock.first(after, run.alive) for run in self.runs)

    def probe(self, hashes: npt.NDArray[np.uint64], *, at_once: int = 1 << 21) -> Iterator[Found]:
        """Find the panes that have one of the (sorted) hashes, and leave them: about ``at_once`` of them at a time."""
        for number, run in enumerate(self.runs):
            lo = np.searchsorted(run.hashes, hashes, "left")
            counts = np.searchsorted(run.hashes, hashes, "right") - lo
            hits = np.flatnonzero(counts)
            passed = np.cumsum(counts[hits]) // at_once
            for some in np.split(hits, np.flatnonzero(np.diff(passed)) + 1):
                rows = _ranges(lo[some], counts[some])
                asked = np.repeat(some, counts[some])
                alive = run.alive[rows]
                yield Found(number, asked[alive], rows[alive])

    def take_at(self, places: Mapping[int, Positions]) -> tuple[PaneTable, list[pl.DataFrame]]:
        """Take out the panes in these places: rows by the number of their run, as ``probe`` gives them."""
        runs, taken = list(self.runs), []
        for number, rows in places.items():
            runs[number], panes = runs[number].take(rows)
            taken.append(panes)
        return replace(self, runs=tuple(run for run in runs if run.living)), taken

    def put(self, panes: pl.DataFrame) -> PaneTable:
        """With these panes, none of which is in the table."""
        if panes.is_empty():
            return self
        born = self.born + panes.height
        return self._with(Run.of(panes, np.arange(self.born, born)), born)

    def followed(
        self, died: npt.NDArray[np.int64], panes: pl.DataFrame | None, ids: npt.NDArray[np.int64], born: int
    ) -> PaneTable:
        """As another copy of this table now is: without the ids that ``died`` there, with the panes that came."""
        runs = [run.without(died) for run in self.runs] if len(died) else self.runs
        table = replace(self, runs=tuple(run for run in runs if run.living), born=born)
        return table if panes is None else table._with(Run.of(panes, ids), born)

    def _with(self, run: Run, born: int) -> PaneTable:
        runs = [*self.runs, run]
        while len(runs) > 1 and runs[-2].living <= 2 * runs[-1].living:
            runs[-2:] = [_as_one(runs[-2:])]
        return PaneTable(tuple(_tidy(runs)), born, self.lineage or object())

    def scan(self) -> pl.DataFrame | None:
        """All open panes, for inspection."""
        return pl.concat([run.survivors() for run in self.runs]) if self.runs else None


def hashes(frame: pl.DataFrame, by: Sequence[str]) -> pl.Series:
    """One hash a row, equal for equal ``by``."""
    if not by:
        return pl.zeros(frame.height, pl.UInt64, eager=True)
    return frame.select(by).hash_rows() if frame.height else pl.Series([], dtype=pl.UInt64)


def with_hashes(frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Saved panes, to be found again; hashes are not saved, because another version of Polars computes others."""
    return _in_column_order(frame.with_columns(hashes(frame, by).alias(HASH)))


def _in_column_order(panes: pl.DataFrame) -> pl.DataFrame:
    """What finds a pane stands behind what it holds, in memory and after a restart, so that any two runs can merge."""
    if panes.columns[-len(_INDEX) :] == list(_INDEX):
        return panes
    return panes.select(*(name for name in panes.columns if name not in _INDEX), *_INDEX)


def _distinct(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Sorted, each once; ``np.unique`` goes through a slower hash table."""
    values = np.sort(values)
    return values[np.append(True, values[1:] != values[:-1])] if len(values) else values


def _ranges(firsts: Positions, counts: Positions) -> Positions:
    """``counts`` positions from each of ``firsts`` on."""
    total = int(counts.sum())
    if total == 0:
        return np.empty(0, np.int64)
    return np.repeat(firsts - np.append(0, np.cumsum(counts)[:-1]), counts) + np.arange(total)


def _tidy(runs: Sequence[Run]) -> list[Run]:
    """A run that is mostly taken is rewritten, so that memory follows what is open."""
    return [_as_one([run]) if 2 * run.living < run.panes.height else run for run in runs]


def _as_one(runs: Sequence[Run]) -> Run:
    return Run.of(pl.concat([run.survivors() for run in runs]), np.concatenate([run.living_ids() for run in runs]))


EMPTY = PaneTable()
