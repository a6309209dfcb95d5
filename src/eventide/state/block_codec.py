"""Plain data with long columns in pages: a write puts only the blocks that changed.

The state of a watermark tracker is columns by origin, and runs of sequence numbers by origin. Most bundles change few
rows. A column by origin is cut at fixed positions. Runs are inserted between others, so they are cut by their content:
a new run moves the rows behind it, but not the cuts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from eventide.kernels.keys import hashed
from eventide.state.pages import Page, PageReader, PageWriter, pages_from_frame, pages_to_frame

BLOCK_ROWS = 4096
"""About how many rows are in a block. Columns that are not longer are stored in the header."""

_BLOCKS = "$blocks"
_ColumnBlocks: TypeAlias = dict[Any, tuple[Page, pl.DataFrame]]  # by the key of the first row


@dataclass(frozen=True)
class StoredBlocks:
    """The blocks that are in pages, by the path of their column."""

    blocks: Mapping[str, _ColumnBlocks] = field(default_factory=dict)

    def all(self) -> tuple[Page, ...]:
        """Return all pages."""
        return tuple(page for blocks in self.blocks.values() for page, _ in blocks.values())


def write_blocks(content: Any, stored: StoredBlocks | None, writer: PageWriter) -> tuple[Any, StoredBlocks]:
    """Write the long columns of nested data. Returns the header entry, and what is stored."""
    before = stored or StoredBlocks()
    blocks: dict[str, _ColumnBlocks] = {}

    def encode(value: Any, path: str) -> Any:
        if isinstance(value, dict):
            return {name: encode(part, f"{path}/{name}") for name, part in value.items()}
        if isinstance(value, (list, tuple)):
            return [encode(part, f"{path}/{i}") for i, part in enumerate(value)]
        if not isinstance(value, (pl.DataFrame, pl.Series)) or len(value) <= BLOCK_ROWS:
            return value
        frame = value.to_frame() if isinstance(value, pl.Series) else value
        blocks[path] = _put(frame, before.blocks.get(path, {}), writer)
        pages = pages_to_frame([page for page, _ in blocks[path].values()])
        return {_BLOCKS: isinstance(value, pl.Series), "pages": pages}

    head = encode(content, "")
    after = StoredBlocks(blocks)
    numbers = {page.number for page in after.all()}
    writer.drop(page for page in before.all() if page.number not in numbers)
    return head, after


def read_blocks(head: Any, reader: PageReader) -> tuple[Any, StoredBlocks]:
    """Return the data of ``write_blocks``, and what is stored."""
    blocks: dict[str, _ColumnBlocks] = {}

    def decode(value: Any, path: str) -> Any:
        if isinstance(value, list):
            return [decode(part, f"{path}/{i}") for i, part in enumerate(value)]
        if not isinstance(value, dict):
            return value
        if _BLOCKS not in value:
            return {name: decode(part, f"{path}/{name}") for name, part in value.items()}
        parts = [(page, reader.fetch(page)["rows"]) for page in pages_from_frame(value["pages"])]
        blocks[path] = {_block_key(rows, page.start): (page, rows) for page, rows in parts}
        frame = pl.concat([rows for _, rows in parts])
        return frame.to_series() if value[_BLOCKS] else frame

    content = decode(head, "")
    return content, StoredBlocks(blocks)


def _put(frame: pl.DataFrame, before: _ColumnBlocks, writer: PageWriter) -> _ColumnBlocks:
    blocks = {}
    cuts = _cuts(frame)
    for start, stop in zip([0, *cuts], [*cuts, frame.height], strict=True):
        rows = frame.slice(start, stop - start)
        key = _block_key(rows, start)
        block = before.get(key)
        if block is None or not block[1].equals(rows):
            block = writer.put({"rows": rows}, start=start, rows=rows.height), rows
        blocks[key] = block
    return blocks


def _cuts(frame: pl.DataFrame) -> list[int]:
    """Return the positions at which blocks begin, except the first."""
    columns = _key_columns(frame)
    if not columns:
        return list(range(BLOCK_ROWS, frame.height, BLOCK_ROWS))
    begins_block = hashed(frame, columns) % np.uint64(max(BLOCK_ROWS // 2, 1)) == 0
    cuts = np.flatnonzero(begins_block[1:]) + 1
    return [int(cut) for cut in cuts]


def _block_key(rows: pl.DataFrame, start: int) -> Any:
    columns = _key_columns(rows)
    return rows.select(columns).row(0) if columns else start


def _key_columns(frame: pl.DataFrame) -> list[str]:
    """Return the columns that identify a run: its origin and its start. Other rows are identified by position."""
    columns = frame.columns
    return columns[: columns.index("start") + 1] if columns[0] == "origin" and "start" in columns else []
