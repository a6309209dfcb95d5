"""Panes in pages: a log. A write appends the new panes as pages, and the ids of removed panes as small pages.

Pages hold panes in the order of their ids, independently of the runs in memory. So a write puts only what the bundle
touched. Small pages, and pages of which most panes are removed, are rewritten with their neighbours, a few at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from eventide.errors import DataError
from eventide.state.pages import (
    MERGE_FAN_IN,
    PAGE_BYTES,
    Page,
    PageReader,
    PageWriter,
    TableSizes,
    even_bounds,
    pages_from_frame,
    pages_to_frame,
)
from eventide.state.pane_table import HASH, PaneRun, PaneTable, with_hashes

Ids = npt.NDArray[np.int64]
Offsets = npt.NDArray[np.uint32] | npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

SMALL_PAGE_BYTES = PAGE_BYTES // 4
"""A page with fewer bytes may be merged with its neighbours. Freeing less than this is not worth a rewrite."""

_MAX_REWRITTEN = 32  # sparse pages that one write rewrites
_MAX_REMOVAL_PAGES = 64  # pages of removed ids before they are merged
_REMOVAL_ROWS = PAGE_BYTES // 8  # removed ids in a page
_NO_IDS: Ids = np.empty(0, np.int64)


@dataclass(frozen=True)
class LogPage:
    """A page of panes: the ids that it holds, and which of them are still in the table."""

    page: Page
    offsets: Offsets | None  # ids relative to the first; None: consecutive
    live: Mask | None  # None: all
    live_rows: int

    @property
    def ids(self) -> Ids:
        """The ids of its rows, ascending."""
        return _ids_of(self.page, self.offsets)

    @property
    def last_id(self) -> int:
        """The id of its last row."""
        return self.page.start + (self.page.rows - 1 if self.offsets is None else int(self.offsets[-1]))

    @property
    def live_bytes(self) -> int:
        """About how many bytes of its rows are live."""
        return self.page.raw * self.live_rows // self.page.rows

    @property
    def is_small(self) -> bool:
        """Whether it may be merged with its neighbours."""
        return self.live_bytes < SMALL_PAGE_BYTES

    @property
    def is_sparse(self) -> bool:
        """Whether most of its rows are removed."""
        return 2 * self.live_rows < self.page.rows

    def mask(self) -> Mask:
        """Return which of its rows are live."""
        return np.ones(self.page.rows, np.bool_) if self.live is None else self.live

    def live_ids(self) -> Ids:
        """Return the ids of its live rows."""
        return self.ids[self.mask()]

    def without(self, removed: Ids) -> LogPage:
        """Remove ids between its first and its last. Ids that it does not hold are ignored."""
        rows = removed - self.page.start
        if self.offsets is not None:
            positions = np.searchsorted(self.offsets, rows)
            rows = positions[self.offsets[positions] == rows]
        live = self.mask().copy()
        live[rows] = False
        return replace(self, live=live, live_rows=int(np.count_nonzero(live)))


@dataclass(frozen=True)
class StoredPanes:
    """The pages of a table, and its runs at the time of the write."""

    pages: tuple[LogPage, ...] = ()  # in the order of ids, which do not overlap
    removals: tuple[Page, ...] = ()  # the ids that were removed after their page was written
    next_id: int = 0  # all smaller ids are in pages or removed
    lineage: object = None
    runs: tuple[PaneRun, ...] = ()

    def all(self) -> tuple[Page, ...]:
        """Return all pages."""
        return (*(entry.page for entry in self.pages), *self.removals)


@dataclass(frozen=True)
class NewPanes:
    """Panes to be written, in the order of ids."""

    panes: pl.DataFrame
    ids: Ids

    def put(self, writer: PageWriter) -> list[LogPage]:
        """Write them as pages."""
        bounds = even_bounds(self.panes.height, int(self.panes.estimated_size()))
        pages = writer.put_rows(bounds, self._content)
        ends = np.append(0, np.cumsum([page.rows for page in pages]))
        return [
            LogPage(page, _offsets_of(self.ids[lo:hi]), None, page.rows)
            for page, lo, hi in zip(pages, ends[:-1], ends[1:], strict=True)
        ]

    def _content(self, lo: int, hi: int) -> tuple[int, dict[str, Any]]:
        ids = self.ids[lo:hi]
        content: dict[str, Any] = {"rows": self.panes.slice(lo, hi - lo).rechunk()}
        return int(ids[0]), content | _ids_content(ids)


@dataclass(frozen=True)
class PaneCodec:
    """Encodes a pane table. ``by`` names the columns whose hash finds a pane."""

    by: tuple[str, ...]

    def save(self, table: PaneTable) -> list[pl.DataFrame]:
        """Return the open panes of each run."""
        return [run.live_panes().drop(HASH) for run in table.runs]

    def load(self, saved: Sequence[pl.DataFrame]) -> PaneTable:
        """Return the table of ``save``."""
        ends = np.cumsum([0, *(frame.height for frame in saved)])
        runs = [
            PaneRun.of(with_hashes(frame, self.by), np.arange(end - frame.height, end))
            for frame, end in zip(saved, ends[1:], strict=True)
        ]
        return PaneTable(tuple(runs), int(ends[-1]), object())

    def write(
        self, table: PaneTable, stored: StoredPanes | None, writer: PageWriter, reader: PageReader
    ) -> tuple[dict[str, Any], StoredPanes]:
        """Append new panes and removed ids."""
        before = stored or StoredPanes()
        if before.next_id and before.lineage is not table.lineage:
            raise _wrong_manifest()
        removed = _removed_ids(table, before)
        new = _new_panes(table, before)
        pages = [entry for entry in _without(before.pages, removed) if entry.live_rows]
        if sum(entry.live_rows for entry in pages) + (len(new.ids) if new else 0) != table.height:
            raise _wrong_manifest()
        pages = _compact(pages, new, writer, reader)
        removals = _put_removals(pages, before.removals, removed, writer)
        after = StoredPanes(tuple(pages), tuple(removals), table.next_id, table.lineage, table.runs)
        numbers = {page.number for page in after.all()}
        writer.drop(page for page in before.all() if page.number not in numbers)
        is_removal = pl.Series([False] * len(pages) + [True] * len(removals), dtype=pl.Boolean)
        return {"pages": pages_to_frame(after.all(), gone=is_removal), "born": table.next_id}, after

    def read(self, head: dict[str, Any], reader: PageReader) -> tuple[PaneTable, StoredPanes]:
        """Return the table that was written, as one run."""
        listed, next_id = head["pages"], head["born"]
        removals = pages_from_frame(listed.filter("gone"))
        removed = np.concatenate([_NO_IDS, *(_read_ids(page, reader) for page in removals)])
        pages, frames = [], []
        for page in pages_from_frame(listed.filter(~pl.col("gone"))):
            content = reader.fetch(page)
            pages.append(LogPage(page, _read_offsets(content), None, page.rows))
            frames.append(content["rows"])
        pages = _without(pages, np.sort(removed))
        lineage = object()
        if not pages:
            return PaneTable((), next_id, lineage), StoredPanes((), tuple(removals), next_id, lineage)
        live = np.concatenate([entry.mask() for entry in pages])
        ids = np.concatenate([entry.ids for entry in pages])[live]
        run = PaneRun.of(with_hashes(pl.concat(frames).filter(pl.Series(live)), self.by), ids)
        stored = StoredPanes(tuple(pages), tuple(removals), next_id, lineage, (run,))
        return PaneTable((run,), next_id, lineage), stored

    def refresh(
        self, table: PaneTable, stored: StoredPanes, head: dict[str, Any], reader: PageReader
    ) -> tuple[PaneTable, StoredPanes]:
        """Return the table that was written, from an older version: only new pages are fetched."""
        if not stored.next_id or stored.lineage is not table.lineage:
            return self.read(head, reader)
        listed, next_id = head["pages"], head["born"]
        removals = pages_from_frame(listed.filter("gone"))
        new_removals = [_read_ids(page, reader) for page in removals if page not in stored.removals]
        removed = np.sort(np.concatenate([_NO_IDS, *new_removals]))
        before = {entry.page: entry for entry in stored.pages}
        frames: dict[Page, pl.DataFrame] = {}
        pages = []
        for page in pages_from_frame(listed.filter(~pl.col("gone"))):
            entry = before.pop(page, None)
            if entry is None:
                content = reader.fetch(page)
                entry, frames[page] = LogPage(page, _read_offsets(content), None, page.rows), content["rows"]
            pages.append(entry)
        pages = _without(pages, removed)
        fetched = [entry for entry in pages if entry.page in frames]
        fetched_ids = np.concatenate([_NO_IDS, *(entry.live_ids() for entry in fetched)])
        dropped = np.concatenate([_NO_IDS, *(entry.live_ids() for entry in before.values())])
        removed = np.concatenate([removed, dropped[~np.isin(dropped, fetched_ids)]])
        rows = [
            frames[entry.page].filter(pl.Series(is_new))
            for entry in fetched
            if (is_new := entry.mask() & (entry.ids >= stored.next_id)).any()
        ]
        added = with_hashes(pl.concat(rows), self.by) if rows else None
        table = table.refreshed(removed, added, np.sort(fetched_ids[fetched_ids >= stored.next_id]), next_id)
        return table, StoredPanes(tuple(pages), tuple(removals), next_id, table.lineage, table.runs)

    def evict(self, table: PaneTable, stored: StoredPanes, reader: PageReader, keep: int) -> PaneTable:
        """Return the table: panes can be touched at any time, so they stay in memory."""
        return table

    def sizes(self, table: PaneTable, stored: StoredPanes | None) -> TableSizes:
        """Return the size of the table."""
        pages = stored.all() if stored else ()
        size, raw = sum(page.size for page in pages), sum(page.raw for page in pages)
        return TableSizes(table.height, len(table.runs), len(pages), size, raw)


def _removed_ids(table: PaneTable, before: StoredPanes) -> Ids:
    """Return the ids of panes that are in pages and no longer in the table, ascending."""
    runs = {id(run.ids): run for run in table.runs}
    removed: list[Ids] = []
    gone_runs: list[Ids] = []
    for old in before.runs:
        run = runs.pop(id(old.ids), None)
        if run is None:
            gone_runs.append(old.live_ids())
        elif run.live_rows != old.live_rows:
            removed.append(run.ids[np.flatnonzero(run.live != old.live)])
    if gone_runs:  # merged into other runs, or empty
        merged = np.concatenate([_NO_IDS, *(run.live_ids() for run in runs.values())])
        candidates = np.concatenate(gone_runs)
        removed.append(candidates[~np.isin(candidates, merged)])
    return np.sort(np.concatenate(removed)) if removed else _NO_IDS


def _new_panes(table: PaneTable, before: StoredPanes) -> NewPanes | None:
    """Return the panes that are in no page yet."""
    old = {id(run.ids) for run in before.runs}
    frames: list[pl.DataFrame] = []
    parts: list[Ids] = []
    for run in table.runs:
        if id(run.ids) in old:
            continue
        rows = np.flatnonzero(run.live & (run.ids >= before.next_id))
        if len(rows):
            frames.append(run.panes[rows] if len(rows) < run.panes.height else run.panes)
            parts.append(run.ids[rows])
    if not frames:
        return None
    ids = np.concatenate(parts)
    order = np.argsort(ids)
    return NewPanes(pl.concat(frames).drop(HASH)[order], ids[order])


def _compact(pages: list[LogPage], new: NewPanes | None, writer: PageWriter, reader: PageReader) -> list[LogPage]:
    """Append the new panes. Merge small pages with them, and rewrite sparse neighbours."""
    tail = len(pages) - _mergeable_tail(pages, new)
    after: list[LogPage] = []
    done = 0
    for first, until in _sparse_ranges(pages[:tail]):
        after += pages[done:first]
        after += _merged(pages[first:until], reader).put(writer)
        done = until
    after += pages[done:tail]
    if new is not None:
        after += _merged(pages[tail:], reader, new).put(writer)
    return after


def _mergeable_tail(pages: Sequence[LogPage], new: NewPanes | None) -> int:
    """Return how many of the newest pages are merged with the new panes: a whole tier, once it has enough pages."""
    count, rows = 0, 0 if new is None else len(new.ids)
    while rows:
        more = count
        while more < len(pages) and pages[-1 - more].is_small and _tier(pages[-1 - more].live_rows) <= _tier(rows):
            more += 1
        if more - count + 1 < MERGE_FAN_IN:
            break
        rows += sum(entry.live_rows for entry in pages[len(pages) - more : len(pages) - count])
        count = more
    return count


def _tier(rows: int) -> int:
    return rows.bit_length() // 3


def _sparse_ranges(pages: Sequence[LogPage]) -> list[tuple[int, int]]:
    """Return ranges of sparse neighbours that are many, or that free enough bytes."""
    ranges = []
    first, left = 0, _MAX_REWRITTEN
    while first < len(pages):
        until, freed = first, 0
        while until < len(pages) and pages[until].is_sparse and until - first < left:
            freed += pages[until].page.raw - pages[until].live_bytes
            until += 1
        if until - first >= MERGE_FAN_IN or freed >= SMALL_PAGE_BYTES:
            ranges.append((first, until))
            left -= until - first
        first = max(until, first + 1)
    return ranges


def _merged(pages: Sequence[LogPage], reader: PageReader, new: NewPanes | None = None) -> NewPanes:
    """Return the live panes of some pages, followed by the new panes."""
    parts = [(reader.fetch(entry.page)["rows"].filter(pl.Series(entry.mask())), entry.live_ids()) for entry in pages]
    if new is not None:
        parts.append((new.panes, new.ids))
    return NewPanes(pl.concat([panes for panes, _ in parts]), np.concatenate([ids for _, ids in parts]))


def _put_removals(pages: Sequence[LogPage], before: Sequence[Page], removed: Ids, writer: PageWriter) -> list[Page]:
    """Append the removed ids; or rewrite all removals where they have many pages, or are mostly obsolete."""
    partial = [entry for entry in pages if entry.live_rows < entry.page.rows]
    rows = sum(entry.page.rows - entry.live_rows for entry in partial)
    rewrite = not rows or len(before) >= _MAX_REMOVAL_PAGES or sum(p.rows for p in before) > 2 * rows + _REMOVAL_ROWS
    if rewrite:
        parts = [entry.ids[~entry.mask()] for entry in partial]
    else:
        parts = [removed[lo:hi] for _, lo, hi in _id_ranges(partial, removed)]
    ids = np.concatenate([_NO_IDS, *parts])
    removals = [] if rewrite else list(before)
    for first in range(0, len(ids), _REMOVAL_ROWS):
        part = ids[first : first + _REMOVAL_ROWS]
        removals.append(writer.put(_ids_content(part), start=int(part[0]), rows=len(part)))
    return removals


def _without(pages: Sequence[LogPage], removed: Ids) -> list[LogPage]:
    """Remove ids (ascending) from the pages."""
    return [entry.without(removed[lo:hi]) if lo < hi else entry for entry, lo, hi in _id_ranges(pages, removed)]


def _id_ranges(pages: Sequence[LogPage], ids: Ids) -> Iterable[tuple[LogPage, int, int]]:
    """Return for each page the range of ``ids`` (ascending) between its first and its last id."""
    first = [entry.page.start for entry in pages]
    last = [entry.last_id for entry in pages]
    bounds = np.searchsorted(ids, first).tolist(), np.searchsorted(ids, last, "right").tolist()
    return zip(pages, *bounds, strict=True)


def _ids_of(page: Page, offsets: Offsets | None) -> Ids:
    return page.start + (np.arange(page.rows) if offsets is None else offsets.astype(np.int64))


def _offsets_of(ids: Ids) -> Offsets | None:
    """Return ascending ids relative to the first; None if they are consecutive."""
    span = int(ids[-1] - ids[0])
    if span == len(ids) - 1:
        return None
    wide: npt.NDArray[np.int64] = ids - ids[0]
    return wide.astype(np.uint32) if span < 2**32 else wide


def _ids_content(ids: Ids) -> dict[str, Any]:
    offsets = _offsets_of(ids)
    return {} if offsets is None else {"ids": pl.Series("id", offsets)}


def _read_offsets(content: dict[str, Any]) -> Offsets | None:
    offsets: Offsets | None = content["ids"].to_numpy() if "ids" in content else None
    return offsets


def _read_ids(page: Page, reader: PageReader) -> Ids:
    return _ids_of(page, _read_offsets(reader.fetch(page)))


def _wrong_manifest() -> DataError:
    return DataError(
        "The manifest belongs to another state. Pass the manifest of the state that this bundle began with."
    )
