"""The last stage: pages to ordinary rows."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from eventide.spark.bodies import batches_of
from eventide.spark.settling import settle


def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of pages that are a single column of bodies."""
    settle()
    for batch in batches:
        for body in batch.column(0):
            yield from batches_of(body.as_buffer())
