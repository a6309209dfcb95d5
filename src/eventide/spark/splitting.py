"""A task's stamp, cut into one for each bucket."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from eventide.operators.bundle import Stamp
from eventide.operators.outcome import Stamped
from eventide.spark.buckets import buckets_of


def split_stamp(stamp: Stamp, key: Sequence[str], buckets: int, home: int) -> list[Stamp]:
    """Everything goes to the bucket of its key: a task that is run again elsewhere, where the watermark is not known,
    sends its rows as they are, and what some bucket has told must not come from another one then. Only counts go
    ``home``.

    Every bucket gets the whole summary, so that all of them come to the same watermark.
    """
    if buckets == 1:
        return [stamp]
    frames = (getattr(stamp.stamped, name) for name in ("cells", "rows", "late", "outside", "failed"))
    split = [[None] * buckets if frame is None else split_rows(frame, key, buckets) for frame in frames]
    dead = [split_rows(frame, key, buckets) for frame in stamp.dead]
    return [
        Stamp(
            stamp.rows if bucket == home else 0,
            tuple(frame[bucket] for frame in dead),
            stamp.summary,
            stamp.behind if bucket == home else 0,
            Stamped(*(frame[bucket] for frame in split)),  # type: ignore[arg-type]
            stamp.edge,
        )
        for bucket in range(buckets)
    ]


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
