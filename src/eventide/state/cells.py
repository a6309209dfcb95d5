"""Cells: partial aggregates per key and slice, for plans in which each window fires once.

A bundle appends its cells as one run, without reading what is there; runs are sorted by slice, so that the cells of
finished slices are found at once. Small runs are merged into larger ones (tiered, as in an LSM tree).
Everything here is immutable: an operation gives a new store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from eventide.state.compact import compact
from eventide.state.paging import FAN, Page, Shelf

Merge = Callable[[pl.DataFrame], pl.DataFrame]
Ints = npt.NDArray[np.int64]


class Piece:
    """The rows of a run from ``start`` on: in memory, or in a page until they are asked for."""

    def __init__(self, start: int, rows: int, frame: pl.DataFrame | None, page: Page | None, shelf: Shelf | None):
        self.start = start
        self.stop = start + rows
        self._frame, self._page, self._shelf = frame, page, shelf

    @staticmethod
    def of(frame: pl.DataFrame) -> Piece:
        """Rows in memory."""
        return Piece(0, frame.height, frame, None, None)

    @staticmethod
    def in_page(page: Page, shelf: Shelf) -> Piece:
        """Rows that are fetched when they are asked for."""
        return Piece(page.start, page.rows, None, page, shelf)

    @property
    def held(self) -> int:
        """Bytes in memory."""
        return 0 if self._frame is None else int(self._frame.estimated_size())

    def between(self, start: int, stop: int) -> pl.DataFrame:
        """The rows in ``[start, stop)`` that are here."""
        if self._frame is None:
            assert self._page is not None and self._shelf is not None
            self._frame = self._shelf.fetch(self._page)["rows"]
        lo = max(start, self.start)
        return self._frame.slice(lo - self.start, min(stop, self.stop) - lo)


@dataclass(frozen=True)
class Run:
    """Cells sorted by slice. A slice is the rows from its start to its stop; what lies between two is gone."""

    pieces: tuple[Piece, ...]
    slices: Ints
    starts: Ints
    stops: Ints
    rows: int
    token: object = field(default_factory=object)  # the same run, even if slices have gone

    @staticmethod
    def of(cells: pl.DataFrame, by: str) -> Run:
        """Sort ``cells`` by slice (they usually are few slices) and note the bounds."""
        cells = compact(cells if cells[by].is_sorted() else cells.sort(by, maintain_order=True))
        slices, starts = np.unique(cells[by].to_numpy(), return_index=True)
        return Run((Piece.of(cells),), slices, starts, np.append(starts[1:], cells.height), cells.height)

    @property
    def cells(self) -> pl.DataFrame:
        """All cells."""
        return pl.concat(self._parts(0, len(self.slices)))

    def between(self, first: int, last: int) -> pl.DataFrame | None:
        """The cells of slices in ``[first, last]``, if there are any."""
        lo, hi = np.searchsorted(self.slices, first, "left"), np.searchsorted(self.slices, last, "right")
        return pl.concat(self._parts(int(lo), int(hi))) if lo < hi else None

    def spans(self, lo: int, hi: int) -> Iterator[tuple[int, int]]:
        """The rows of slices number ``lo`` to ``hi``: from where to where there are some without a gap."""
        starts, stops = self.starts[lo:hi], self.stops[lo:hi]
        gaps = np.flatnonzero(starts[1:] != stops[:-1]) + 1
        yield from zip(starts[np.append(0, gaps)].tolist(), stops[np.append(gaps, 0) - 1].tolist(), strict=True)

    def holds(self, start: int, stop: int) -> bool:
        """Whether there is still a slice that has rows in ``[start, stop)``."""
        after = int(np.searchsorted(self.stops, start, "right"))
        return after < len(self.slices) and bool(self.starts[after] < stop)

    def without(self, gone: Ints) -> Run | None:
        """What is left without the given slices. Nothing is copied."""
        stay = ~np.isin(self.slices, gone, assume_unique=True)
        if stay.all():
            return self
        if not stay.any():
            return None
        starts, stops = self.starts[stay], self.stops[stay]
        left = replace(self, slices=self.slices[stay], starts=starts, stops=stops, rows=int((stops - starts).sum()))
        return replace(left, pieces=tuple(piece for piece in left.pieces if left.holds(piece.start, piece.stop)))

    def in_pieces(self, pieces: tuple[Piece, ...]) -> Run:
        """The same run, with its rows elsewhere."""
        return replace(self, pieces=pieces)

    def _parts(self, lo: int, hi: int) -> list[pl.DataFrame]:
        return [
            piece.between(start, stop)
            for start, stop in self.spans(lo, hi)
            for piece in self.pieces
            if piece.start < stop and start < piece.stop
        ]


@dataclass(frozen=True)
class Cells:
    """The runs, oldest first."""

    by: str
    runs: tuple[Run, ...] = ()

    @property
    def height(self) -> int:
        """Cells held, partial ones counted apart."""
        return sum(run.rows for run in self.runs)

    def append(self, cells: pl.DataFrame, merge: Merge) -> Cells:
        """With a bundle's cells; ``merge`` combines partial cells when runs are put together."""
        if cells.is_empty():
            return self
        runs = [*self.runs, Run.of(cells, self.by)]
        while (many := _mergeable(runs)) > 0:
            merged = merge(pl.concat([run.cells for run in runs[-many:]]))
            runs[-many:] = [Run.of(merged, self.by)]
        return Cells(self.by, tuple(runs))

    def slices(self, below: int) -> Ints:
        """The distinct slices that begin before ``below``."""
        parts = [run.slices[: np.searchsorted(run.slices, below, "left")] for run in self.runs]
        return np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)

    def read(self, slices: Ints) -> list[pl.DataFrame]:
        """The cells of the given (sorted) slices and perhaps of some between them, one frame a run, oldest first."""
        parts = (run.between(int(slices[0]), int(slices[-1])) for run in self.runs)
        return [part for part in parts if part is not None]

    def drop(self, gone: Ints) -> Cells:
        """Without the given slices."""
        left = (run.without(gone) for run in self.runs)
        return Cells(self.by, tuple(run for run in left if run is not None))


def _mergeable(runs: Sequence[Run]) -> int:
    """How many of the newest runs are to become one: all of a tier, once there are enough of them."""
    tier = _tier(runs[-1])
    many = 0
    while many < len(runs) and _tier(runs[-1 - many]) <= tier:
        many += 1
    return many if many >= FAN else 0


def _tier(run: Run) -> int:
    return run.rows.bit_length() // 3
