"""The first stage: rows to pages, in the tasks that read the source. No state; what a task sees is all it knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import polars as pl
import pyarrow as pa

from eventide.operators.bundle import Stamp
from eventide.operators.operator import StreamOperator
from eventide.plan.plan import IngestionTime, Input
from eventide.spark import page, standing
from eventide.spark.bodies import batches_of
from eventide.spark.buckets import labels
from eventide.spark.settling import settle
from eventide.spark.splitting import split_rows, split_stamp
from eventide.spark.stage import Stage
from eventide.spark.tasks import Task, this_task
from eventide.spark.types import from_spark
from eventide.time import MIN

StampBatches: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

NOW = "__now"
_ROWS = 1_000_000  # rows that are stamped together, unless the task has less
_BYTES = 1 << 28  # or so many bytes of them: a page must fit into a row of Spark

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


def stamp_rows(stage: Stage, edge: int = 0) -> StampBatches:
    """Rows of a source to pages, for one input of the operator."""

    def stamped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        task = this_task()
        was = watermark_known(stage, task)
        for chunk, rows in enumerate(gathered(batches)):
            now = rows[0].column(NOW)[0].as_py() if NOW in rows[0].schema.names else task.now
            assert now > MIN or not stamp_needs_now(stage.plan.edges[edge]), "the batch's time did not reach its tasks"
            frame = from_spark(_named(rows, stage.schemas[edge]), stage.schemas[edge])
            yield as_batch(stamped_pages(stage, frame, now, page.sequence(task.number, chunk), was, edge))

    return stamped


def stamp_needs_now(plan: Input) -> bool:
    """Whether the stamp of rows depends on the batch's time."""
    return isinstance(plan.time, IngestionTime) or plan.watermark.options.max_future_skew is not None


def stamp_pages(stage: Stage) -> StampBatches:
    """Pages of the operator before this one to pages for this one: its panes are the rows here."""

    def stamped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        task = this_task()
        was = watermark_known(stage, task)
        pages = [one for batch in batches for one in batch.to_pylist(maps_as_pydicts="strict")]
        yield as_batch(passed_on(stage, pages, task.number, was))

    return stamped


def passed_on(stage: Stage, pages: list[dict[str, Any]], task: int, was: int | None) -> Iterator[page.Page]:
    """Panes as rows for every bucket, progress as promises; what is not for this operator goes through it."""
    pages = sorted(pages, key=lambda one: (one["bucket"], one["kind"], one["sequence"]))
    key = stage.plan.watermark.options.watermark_key
    for number, one in enumerate(pages):
        sequence = page.sequence(task, number)
        if one["kind"] == page.PANES:
            frame = from_spark(list(batches_of(one["body"])), stage.schemas[0])
            yield from stamped_pages(stage, frame, one["now"], sequence, was)
            continue
        yield _passing(stage, one, sequence)
        if one["kind"] == page.at_depth(page.PROGRESS, stage.depth - 1):
            promise = promises_for(key, str(one["bucket"]), one["counts"])
            for label in labels(stage.buckets):
                yield page.Page(label, page.PROMISE, sequence, one["now"], counts=promise)


def promises_for(key: int, bucket: str, counts: Mapping[str, int]) -> dict[str, int]:
    """As ``Output.notes_for`` has it: what a bucket promises of a watermark key, and under ``bucket/key`` of others.

    >>> promises_for(1, "0", {"promise": 5, "promise.0": 5, "promise.1": 7})
    {'0': 7, '0/0': 5}
    """
    several = {name.partition(".")[2]: time for name, time in counts.items() if name.startswith("promise.")}
    own = several.pop(str(key), MIN) if several else counts["promise"]
    return {bucket: own} | {f"{bucket}/{other}": time for other, time in several.items()}


def least_promise(counts: Mapping[str, int]) -> int:
    """What holds for all watermark keys."""
    several = [time for name, time in counts.items() if name.startswith("promise.")]
    return min(several, default=counts["promise"])


