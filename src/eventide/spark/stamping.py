"""The first stage: rows to pages, in the tasks that read the source. No state; what a task sees is all it knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl
import pyarrow as pa

from eventide.operators.bundle import Stamp
from eventide.spark import page, standing
from eventide.spark.buckets import labels
from eventide.spark.splitting import split_rows, split_stamp
from eventide.spark.stage import Stage
from eventide.spark.tasks import this_task
from eventide.spark.types import from_spark
from eventide.time import MIN

NOW = "__now"
_ROWS = 1_000_000  # rows that are stamped together, unless the task has less

ARROW = pa.schema(
    [
        ("bucket", pa.int32()),
        ("kind", pa.string()),
        ("sequence", pa.int64()),
        ("now", pa.int64()),
        ("body", pa.binary()),
        ("counts", pa.map_(pa.string(), pa.int64())),
        ("detail", pa.string()),
    ]
)


class StampRows:
    """Rows of a source, as Arrow batches, to pages."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All rows of a task."""
        task = this_task()
        for chunk, rows in enumerate(_gathered(batches)):
            now = rows[0].column(NOW)[0].as_py()
            frame = from_spark(rows, self._stage.schema)
            yield as_batch(stamped_pages(self._stage, frame, now, page.sequence(task.number, chunk)))


def stamped_pages(stage: Stage, rows: pl.DataFrame, now: int, sequence: int) -> Iterable[page.Page]:
    """One page for each bucket."""
    operator, key, home = stage.operator(), stage.plan.key, sequence % stage.buckets
    was = _watermark(stage)
    if was is not None or stage.plan.window.axis == "rows":
        stamp = operator.stamp(rows, now, MIN if was is None else was)
        parts: list[tuple[str, bytes]] = [
            (page.STAMP, page.stamp_to_bytes(part)) for part in split_stamp(stamp, key, stage.buckets, home)
        ]
    else:
        summary = operator.stamp(rows, now, MIN).summary
        split = split_rows(rows, key, stage.buckets)
        parts = [(page.ROWS, page.rows_to_bytes(part, summary)) for part in split]
    for label, (kind, body) in zip(labels(stage.buckets), parts, strict=True):
        yield page.Page(label, kind, sequence, now, body)


def unstamped(stage: Stage, body: bytes, now: int, watermark: int) -> Stamp:
    """The stamp of rows that came as they were."""
    rows, summary = page.rows_from_bytes(body)
    stamp = stage.operator().stamp(rows, now, watermark)
    return Stamp(stamp.rows, stamp.dead, summary, stamp.behind, stamp.stamped)


def as_batch(pages: Iterable[page.Page]) -> pa.RecordBatch:
    """Pages as Spark takes them."""
    return pa.RecordBatch.from_pylist([one.row() for one in pages], ARROW)


def _watermark(stage: Stage) -> int | None:
    if not stage.streaming:
        return MIN
    task = this_task()
    return None if task.batch is None else standing.known(task.run, stage.name, task.batch - 1)


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Batches in lots of about ``_ROWS`` rows; what a task reads decides the lots, so a replay has the same."""
    lot: list[Any] = []
    height = 0
    for batch in batches:
        if batch.num_rows:
            lot.append(batch)
            height += batch.num_rows
        if height >= _ROWS:
            yield lot
            lot, height = [], 0
    if lot:
        yield lot
