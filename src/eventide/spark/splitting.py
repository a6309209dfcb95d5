"""A task's stamp, cut into one for each bucket."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from eventide.operators.bundle import Stamp
from eventide.operators.outcome import Stamped
from eventide.spark.buckets import buckets_of


def split_stamp(stamp: Stamp, key: Sequence[str], buckets: int, home: int) -> list[Stamp]:
    """Cells and rows go to the bucket of their key; what needs no state any more goes ``home``, and is counted there.

    Every bucket gets the whole summary, so that all of them come to the same watermark.
    """
    if buckets == 1:
        return [stamp]
    cells = split_rows(stamp.stamped.cells, key, buckets)
    rows = split_rows(stamp.stamped.rows, key, buckets)
    parts = [Stamp(0, (), stamp.summary, 0, Stamped(own, others)) for own, others in zip(cells, rows, strict=True)]
    at_home = replace(stamp.stamped, cells=parts[home].stamped.cells, rows=parts[home].stamped.rows)
    parts[home] = replace(stamp, stamped=at_home)
    return parts


def split_rows(rows: pl.DataFrame, key: Sequence[str], buckets: int) -> list[pl.DataFrame]:
    """The rows of each bucket, in their order."""
    if rows.is_empty():
        return [rows] * buckets
    return list(_slices(rows, buckets_of(rows, key, buckets), buckets))


def _slices(rows: pl.DataFrame, bucket: np.ndarray, buckets: int) -> Iterator[pl.DataFrame]:
    order = np.argsort(bucket, kind="stable")
    sizes = np.bincount(bucket, minlength=buckets)
    ordered = rows if sizes.max() == rows.height else rows[order]  # of one key nothing has to move
    start = 0
    for size in sizes.tolist():
        yield ordered.slice(start, size)
        start += size
