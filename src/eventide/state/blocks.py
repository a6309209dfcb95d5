"""Plain data whose long columns lie in pages: a bundle writes the blocks that it touched, and the rest stays.

The state of a watermark is columns by origin, and runs of numbers by origin and sequence. Most bundles touch few of
them. A column by origin is cut at fixed rows. Runs come and go between others, so they are cut where their content
says: a run that is new moves the rows behind it, but not the cuts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from eventide.state.hashing import hashed
from eventide.state.paging import Page, Shelf, Writer, from_frame, to_frame

ROWS = 4096
"""About so many rows make a block; columns that are not longer stay in the head."""

_BLOCKS = "$blocks"


@dataclass(frozen=True)
class KnownBlocks:
    """The blocks that lie in pages, by the place of their column and by what their first row is."""

    blocks: Mapping[str, Mapping[Any, tuple[Page, pl.DataFrame]]] = field(default_factory=dict)

    def all(self) -> tuple[Page, ...]:
        """All pages."""
        return tuple(page for blocks in self.blocks.values() for page, _ in blocks.values())


def write_blocks(content: Any, known: KnownBlocks | None, writer: Writer) -> tuple[Any, KnownBlocks]:
    """What the head says of nested plain data, frames and series, and the pages that there are now."""
    before = known or KnownBlocks()
    now: dict[str, dict[Any, tuple[Page, pl.DataFrame]]] = {}

    def head_of(value: Any, place: str) -> Any:
        if isinstance(value, dict):
            return {name: head_of(part, f"{place}/{name}") for name, part in value.items()}
        if isinstance(value, (list, tuple)):
            return [head_of(part, f"{place}/{i}") for i, part in enumerate(value)]
        if not isinstance(value, (pl.DataFrame, pl.Series)) or len(value) <= ROWS:
            return value
        frame = value.to_frame() if isinstance(value, pl.Series) else value
        now[place] = _put(frame, before.blocks.get(place, {}), writer)
        pages = to_frame([page for page, _ in now[place].values()])
        return {_BLOCKS: isinstance(value, pl.Series), "pages": pages}

    head = head_of(content, "")
    after = KnownBlocks(now)
    kept = {page.number for page in after.all()}
    writer.drop(page for page in before.all() if page.number not in kept)
    return head, after


def read_blocks(head: Any, shelf: Shelf) -> tuple[Any, KnownBlocks]:
    """The data that was written, and its pages."""
    found: dict[str, dict[Any, tuple[Page, pl.DataFrame]]] = {}

    def value_of(value: Any, place: str) -> Any:
        if isinstance(value, list):
            return [value_of(part, f"{place}/{i}") for i, part in enumerate(value)]
        if not isinstance(value, dict):
            return value
        if _BLOCKS not in value:
            return {name: value_of(part, f"{place}/{name}") for name, part in value.items()}
        parts = [(page, shelf.fetch(page)["rows"]) for page in from_frame(value["pages"])]
        found[place] = {_name(rows, page.start): (page, rows) for page, rows in parts}
        frame = pl.concat([rows for _, rows in parts])
        return frame.to_series() if value[_BLOCKS] else frame

    content = value_of(head, "")
    return content, KnownBlocks(found)


def _put(
    frame: pl.DataFrame, before: Mapping[Any, tuple[Page, pl.DataFrame]], writer: Writer
) -> dict[Any, tuple[Page, pl.DataFrame]]:
    blocks = {}
    cuts = _cuts(frame)
    for start, stop in zip([0, *cuts], [*cuts, frame.height], strict=True):
        rows = frame.slice(start, stop - start)
        name = _name(rows, start)
        known = before.get(name)
        if known is None or not known[1].equals(rows):
            known = writer.put({"rows": rows}, start=start, rows=rows.height), rows
        blocks[name] = known
    return blocks


def _cuts(frame: pl.DataFrame) -> list[int]:
    """Where blocks begin, except the first."""
    key = _key(frame)
    if not key:
        return list(range(ROWS, frame.height, ROWS))
    marked = hashed(frame, key) % np.uint64(max(ROWS // 2, 1)) == 0
    cuts = np.flatnonzero(marked[1:]) + 1
    return [int(cut) for cut in cuts]


def _name(rows: pl.DataFrame, start: int) -> Any:
    key = _key(rows)
    return rows.select(key).row(0) if key else start


def _key(frame: pl.DataFrame) -> list[str]:
    """What no two runs have in common: their origin and where they start. Other rows are known by their position."""
    columns = frame.columns
    return columns[: columns.index("start") + 1] if columns[0] == "origin" and "start" in columns else []
