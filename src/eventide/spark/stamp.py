"""The first stage, stamp: the tasks that read the source turn rows into pages, one for each bucket.

Tasks have no state. A task that knows the watermark at the start of the batch separates late rows and sends cells. One
that does not know it, because the query has just started or its state is on other machines, sends its rows as they are.
The result is the same. So published watermarks may be lost, and machines do not share them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa

from eventide._columns import NOW
from eventide.operators.operator import Stamp, StreamOperator
from eventide.operators.window_logic import Stamped
from eventide.plan.plan import IngestionTime, Input
from eventide.spark import shuffle_pages as page
from eventide.spark.buckets import bucket_labels, bucket_of
from eventide.spark.environment import private_directory
from eventide.spark.shuffle_pages import Stage, Task, freeze_gc, read_batches, this_task
from eventide.spark.types import from_spark
from eventide.time import MIN

StampBatches: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

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
"""The columns of pages, as ``shuffle_pages.SCHEMA``."""

_MAX_ROWS = 1_000_000  # rows that are stamped together, unless the task has fewer
_MAX_BYTES = 1 << 28  # or bytes of them: a page must fit into a row of Spark
_FRAMES = ("cells", "rows", "late", "outside", "failed")  # of a stamp
_PUBLISHED_BATCHES = 3
_SWEPT = "swept"  # an empty directory, whose modification time is that of the last cleanup
_SWEEP_INTERVAL = 3_600  # seconds
_MAX_AGE = 86_400  # seconds


def stamp_rows(stage: Stage, edge: int = 0) -> StampBatches:
    """Return the task function that turns rows of a source into pages, for one input of the operator."""

    def stamp(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        freeze_gc()
        task = this_task()
        watermark = start_watermark(stage, task)
        schema = stage.schemas[edge]
        for chunk, group in enumerate(group_batches(batches)):
            now = group[0].column(NOW)[0].as_py() if NOW in group[0].schema.names else task.now
            assert now > MIN or not stamp_needs_now(stage.plan.edges[edge]), "the batch's time did not reach its tasks"
            rows = from_spark(_rename_columns(group, schema), schema)
            sequence = page.sequence(task.number, chunk)
            yield pages_to_batch(stamp_to_pages(stage, rows, now, sequence, watermark, edge))

    return stamp


def stamp_needs_now(plan: Input) -> bool:
    """Return whether the stamp of rows depends on the batch's time."""
    return isinstance(plan.time, IngestionTime) or plan.watermark.options.max_future_skew is not None


