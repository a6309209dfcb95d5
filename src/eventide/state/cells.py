"""Cells: partial aggregates per key and slice, for plans in which each window fires once.

A bundle appends its cells as one run, without reading what is there; runs are sorted by slice, so that the cells of
finished slices are cut off their front. Small runs are merged into larger ones (tiered, as in an LSM tree).
Everything here is immutable: an operation gives a new store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

Merge = Callable[[pl.DataFrame], pl.DataFrame]

_FAN = 8  # so many runs of one tier become one run of the next


@dataclass(frozen=True)
class Run:
    """Cells sorted by slice, and where each slice begins."""

    cells: pl.DataFrame
    slices: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]  # one longer than slices

    @staticmethod
    def of(cells: pl.DataFrame, by: str) -> Run:
        """Sort ``cells`` by slice (they usually are few slices) and note the bounds."""
        cells = cells if cells[by].is_sorted() else cells.sort(by, maintain_order=True)
        slices, offsets = np.unique(cells[by].to_numpy(), return_index=True)
        return Run(cells, slices, np.append(offsets, cells.height))

    def between(self, first: int, last: int) -> pl.DataFrame:
        """The cells of slices in ``[first, last]``."""
        lo = self.offsets[np.searchsorted(self.slices, first, "left")]
        hi = self.offsets[np.searchsorted(self.slices, last, "right")]
        return self.cells.slice(int(lo), int(hi - lo))

    def without(self, gone: npt.NDArray[np.int64]) -> Run | None:
        """What is left without the given slices."""
        stay = ~np.isin(self.slices, gone, assume_unique=True)
        if stay.all():
            return self
        if not stay.any():
            return None
        first = int(np.argmax(stay))
        if stay[first:].all():  # the usual case: the oldest slices go, and nothing is copied
            start = int(self.offsets[first])
            return Run(self.cells.slice(start), self.slices[first:], self.offsets[first:] - start)
        lengths = np.diff(self.offsets)
        cells = self.cells.filter(pl.Series(np.repeat(stay, lengths)))
        return Run(cells, self.slices[stay], np.append(0, np.cumsum(lengths[stay])))


@dataclass(frozen=True)
class Cells:
    """The runs, oldest first."""

    by: str
    runs: tuple[Run, ...] = ()

    @property
    def height(self) -> int:
        """Cells held, partial ones counted apart."""
        return sum(run.cells.height for run in self.runs)

    def append(self, cells: pl.DataFrame, merge: Merge) -> Cells:
        """With a bundle's cells; ``merge`` combines partial cells when runs are put together."""
        if cells.is_empty():
            return self
        runs = [*self.runs, Run.of(cells, self.by)]
        while (many := _mergeable(runs)) > 0:
            merged = merge(pl.concat([run.cells for run in runs[-many:]]))
            runs[-many:] = [Run.of(merged, self.by)]
        return Cells(self.by, tuple(runs))

    def slices(self, below: int) -> npt.NDArray[np.int64]:
        """The distinct slices that begin before ``below``."""
        parts = [run.slices[: np.searchsorted(run.slices, below, "left")] for run in self.runs]
        return np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)

    def read(self, slices: npt.NDArray[np.int64]) -> list[pl.DataFrame]:
        """The cells of the given (sorted) slices and perhaps of some between them, one frame a run, oldest first."""
        parts = (run.between(int(slices[0]), int(slices[-1])) for run in self.runs)
        return [part for part in parts if part.height]

    def drop(self, gone: npt.NDArray[np.int64]) -> Cells:
        """Without the given slices."""
        left = (run.without(gone) for run in self.runs)
        return Cells(self.by, tuple(run for run in left if run is not None))


def _mergeable(runs: Sequence[Run]) -> int:
    """How many of the newest runs are to become one: all of a tier, once there are enough of them."""
    tier = _tier(runs[-1])
    many = 0
    while many < len(runs) and _tier(runs[-1 - many]) <= tier:
        many += 1
    return many if many >= _FAN else 0


def _tier(run: Run) -> int:
    return int(run.cells.height).bit_length() // 3
