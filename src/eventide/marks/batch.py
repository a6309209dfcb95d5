"""Events as readers give them, each with the place where it lies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

SEGMENT, OFFSET = "_segment", "_offset"
"""The columns that say where an event lies. Together they are unique in a stream, for ever."""


@dataclass(frozen=True)
class Batch:
    """Events, in the order of their segments."""

    table: pa.Table
    """The columns of the stream, ``_segment`` and ``_offset``."""
    position: dict[int, int]
    """How far the reader has come with it, in each segment that it holds."""

    def __len__(self) -> int:
        return len(self.table)

    @property
    def frame(self) -> pl.DataFrame:
        """The events in Polars."""
        return pl.DataFrame(pl.from_arrow(self.table))


def placed(table: pa.Table, segment: int, first: int) -> pa.Table:
    """Events of a segment, from an offset on, with the columns that say so."""
    segments = pa.array(np.full(len(table), segment, np.int32))
    offsets = pa.array(np.arange(first, first + len(table), dtype=np.int64))
    return table.append_column(SEGMENT, segments).append_column(OFFSET, offsets)