def stamp_pages(stage: Stage) -> StampBatches:
    """Return the task function that turns pages of the previous operator into pages for this one."""

    def stamp(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        freeze_gc()
        task = this_task()
        watermark = start_watermark(stage, task)
        pages = [row for batch in batches for row in batch.to_pylist(maps_as_pydicts="strict")]
        yield pages_to_batch(forward_pages(stage, pages, task.number, watermark))

    return stamp


def forward_pages(
    stage: Stage, pages: list[dict[str, Any]], task: int, watermark: int | None
) -> Iterator[page.ShufflePage]:
    """Yield the panes of the previous operator as stamped rows, its progress as output watermarks, and other pages.

    A page that is not for this operator goes through any of its buckets.
    """
    pages = sorted(pages, key=lambda row: (row["bucket"], row["kind"], row["sequence"]))
    key = stage.plan.watermark.options.watermark_key
    labels = bucket_labels(stage.buckets)
    for number, row in enumerate(pages):
        sequence = page.sequence(task, number)
        if row["kind"] == page.PANES:
            panes = from_spark(list(read_batches(row["body"])), stage.schemas[0])
            yield from stamp_to_pages(stage, panes, row["now"], sequence, watermark)
            continue
        yield page.ShufflePage(**row | {"bucket": labels[sequence % stage.buckets], "sequence": sequence})
        if row["kind"] == page.at_depth(page.PROGRESS, stage.depth - 1):
            watermarks = output_watermarks_for(key, str(row["bucket"]), row["counts"])
            for label in stage.tracking_labels:
                yield page.ShufflePage(label, page.OUTPUT_WATERMARK, sequence, row["now"], counts=watermarks)


def output_watermarks_for(key: int, bucket: str, counts: Mapping[str, int]) -> dict[str, int]:
    """Return a bucket's output watermarks: that of ``key`` under ``bucket``, others under ``bucket/key``.

    >>> output_watermarks_for(1, "0", {"output_watermark": 5, "output_watermark.0": 5, "output_watermark.1": 7})
    {'0': 7, '0/0': 5}
    """
    by_key = _output_watermarks_by_key(counts)
    watermark = by_key.pop(str(key), MIN) if by_key else counts[page.OUTPUT_WATERMARK]
    return {bucket: watermark} | {f"{bucket}/{other}": time for other, time in by_key.items()}


def least_output_watermark(counts: Mapping[str, int]) -> int:
    """Return the output watermark that holds for all watermark keys of a bucket."""
    return min(_output_watermarks_by_key(counts).values(), default=counts[page.OUTPUT_WATERMARK])


def _output_watermarks_by_key(counts: Mapping[str, int]) -> dict[str, int]:
    prefix = f"{page.OUTPUT_WATERMARK}."
    return {name.removeprefix(prefix): time for name, time in counts.items() if name.startswith(prefix)}


def stamp_to_pages(
    stage: Stage, rows: pl.DataFrame, now: int, sequence: int, watermark: int | None, edge: int = 0
) -> Iterator[page.ShufflePage]:
    """Yield one page for each bucket. ``watermark`` is that at the start of the batch, if the task knows it."""
    operator, home = stage.operator(), sequence % stage.buckets
    if watermark is not None or not operator.judges_when_stamping:
        stamp = operator.stamp(rows, now, MIN if watermark is None else watermark, edge)
        yield from _stamp_pages(stage, stamp, now, sequence, home)
        return
    summary = operator.stamp(rows, now, MIN, edge).summary
    parts = split_rows(rows, stage.plan.edges[edge].key, stage.buckets)
    if stage.progress == "coalesced":
        yield _summary_page(stage, summary, now, sequence, edge)
    for label, part in zip(bucket_labels(stage.buckets), parts, strict=True):
        if stage.progress == "direct":
            yield page.ShufflePage(label, page.ROWS, sequence, now, page.rows_to_bytes(part, summary, edge))
        elif part.height:
            yield page.ShufflePage(label, page.ROWS, sequence, now, page.rows_to_bytes(part, summary.clear(), edge))


def dead_letter_pages(stage: Stage, detail: str, now: int, sequence: int, edge: int = 0) -> Iterator[page.ShufflePage]:
    """Yield the pages of a split that cannot be read."""
    stamp = unreadable_stamp(stage.operator(), detail, now, edge)
    yield from _stamp_pages(stage, stamp, now, sequence, sequence % stage.buckets)


def _stamp_pages(stage: Stage, stamp: Stamp, now: int, sequence: int, home: int) -> Iterator[page.ShufflePage]:
    is_coalesced = stage.progress == "coalesced"
    if is_coalesced:
        yield _summary_page(stage, stamp.summary, now, sequence, stamp.edge)
        stamp = replace(stamp, summary=stamp.summary.clear())
    parts = split_stamp(stamp, stage.plan.key, stage.buckets, home)
    for label, part in zip(bucket_labels(stage.buckets), parts, strict=True):
        if not is_coalesced or _has_content(part):
            yield page.ShufflePage(label, page.STAMP, sequence, now, page.stamp_to_bytes(part))


def _summary_page(stage: Stage, summary: pl.DataFrame, now: int, sequence: int, edge: int) -> page.ShufflePage:
    (label,) = stage.tracking_labels
    return page.ShufflePage(label, page.SUMMARY, sequence, now, page.summary_to_bytes(summary, edge))


def _has_content(stamp: Stamp) -> bool:
    """Return whether a part of a stamp has rows or counts. Without a summary, others need not be sent."""
    frames = [*stamp.dead, *(getattr(stamp.stamped, name) for name in _FRAMES)]
    return stamp.rows > 0 or stamp.late_rows > 0 or any(frame is not None and frame.height for frame in frames)


def unreadable_stamp(operator: StreamOperator, detail: str, now: int, edge: int = 0) -> Stamp:
    """Return the stamp of a split that cannot be read: one dead letter, which counts as a row."""
    letter = operator.letter("bad_row", detail, edge)
    return replace(operator.stamp(operator.no_rows(edge), now, MIN, edge), rows=letter.height, dead=[letter])


def stamp_raw_rows(stage: Stage, body: bytes, now: int, watermark: int) -> Stamp:
    """Return the stamp of rows that arrived without one."""
    rows, summary, edge = page.rows_from_bytes(body)
    return replace(stage.operator().stamp(rows, now, watermark, edge), summary=summary)


def pages_to_batch(pages: Iterable[page.ShufflePage]) -> pa.RecordBatch:
    """Return pages as rows for Spark."""
    return pa.RecordBatch.from_pylist([part.row() for part in pages], ARROW)


def split_stamp(stamp: Stamp, key: Sequence[str], buckets: int, home: int) -> list[Stamp]:
    """Return a task's stamp as one stamp for each bucket.

    Every row goes to the bucket of its key, late rows and dead letters too. A task that is repeated elsewhere may not
    know the watermark and sends plain rows; their outputs must be those of the same bucket. Only counts go to ``home``.
    Every bucket gets the whole summary, so that all buckets compute the same watermark (unless progress is coalesced).
    """
    if buckets == 1:
        return [stamp]
    frames = (getattr(stamp.stamped, name) for name in _FRAMES)
    split: list[Sequence[Any]]  # of frames; of None where the stamp has none
    split = [[None] * buckets if frame is None else split_rows(frame, key, buckets) for frame in frames]
    dead = [split_rows(frame, key, buckets) for frame in stamp.dead]
    return [
        Stamp(
            stamp.rows if bucket == home else 0,
            tuple(frame[bucket] for frame in dead),
            stamp.summary,
            stamp.late_rows if bucket == home else 0,
            Stamped(*(frame[bucket] for frame in split)),
            stamp.edge,
        )
        for bucket in range(buckets)
    ]


def split_rows(rows: pl.DataFrame, key: Sequence[str], buckets: int) -> list[pl.DataFrame]:
    """Return the rows of each bucket, in their order."""
    if rows.is_empty():
        return [rows] * buckets
    bucket = bucket_of(rows, key, buckets)
    sizes = np.bincount(bucket, minlength=buckets)
    is_single = sizes.max() == rows.height  # all rows are in one bucket already
    ordered = rows if is_single else rows[np.argsort(bucket, kind="stable")]
    starts = np.cumsum(sizes) - sizes
    return [ordered.slice(start, size) for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)]


