"""The cell table: cells by key and slice, for plans in which each window fires once, and its pages.

A bundle appends its cells as a run, without reading older ones. Runs are sorted by slice, so complete slices are found
at once. Small runs are merged into larger ones (tiers, as in an LSM tree). Tables are immutable: every operation
returns a new table.

In pages, each run is written once. A page is dropped when its last slice is gone. A run that is read back stays in its
pages until its slices complete or its tier is merged. The header lists the slices of each run; long lists have a page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from eventide.kernels.frames import compact
from eventide.state.pages import (
    MERGE_FAN_IN,
    PAGE_BYTES,
    Page,
    PageReader,
    PageWriter,
    TableSizes,
    pages_from_frame,
    pages_to_frame,
)

Merge = Callable[[pl.DataFrame], pl.DataFrame]
Int64s = npt.NDArray[np.int64]

_INLINE = 32  # slices of a run that the header lists


class RunPart:
    """The rows of a run from ``start`` on: in memory, or in a page until they are needed."""

    def __init__(
        self, start: int, rows: int, frame: pl.DataFrame | None, page: Page | None, reader: PageReader | None
    ) -> None:
        self.start = start
        self.stop = start + rows
        self._frame, self._page, self._reader = frame, page, reader

    @staticmethod
    def in_memory(frame: pl.DataFrame) -> RunPart:
        """Return a part with these rows."""
        return RunPart(0, frame.height, frame, None, None)

    @staticmethod
    def in_page(page: Page, reader: PageReader) -> RunPart:
        """Return a part that fetches its rows when they are needed."""
        return RunPart(page.start, page.rows, None, page, reader)

    @property
    def memory(self) -> int:
        """Bytes in memory."""
        return 0 if self._frame is None else int(self._frame.estimated_size())

    def between(self, start: int, stop: int) -> pl.DataFrame:
        """Return its rows in ``[start, stop)``."""
        if self._frame is None:
            assert self._page is not None and self._reader is not None
            self._frame = self._reader.fetch(self._page)["rows"]
        lo = max(start, self.start)
        return self._frame.slice(lo - self.start, min(stop, self.stop) - lo)


@dataclass(frozen=True)
class CellRun:
    """Cells sorted by slice. A slice is the rows from its start to its stop; rows between two slices are gone."""

    parts: tuple[RunPart, ...]
    slices: Int64s
    starts: Int64s
    stops: Int64s
    rows: int
    token: object = field(default_factory=object)  # identifies the run, also after slices are dropped

    @staticmethod
    def of(cells: pl.DataFrame, by: str) -> CellRun:
        """Sort ``cells`` by slice and index them."""
        cells = compact(cells if cells[by].is_sorted() else cells.sort(by, maintain_order=True))
        slices, starts = np.unique(cells[by].to_numpy(), return_index=True)
        part = RunPart.in_memory(cells)
        return CellRun((part,), slices, starts, np.append(starts[1:], cells.height), cells.height)

    @property
    def cells(self) -> pl.DataFrame:
        """All cells."""
        return pl.concat(self._frames(0, len(self.slices)))

    def between(self, first: int, last: int) -> pl.DataFrame | None:
        """Return the cells of slices in ``[first, last]``; None if there are none."""
        lo, hi = np.searchsorted(self.slices, first, "left"), np.searchsorted(self.slices, last, "right")
        return pl.concat(self._frames(int(lo), int(hi))) if lo < hi else None

    def spans(self, lo: int, hi: int) -> Iterator[tuple[int, int]]:
        """Return the ranges of rows without a gap that slices number ``lo`` to ``hi`` consist of."""
        starts, stops = self.starts[lo:hi], self.stops[lo:hi]
        gaps = np.flatnonzero(starts[1:] != stops[:-1]) + 1
        yield from zip(starts[np.append(0, gaps)].tolist(), stops[np.append(gaps, 0) - 1].tolist(), strict=True)

    def has_rows(self, start: int, stop: int) -> bool:
        """Whether a slice has rows in ``[start, stop)``."""
        after = int(np.searchsorted(self.stops, start, "right"))
        return after < len(self.slices) and bool(self.starts[after] < stop)

    def without(self, dropped: Int64s) -> CellRun | None:
        """Drop slices, without copying. Returns None if none is left."""
        stays = ~np.isin(self.slices, dropped, assume_unique=True)
        if stays.all():
            return self
        if not stays.any():
            return None
        starts, stops = self.starts[stays], self.stops[stays]
        left = replace(self, slices=self.slices[stays], starts=starts, stops=stops, rows=int((stops - starts).sum()))
        return replace(left, parts=tuple(part for part in left.parts if left.has_rows(part.start, part.stop)))

    def _frames(self, lo: int, hi: int) -> list[pl.DataFrame]:
        return [
            part.between(start, stop)
            for start, stop in self.spans(lo, hi)
            for part in self.parts
            if part.start < stop and start < part.stop
        ]


@dataclass(frozen=True)
class CellTable:
    """The runs, oldest first."""

    by: str
    runs: tuple[CellRun, ...] = ()

    @property
    def height(self) -> int:
        """The number of cells; partial cells of one key and slice are counted separately."""
        return sum(run.rows for run in self.runs)

    def append(self, cells: pl.DataFrame, merge: Merge) -> CellTable:
        """Add the cells of a bundle. ``merge`` combines partial cells when runs are merged."""
        if cells.is_empty():
            return self
        runs = [*self.runs, CellRun.of(cells, self.by)]
        while (count := _mergeable(runs)) > 0:
            merged = merge(pl.concat([run.cells for run in runs[-count:]]))
            runs[-count:] = [CellRun.of(merged, self.by)]
        return CellTable(self.by, tuple(runs))

    def slices(self, below: int) -> Int64s:
        """Return the distinct slices that begin before ``below``."""
        parts = [run.slices[: np.searchsorted(run.slices, below, "left")] for run in self.runs]
        return np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)

    def read(self, slices: Int64s) -> list[pl.DataFrame]:
        """Return the cells of these sorted slices, and possibly of slices between them: a frame per run."""
        frames = (run.between(int(slices[0]), int(slices[-1])) for run in self.runs)
        return [frame for frame in frames if frame is not None]

    def drop(self, slices: Int64s) -> CellTable:
        """Drop slices."""
        left = (run.without(slices) for run in self.runs)
        return CellTable(self.by, tuple(run for run in left if run is not None))


def _mergeable(runs: Sequence[CellRun]) -> int:
    """Return how many of the newest runs are merged: a whole tier, once it has enough runs."""
    tier = _tier(runs[-1])
    count = 0
    while count < len(runs) and _tier(runs[-1 - count]) <= tier:
        count += 1
    return count if count >= MERGE_FAN_IN else 0


def _tier(run: CellRun) -> int:
    return run.rows.bit_length() // 3


@dataclass(frozen=True)
class StoredRun:
    """The pages of a run."""

    pages: tuple[Page, ...]
    index: Page | None  # its slices, where they are many
    indexed: Int64s | None  # the slices in that page
    slices: int  # number of slices at the last write

    def all(self) -> tuple[Page, ...]:
        """Return all pages."""
        return self.pages if self.index is None else (*self.pages, self.index)


StoredRuns = Mapping[object, StoredRun]
"""The stored runs by their token."""


@dataclass(frozen=True)
class CellCodec:
    """Encodes a cell table. ``by`` names the column of slices."""

    by: str

    def save(self, cells: CellTable) -> list[pl.DataFrame]:
        """Return the cells of each run, because the sum of floats depends on the order of runs."""
        return [run.cells for run in cells.runs]

    def load(self, saved: list[pl.DataFrame]) -> CellTable:
        """Return the table of ``save``."""
        return CellTable(self.by, tuple(CellRun.of(cells, self.by) for cells in saved))

    def write(
        self, cells: CellTable, stored: StoredRuns | None, writer: PageWriter, reader: PageReader
    ) -> tuple[dict[str, Any], StoredRuns]:
        """Write new runs, and drop the pages of dropped slices."""
        before = stored or {}
        after = {run.token: _write_run(run, before.get(run.token), writer) for run in cells.runs}
        numbers = {page.number for run in after.values() for page in run.all()}
        writer.drop(page for run in before.values() for page in run.all() if page.number not in numbers)
        return _header_entry(cells, list(after.values())), after

    def read(self, head: dict[str, Any], reader: PageReader) -> tuple[CellTable, StoredRuns]:
        """Return the runs; their cells stay in pages."""
        inline = head["slices"].partition_by("run", as_dict=True, include_key=False)
        pages = head["pages"].partition_by("run", "index", as_dict=True)
        stored: dict[object, StoredRun] = {}
        runs = []
        for number, least in enumerate(head["least"]):
            index = pages_from_frame(pages[number, True])[0] if (number, True) in pages else None
            slices = inline[(number,)] if index is None else reader.fetch(index)["slices"]
            indexed = None if index is None else slices["slice"].to_numpy()
            slices = slices.filter(pl.col("slice") >= least)
            run_pages = tuple(pages_from_frame(pages[number, False]))
            starts, rows = slices["start"].to_numpy(), slices["rows"].to_numpy()
            parts = tuple(RunPart.in_page(page, reader) for page in run_pages)
            run = CellRun(parts, slices["slice"].to_numpy(), starts, starts + rows, int(rows.sum()))
            runs.append(run)
            stored[run.token] = StoredRun(run_pages, index, indexed, slices.height)
        return CellTable(self.by, tuple(runs)), stored

    def refresh(
        self, cells: CellTable, stored: StoredRuns, head: dict[str, Any], reader: PageReader
    ) -> tuple[CellTable, StoredRuns]:
        """Read the runs again: that is cheap, because their cells stay in pages."""
        return self.read(head, reader)

    def evict(self, cells: CellTable, stored: StoredRuns, reader: PageReader, keep: int) -> CellTable:
        """Return the oldest runs to their pages, until the rest is small enough."""
        memory = sum(part.memory for run in cells.runs for part in run.parts)
        runs = []
        for run in cells.runs:
            if memory > keep and run.token in stored:
                memory -= sum(part.memory for part in run.parts)
                pages = (page for page in stored[run.token].pages if run.has_rows(page.start, page.stop))
                run = replace(run, parts=tuple(RunPart.in_page(page, reader) for page in pages))
            runs.append(run)
        return CellTable(cells.by, tuple(runs))

    def sizes(self, cells: CellTable, stored: StoredRuns | None) -> TableSizes:
        """Return the size of the table."""
        pages = [page for run in (stored or {}).values() for page in run.all()]
        size, raw = sum(page.size for page in pages), sum(page.raw for page in pages)
        return TableSizes(cells.height, len(cells.runs), len(pages), size, raw, evictable=raw)


def _write_run(run: CellRun, before: StoredRun | None, writer: PageWriter) -> StoredRun:
    """Write a new run, or keep the pages that it still needs."""
    if before is None:
        pages = _put(run, writer)
    elif before.slices == len(run.slices):
        return before
    else:
        pages = tuple(page for page in before.pages if run.has_rows(page.start, page.stop))
    if len(run.slices) <= _INLINE:
        return StoredRun(pages, None, None, len(run.slices))
    if before is None or before.indexed is None or not _is_current(before.indexed, run.slices):
        index = writer.put({"slices": _slices([(0, run)])}, rows=len(run.slices))
        return StoredRun(pages, index, run.slices, len(run.slices))
    return StoredRun(pages, before.index, before.indexed, len(run.slices))


def _is_current(indexed: Int64s, slices: Int64s) -> bool:
    """Whether an index is correct from the first slice on."""
    return len(indexed) - int(np.searchsorted(indexed, slices[0])) == len(slices)


def _put(run: CellRun, writer: PageWriter) -> tuple[Page, ...]:
    cells = run.cells  # in order, without dropped rows
    size = cells.estimated_size() / max(1, cells.height)
    rows_per_page = max(1, int(PAGE_BYTES / max(size, 1)))
    pages: list[Page] = []
    done = 0
    for start, stop in run.spans(0, len(run.slices)):
        shift = start - done

        def content(lo: int, hi: int, shift: int = shift) -> tuple[int, dict[str, Any]]:
            return lo, {"rows": cells.slice(lo - shift, hi - lo).rechunk()}

        pages += writer.put_rows(_page_bounds(start, stop, run.stops, rows_per_page), content)
        done += stop - start
    return tuple(pages)


def _page_bounds(start: int, stop: int, ends: Int64s, most: int) -> list[tuple[int, int]]:
    """Cut rows into pages of at most ``most`` rows: at the end of a slice, if that fills half of a page."""
    bounds = []
    while stop - start > most:
        whole = ends[: np.searchsorted(ends, start + most, "right")]
        end = int(whole[-1]) if len(whole) and 2 * (whole[-1] - start) >= most else start + most
        bounds.append((start, end))
        start = end
    return [*bounds, (start, stop)]


def _slices(runs: Sequence[tuple[int, CellRun]]) -> pl.DataFrame:
    """Return the slices of numbered runs."""
    if not runs:
        return pl.DataFrame(schema={"run": pl.Int64, "slice": pl.Int64, "start": pl.Int64, "rows": pl.Int64})
    slices, starts, stops = (
        np.concatenate([getattr(run, name) for _, run in runs]) for name in ("slices", "starts", "stops")
    )
    numbers = np.repeat([number for number, _ in runs], [len(run.slices) for _, run in runs])
    return pl.DataFrame({"run": numbers, "slice": slices, "start": starts, "rows": stops - starts})


def _header_entry(cells: CellTable, stored: list[StoredRun]) -> dict[str, Any]:
    """Return the pages and the slices of each run, and its first slice that is not dropped."""
    pages = [(number, page is run.index, page) for number, run in enumerate(stored) for page in run.all()]
    return {
        "pages": pages_to_frame(
            [page for _, _, page in pages],
            run=pl.Series([number for number, _, _ in pages], dtype=pl.Int64),
            index=pl.Series([is_index for _, is_index, _ in pages], dtype=pl.Boolean),
        ),
        "slices": _slices([(number, run) for number, run in enumerate(cells.runs) if stored[number].index is None]),
        "least": [int(run.slices[0]) for run in cells.runs],
        "by": cells.by,
    }
