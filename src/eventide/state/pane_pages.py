"""Panes in pages: a log. What a bundle put is appended as pages, and what it took is told in a small page of its own.

Pages hold panes in the order in which they were put, whatever the runs in memory are merged into. So a bundle writes
what it touched, and no large merge is ever written. Pages that are mostly gone, and small ones, are rewritten with
their neighbours, some at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from eventide.errors import state as errors
from eventide.state.leaves import SMALL, Ids, Leaf, ids_of, offsets_of, told_by, within, without
from eventide.state.paging import FAN, LIMIT, Page, Shelf, Sizes, Writer, even, from_frame, to_frame
from eventide.state.panes import HASH, PaneTable, Run, with_hashes

_AT_ONCE = 32  # so many worn pages are rewritten in one write at most
_MANY_GONE = 64  # so many pages that tell what is gone become one
_GONE_ROWS = LIMIT // 8


@dataclass(frozen=True)
class Known:
    """A table in pages, and its runs as they were when it was written."""

    leaves: tuple[Leaf, ...] = ()  # in the order of ids, which do not overlap
    gone: tuple[Page, ...] = ()  # which ids have been taken since their page was written
    born: int = 0  # all ids below are in pages, or gone
    lineage: object = None
    runs: tuple[Run, ...] = ()

    def all(self) -> tuple[Page, ...]:
        """All of its pages."""
        return (*(leaf.page for leaf in self.leaves), *self.gone)


@dataclass(frozen=True)
class Draft:
    """Panes that are to be put, in the order of ids."""

    panes: pl.DataFrame
    ids: Ids

    def put(self, writer: Writer) -> list[Leaf]:
        """As pages."""
        pages = writer.put_rows(even(self.panes.height, int(self.panes.estimated_size())), self._content)
        at = np.append(0, np.cumsum([page.rows for page in pages]))
        return [
            Leaf(page, offsets_of(self.ids[lo:hi]), None, page.rows)
            for page, lo, hi in zip(pages, at[:-1], at[1:], strict=True)
        ]

    def _content(self, lo: int, hi: int) -> tuple[int, dict[str, Any]]:
        ids = self.ids[lo:hi]
        content: dict[str, Any] = {"rows": self.panes.slice(lo, hi - lo).rechunk()}
        offsets = offsets_of(ids)
        return int(ids[0]), content if offsets is None else content | {"ids": pl.Series("id", offsets)}


@dataclass(frozen=True)
class PaneForm:
    """How panes are written. ``by`` names the columns by whose hash they are found."""

    by: tuple[str, ...]

    def save(self, table: PaneTable) -> list[pl.DataFrame]:
        """The open panes, run by run."""
        return [run.survivors().drop(HASH) for run in table.runs]

    def load(self, saved: Sequence[pl.DataFrame]) -> PaneTable:
        """The table that was saved."""
        ends = np.cumsum([0, *(frame.height for frame in saved)])
        runs = [
            Run.of(with_hashes(frame, self.by), np.arange(end - frame.height, end))
            for frame, end in zip(saved, ends[1:], strict=True)
        ]
        return PaneTable(tuple(runs), int(ends[-1]), object())

    def write(
        self, table: PaneTable, known: Known | None, writer: Writer, shelf: Shelf
    ) -> tuple[dict[str, Any], Known]:
        """Put what was put, tell what was taken."""
        before = known or Known()
        if before.born and before.lineage is not table.lineage:
            raise errors.another_ledger()
        taken = _taken(table, before)
        new = _new(table, before)
        leaves = [leaf for leaf in without(before.leaves, taken) if leaf.living]
        if sum(leaf.living for leaf in leaves) + (len(new.ids) if new else 0) != table.height:
            raise errors.another_ledger()
        leaves = _rewritten(leaves, new, writer, shelf)
        gone = _told(leaves, before.gone, taken, writer)
        now = Known(tuple(leaves), tuple(gone), table.born, table.lineage, table.runs)
        kept = {page.number for page in now.all()}
        writer.drop(page for page in before.all() if page.number not in kept)
        told = pl.Series([False] * len(leaves) + [True] * len(gone), dtype=pl.Boolean)
        return {"pages": to_frame(now.all(), gone=told), "born": table.born}, now

    def read(self, head: dict[str, Any], shelf: Shelf) -> tuple[PaneTable, Known]:
        """The table that was written, as one run."""
        pages, born = head["pages"], head["born"]
        gone = from_frame(pages.filter("gone"))
        taken = np.concatenate([np.empty(0, np.int64), *(ids_of(page, told_by(shelf.fetch(page))) for page in gone)])
        leaves, frames = [], []
        for page in from_frame(pages.filter(~pl.col("gone"))):
            content = shelf.fetch(page)
            leaves.append(Leaf(page, told_by(content), None, page.rows))
            frames.append(content["rows"])
        leaves = without(leaves, np.sort(taken))
        lineage = object()
        if not leaves:
            return PaneTable((), born, lineage), Known((), tuple(gone), born, lineage)
        alive = np.concatenate([leaf.mask() for leaf in leaves])
        ids = np.concatenate([leaf.ids for leaf in leaves])[alive]
        run = Run.of(with_hashes(pl.concat(frames).filter(pl.Series(alive)), self.by), ids)
        return PaneTable((run,), born, lineage), Known(tuple(leaves), tuple(gone), born, lineage, (run,))

    def catch_up(self, table: PaneTable, known: Known, head: dict[str, Any], shelf: Shelf) -> tuple[PaneTable, Known]:
        """The table that was written, from one that was written some bundles before: only pages since are fetched."""
        if not known.born or known.lineage is not table.lineage:
            return self.read(head, shelf)
        pages, born = head["pages"], head["born"]
        gone = from_frame(pages.filter("gone"))
        new = [ids_of(page, told_by(shelf.fetch(page))) for page in gone if page not in known.gone]
        taken = np.sort(np.concatenate([np.empty(0, np.int64), *new]))
        before = {leaf.page: leaf for leaf in known.leaves}
        frames: dict[Page, pl.DataFrame] = {}
        leaves = []
        for page in from_frame(pages.filter(~pl.col("gone"))):
            leaf = before.pop(page, None)
            if leaf is None:
                content = shelf.fetch(page)
                leaf, frames[page] = Leaf(page, told_by(content), None, page.rows), content["rows"]
            leaves.append(leaf)
        leaves = without(leaves, taken)
        fresh = [leaf for leaf in leaves if leaf.page in frames]
        moved = np.concatenate([np.empty(0, np.int64), *(leaf.ids[leaf.mask()] for leaf in fresh)])
        dropped = np.concatenate([np.empty(0, np.int64), *(leaf.ids[leaf.mask()] for leaf in before.values())])
        died = np.concatenate([taken, dropped[~np.isin(dropped, moved)]])
        came = [leaf.mask() & (leaf.ids >= known.born) for leaf in fresh]
        rows = [frames[leaf.page].filter(pl.Series(mask)) for leaf, mask in zip(fresh, came, strict=True) if mask.any()]
        ids = np.sort(moved[moved >= known.born])
        table = table.followed(died, with_hashes(pl.concat(rows), self.by) if rows else None, ids, born)
        return table, Known(tuple(leaves), tuple(gone), born, table.lineage, table.runs)

    def let_go(self, table: PaneTable, known: Known, shelf: Shelf, keep: int) -> PaneTable:
        """Panes can be touched at any time, so they stay."""
        return table

    def sizes(self, table: PaneTable, known: Known | None) -> Sizes:
        """How large it is."""
        pages = known.all() if known else ()
        return Sizes(
            table.height, len(table.runs), len(pages), sum(page.size for page in pages), sum(page.raw for page in pages)
        )


def _taken(table: PaneTable, before: Known) -> Ids:
    """The ids of panes that were in pages and are no longer in the table, ascending."""
    now = {id(run.ids): run for run in table.runs}
    found: list[Ids] = []
    lost: list[Ids] = []
    for old in before.runs:
        run = now.pop(id(old.ids), None)
        if run is None:
            lost.append(old.living_ids())
        elif run.living != old.living:
            found.append(run.ids[np.flatnonzero(run.alive != old.alive)])
    if lost:  # merged into others, or all taken
        moved = np.concatenate([np.empty(0, np.int64), *(run.living_ids() for run in now.values())])
        there = np.concatenate(lost)
        found.append(there[~np.isin(there, moved)])
    return np.sort(np.concatenate(found)) if found else np.empty(0, np.int64)


def _new(table: PaneTable, before: Known) -> Draft | None:
    """The panes that are in no page yet."""
    old = {id(run.ids) for run in before.runs}
    frames: list[pl.DataFrame] = []
    ids: list[Ids] = []
    for run in table.runs:
        if id(run.ids) in old:
            continue
        rows = np.flatnonzero(run.alive & (run.ids >= before.born))
        if len(rows):
            frames.append(run.panes[rows] if len(rows) < run.panes.height else run.panes)
            ids.append(run.ids[rows])
    if not frames:
        return None
    together = np.concatenate(ids)
    order = np.argsort(together)
    return Draft(pl.concat(frames).drop(HASH)[order], together[order])


def _rewritten(leaves: list[Leaf], new: Draft | None, writer: Writer, shelf: Shelf) -> list[Leaf]:
    """The pages with the new panes behind them; small and worn neighbours become one."""
    tail = len(leaves) - _small_ones(leaves, new)
    now: list[Leaf] = []
    done = 0
    for first, until in _worn_ones(leaves[:tail]):
        now += leaves[done:first]
        now += _draft(leaves[first:until], shelf).put(writer)
        done = until
    now += leaves[done:tail]
    if new is not None:
        now += _draft(leaves[tail:], shelf, new).put(writer)
    return now


def _small_ones(leaves: Sequence[Leaf], new: Draft | None) -> int:
    """How many of the newest pages are to become one with the new panes: all of a tier, once there are enough."""
    many, rows = 0, 0 if new is None else len(new.ids)
    while rows:
        more = many
        while more < len(leaves) and leaves[-1 - more].small and _tier(leaves[-1 - more].living) <= _tier(rows):
            more += 1
        if more - many + 1 < FAN:
            break
        rows += sum(leaf.living for leaf in leaves[len(leaves) - more : len(leaves) - many])
        many = more
    return many


def _tier(rows: int) -> int:
    return rows.bit_length() // 3


def _worn_ones(leaves: Sequence[Leaf]) -> list[tuple[int, int]]:
    """Neighbours that are mostly gone, where there are many of them or enough is gone."""
    found = []
    at, left = 0, _AT_ONCE
    while at < len(leaves):
        until, waste = at, 0
        while until < len(leaves) and leaves[until].worn and until - at < left:
            waste += leaves[until].page.raw - leaves[until].size
            until += 1
        if until - at >= FAN or waste >= SMALL:
            found.append((at, until))
            left -= until - at
        at = max(until, at + 1)
    return found


def _draft(leaves: Sequence[Leaf], shelf: Shelf, new: Draft | None = None) -> Draft:
    """What is left in some pages, and the new panes behind it."""
    parts = [(shelf.fetch(leaf.page)["rows"].filter(pl.Series(leaf.mask())), leaf.ids[leaf.mask()]) for leaf in leaves]
    if new is not None:
        parts.append((new.panes, new.ids))
    return Draft(pl.concat([panes for panes, _ in parts]), np.concatenate([ids for _, ids in parts]))


def _told(leaves: Sequence[Leaf], before: Sequence[Page], taken: Ids, writer: Writer) -> list[Page]:
    """The pages that tell what is gone: one more, or all of them anew where there are many, or most say nothing."""
    worn = [leaf for leaf in leaves if leaf.living < leaf.page.rows]
    gone = sum(leaf.page.rows - leaf.living for leaf in worn)
    anew = not gone or len(before) >= _MANY_GONE or sum(page.rows for page in before) > 2 * gone + _GONE_ROWS
    parts = [leaf.ids[~leaf.mask()] for leaf in worn] if anew else [taken[lo:hi] for _, lo, hi in within(worn, taken)]
    ids = np.concatenate([np.empty(0, np.int64), *parts])
    pages = [] if anew else list(before)
    for at in range(0, len(ids), _GONE_ROWS):
        part = ids[at : at + _GONE_ROWS]
        offsets = offsets_of(part)
        content = {} if offsets is None else {"ids": pl.Series("id", offsets)}
        pages.append(writer.put(content, start=int(part[0]), rows=len(part)))
    return pages