def _rename_columns(batches: Iterable[pa.RecordBatch], columns: Iterable[str]) -> list[pa.RecordBatch]:
    """Return rows with these names of columns: Spark sends the columns in this order, under other names."""
    names = list(columns)
    return [pa.RecordBatch.from_arrays(batch.columns[: len(names)], names=names) for batch in batches]


def group_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Yield batches in groups of about ``_MAX_ROWS`` rows. They depend only on the input, so a replay has the same."""
    group: list[Any] = []
    height = size = 0
    for batch in batches:
        if batch.num_rows:
            group.append(batch)
            height += batch.num_rows
            size += batch.nbytes
        if height >= _MAX_ROWS or size >= _MAX_BYTES:
            yield group
            group, height, size = [], 0, 0
    if group:
        yield group


def start_watermark(stage: Stage, task: Task) -> int | None:
    """Return the watermark at the start of this batch, if this machine knows it."""
    if not stage.streaming:
        return MIN
    if task.watermark is not None:
        return task.watermark
    if task.batch is None or task.batch <= stage.repaired_in:
        return None
    return read_watermark(task.run, stage.name, task.batch - 1)


def publish_watermark(query: str, operator: str, batch: int, watermark: int) -> None:
    """Store the watermark at the end of a batch for tasks on this machine. Every bucket stores the same."""
    directory = _watermark_directory(query, operator)
    if directory is None:
        return
    with contextlib.suppress(OSError):
        if not directory.parent.exists():
            _sweep(directory.parent.parent)
        directory.mkdir(parents=True, exist_ok=True)
        unfinished = directory / f"{batch}.{os.getpid()}"
        unfinished.write_text(str(watermark), encoding="ascii")
        unfinished.replace(directory / str(batch))
        (directory / str(batch - _PUBLISHED_BATCHES)).unlink(missing_ok=True)


def read_watermark(query: str, operator: str, batch: int) -> int | None:
    """Return the watermark at the end of a batch, if it was published on this machine."""
    if batch < 0:
        return MIN
    directory = _watermark_directory(query, operator)
    try:
        return None if directory is None else int((directory / str(batch)).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _watermark_directory(query: str, operator: str) -> Path | None:
    root = private_directory("eventide-watermarks")
    return None if root is None else root / query / operator


def _sweep(root: Path) -> None:
    """Delete the watermarks of queries that were silent for a day. Once an hour: a busy machine has many queries."""
    now, swept = time.time(), root / _SWEPT
    if swept.exists() and swept.stat().st_mtime > now - _SWEEP_INTERVAL:
        return
    swept.mkdir(parents=True, exist_ok=True)
    os.utime(swept)
    for query in set(root.iterdir()) - {swept}:
        if all(operator.stat().st_mtime < now - _MAX_AGE for operator in query.iterdir()):
            shutil.rmtree(query, ignore_errors=True)