def _passing(stage: Stage, one: dict[str, Any], sequence: int) -> page.Page:
    """A page that is not for this operator; any bucket will let it through."""
    return page.Page(**one | {"bucket": labels(stage.buckets)[sequence % stage.buckets], "sequence": sequence})


def stamped_pages(
    stage: Stage, rows: pl.DataFrame, now: int, sequence: int, was: int | None, edge: int = 0
) -> Iterator[page.Page]:
    """One page for each bucket. ``was`` is the watermark that stands when the batch begins, if it is known."""
    operator, home = stage.operator(), sequence % stage.buckets
    if was is not None or not operator.judges_when_stamping:
        stamp = operator.stamp(rows, now, MIN if was is None else was, edge)
        split = split_stamp(stamp, stage.plan.key, stage.buckets, home)
        parts: list[tuple[str, bytes]] = [(page.STAMP, page.stamp_to_bytes(part)) for part in split]
    else:
        summary = operator.stamp(rows, now, MIN, edge).summary
        own = split_rows(rows, stage.plan.edges[edge].key, stage.buckets)
        parts = [(page.ROWS, page.rows_to_bytes(part, summary, edge)) for part in own]
    for label, (kind, body) in zip(labels(stage.buckets), parts, strict=True):
        yield page.Page(label, kind, sequence, now, body)


def letter_pages(stage: Stage, detail: str, now: int, sequence: int, edge: int = 0) -> Iterator[page.Page]:
    """The pages of a piece that cannot be read."""
    stamp = unreadable_stamp(stage.operator(), detail, now, edge)
    split = split_stamp(stamp, stage.plan.key, stage.buckets, sequence % stage.buckets)
    for label, part in zip(labels(stage.buckets), split, strict=True):
        yield page.Page(label, page.STAMP, sequence, now, page.stamp_to_bytes(part))


def unreadable_stamp(operator: StreamOperator, detail: str, now: int, edge: int = 0) -> Stamp:
    """The stamp of a piece that cannot be read: one dead letter, which counts as a row."""
    letter = operator.letter("bad_row", detail, edge)
    return replace(operator.stamp(operator.no_rows(edge), now, MIN, edge), rows=letter.height, dead=[letter])


def unstamped(stage: Stage, body: bytes, now: int, watermark: int) -> Stamp:
    """The stamp of rows that came as they were."""
    rows, summary, edge = page.rows_from_bytes(body)
    return replace(stage.operator().stamp(rows, now, watermark, edge), summary=summary)


def as_batch(pages: Iterable[page.Page]) -> pa.RecordBatch:
    """Pages as Spark takes them."""
    return pa.RecordBatch.from_pylist([one.row() for one in pages], ARROW)


def watermark_known(stage: Stage, task: Task) -> int | None:
    """The watermark that stands when this batch begins, if it is known on this machine."""
    if not stage.streaming:
        return MIN
    if task.watermark is not None:
        return task.watermark
    if task.batch is None or task.batch <= stage.repaired_in:
        return None
    return standing.known(task.run, stage.name, task.batch - 1)


def _named(batches: Iterable[pa.RecordBatch], columns: Iterable[str]) -> list[pa.RecordBatch]:
    """Rows, which came with their columns in this order, and with names of Spark's."""
    names = list(columns)
    return [pa.RecordBatch.from_arrays(batch.columns[: len(names)], names=names) for batch in batches]


def gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Batches in lots of about ``_ROWS`` rows; what a task reads decides the lots, so a replay has the same."""
    lot: list[Any] = []
    height = size = 0
    for batch in batches:
        if batch.num_rows:
            lot.append(batch)
            height += batch.num_rows
            size += batch.nbytes
        if height >= _ROWS or size >= _BYTES:
            yield lot
            lot, height, size = [], 0, 0
    if lot:
        yield lot
