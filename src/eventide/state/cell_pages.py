"""Cells in pages. Each run is put once, cut into pages; a page is dropped when the last of its slices is gone.

What was written is not read again to append to it: a run that is read back is in its pages until its slices complete
or its tier is merged. That needs the slices of each run in the head; where they are many they have a page themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from eventide.state.cells import Cells, Ints, Piece, Run
from eventide.state.paging import LIMIT, Page, Shelf, Sizes, Writer, from_frame, to_frame

_INLINE = 32  # so many slices of a run are told in the head


@dataclass(frozen=True)
class Stored:
    """A run in pages."""

    pages: tuple[Page, ...]
    index: Page | None  # its slices, where they are many
    indexed: Ints | None  # what that page says
    slices: int  # how many there were

    def all(self) -> tuple[Page, ...]:
        """All of its pages."""
        return self.pages if self.index is None else (*self.pages, self.index)


Known = Mapping[object, Stored]


@dataclass(frozen=True)
class CellForm:
    """How cells are written. ``by`` names the column of slices."""

    by: str

    def save(self, cells: Cells) -> list[pl.DataFrame]:
        """Run by run, because floats add up in the order of runs."""
        return [run.cells for run in cells.runs]

    def load(self, saved: list[pl.DataFrame]) -> Cells:
        """The cells that were saved."""
        return Cells(self.by, tuple(Run.of(cells, self.by) for cells in saved))

    def write(self, cells: Cells, known: Known | None, writer: Writer, shelf: Shelf) -> tuple[dict[str, Any], Known]:
        """Put new runs, drop the pages of slices that are gone."""
        known = known or {}
        now = {run.token: _stored(run, known.get(run.token), writer) for run in cells.runs}
        kept = {page.number for stored in now.values() for page in stored.all()}
        writer.drop(page for stored in known.values() for page in stored.all() if page.number not in kept)
        return _head(cells, list(now.values())), now

    def read(self, head: dict[str, Any], shelf: Shelf) -> tuple[Cells, Known]:
        """The runs, still in their pages."""
        pages, slices = head["pages"], head["slices"].partition_by("run", as_dict=True, include_key=False)
        parts = pages.partition_by("run", "index", as_dict=True)
        known: dict[object, Stored] = {}
        runs = []
        for number, least in enumerate(head["least"]):
            index = from_frame(parts[number, True])[0] if (number, True) in parts else None
            told = slices[(number,)] if index is None else shelf.fetch(index)["slices"]
            indexed = None if index is None else told["slice"].to_numpy()
            told = told.filter(pl.col("slice") >= least)
            stored = Stored(tuple(from_frame(parts[number, False])), index, indexed, told.height)
            run = _run(told, tuple(Piece.in_page(page, shelf) for page in stored.pages))
            runs.append(run)
            known[run.token] = stored
        return Cells(self.by, tuple(runs)), known

    def catch_up(self, cells: Cells, known: Known, head: dict[str, Any], shelf: Shelf) -> tuple[Cells, Known]:
        """The runs, still in their pages: to read them costs little."""
        return self.read(head, shelf)

    def let_go(self, cells: Cells, known: Known, shelf: Shelf, keep: int) -> Cells:
        """The oldest runs go back to their pages, until what is left in memory is small enough."""
        held = sum(piece.held for run in cells.runs for piece in run.pieces)
        runs = []
        for run in cells.runs:
            if held > keep and run.token in known:
                held -= sum(piece.held for piece in run.pieces)
                left = (page for page in known[run.token].pages if run.holds(page.start, page.stop))
                run = run.in_pieces(tuple(Piece.in_page(page, shelf) for page in left))
            runs.append(run)
        return Cells(cells.by, tuple(runs))

    def sizes(self, cells: Cells, known: Known | None) -> Sizes:
        """How large it is."""
        pages = [page for stored in (known or {}).values() for page in stored.all()]
        size, raw = sum(page.size for page in pages), sum(page.raw for page in pages)
        return Sizes(cells.height, len(cells.runs), len(pages), size, raw)


def _stored(run: Run, before: Stored | None, writer: Writer) -> Stored:
    """A run in pages: put now, or what is left of those that were."""
    if before is None:
        pages = _put(run, writer)
    elif before.slices == len(run.slices):
        return before
    else:
        pages = tuple(page for page in before.pages if run.holds(page.start, page.stop))
    if len(run.slices) <= _INLINE:
        return Stored(pages, None, None, len(run.slices))
    if before is None or before.indexed is None or not _tells(before.indexed, run.slices):
        index = writer.put({"slices": _slices([(0, run)])}, rows=len(run.slices))
        return Stored(pages, index, run.slices, len(run.slices))
    return Stored(pages, before.index, before.indexed, len(run.slices))


def _tells(indexed: Ints, slices: Ints) -> bool:
    """Whether an index is still right from the least slice on."""
    return len(indexed) - int(np.searchsorted(indexed, slices[0])) == len(slices)


def _put(run: Run, writer: Writer) -> tuple[Page, ...]:
    cells = run.cells  # as one frame, in order, without the rows that are gone
    size = cells.estimated_size() / max(1, cells.height)
    pages: list[Page] = []
    done = 0
    for start, stop in run.spans(0, len(run.slices)):
        shift = start - done
        pages += writer.put_rows(
            _bounds(start, stop, run.stops, max(1, int(LIMIT / max(size, 1)))),
            lambda lo, hi, shift=shift: (lo, {"rows": _compact(cells.slice(lo - shift, hi - lo))}),  # type: ignore[misc]
        )
        done += stop - start
    return tuple(pages)


def _bounds(start: int, stop: int, ends: Ints, most: int) -> list[tuple[int, int]]:
    """Cut rows into pages of at most ``most``: at the end of a slice, if that fills half of a page."""
    found = []
    while stop - start > most:
        whole = ends[: np.searchsorted(ends, start + most, "right")]
        end = int(whole[-1]) if len(whole) and 2 * (whole[-1] - start) >= most else start + most
        found.append((start, end))
        start = end
    return [*found, (start, stop)]


def _compact(frame: pl.DataFrame) -> pl.DataFrame:
    return frame if frame.n_chunks() == 1 else frame.rechunk()


def _slices(runs: Sequence[tuple[int, Run]]) -> pl.DataFrame:
    """The slices of some runs, each with the number of its run."""
    if not runs:
        return pl.DataFrame(schema={"run": pl.Int64, "slice": pl.Int64, "start": pl.Int64, "rows": pl.Int64})
    slices, starts, stops = (
        np.concatenate([getattr(run, name) for _, run in runs]) for name in ("slices", "starts", "stops")
    )
    numbers = np.repeat([number for number, _ in runs], [len(run.slices) for _, run in runs])
    return pl.DataFrame({"run": numbers, "slice": slices, "start": starts, "rows": stops - starts})


def _run(slices: pl.DataFrame, pieces: tuple[Piece, ...]) -> Run:
    starts, rows = slices["start"].to_numpy(), slices["rows"].to_numpy()
    return Run(pieces, slices["slice"].to_numpy(), starts, starts + rows, int(rows.sum()))


def _head(cells: Cells, stored: list[Stored]) -> dict[str, Any]:
    """What the head says of cells: their pages, the slices of each run, and from where on these still are."""
    pages = [(number, page is of.index, page) for number, of in enumerate(stored) for page in of.all()]
    return {
        "pages": to_frame(
            [page for _, _, page in pages],
            run=pl.Series([number for number, _, _ in pages], dtype=pl.Int64),
            index=pl.Series([index for _, index, _ in pages], dtype=pl.Boolean),
        ),
        "slices": _slices([(number, run) for number, run in enumerate(cells.runs) if stored[number].index is None]),
        "least": [int(run.slices[0]) for run in cells.runs],
        "by": cells.by,
    }
