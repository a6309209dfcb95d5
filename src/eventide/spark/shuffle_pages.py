"""Pages, which move rows and state changes between the stages of a query, and what a task knows of its query.

A page is one Spark row: a few plain columns, and a body of columnar data. Few large rows cross the shuffle and the
border between Python and the JVM, not many small ones.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import polars as pl
import pyarrow as pa

from eventide.kernels.frames import Compression
from eventide.operators.factory import operator_of
from eventide.operators.operator import Stamp, StreamOperator
from eventide.operators.window_logic import Stamped
from eventide.plan.plan import Plan
from eventide.spark.buckets import bucket_labels
from eventide.state import format as snapshot
from eventide.time import MIN
from eventide.watermarks import AnyTracker, Note, Reached, Watermark, empty_summary

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import StructType


Progress: TypeAlias = Literal["direct", "coalesced"]
"""How the progress of origins reaches the buckets: from every task, or coalesced in one place."""

SCHEMA = "bucket int, kind string, sequence bigint, now bigint, body binary, counts map<string,bigint>, detail string"

# Kinds of pages that are inputs of an operator.
STAMP = "stamp"  # the stamp of a task's rows
ROWS = "rows"  # a task's rows without a stamp: the task did not know the watermark
OUTPUT_WATERMARK = "output_watermark"  # of a bucket of the previous operator
CONTROL = "control"  # a command
TICK = "tick"  # processing time has advanced
SUMMARY = "summary"  # the progress of a task's origins, where one place tracks them
SIZE = "size"  # the bytes of the rows that a task stamped for the driver
REACHED = "reached"  # what that place has reached, for each bucket

# Kinds of pages that are outputs of an operator. Later operators forward all of them except panes, so their kinds also
# name the operator by its depth in the chain: ``late.0``.
PANES = "panes"
LATE = "late"
DEAD = "dead"
PROGRESS = "progress"

BATCH_TIME = "eventide.batchTime"
"""The local property of jobs with the time of the batch, in microseconds."""

WATERMARK = "eventide.watermark"
"""The local property by which the driver sends the watermark to the tasks of a batch."""

_COMPRESSION: Compression = "lz4"  # Spark compresses what it shuffles
_MAX_CHUNKS = 1 << 20  # of one task: a page's sequence is its task's number, followed by its chunk's
_MAX_OPERATORS = 64  # in the cache of a process
_FROZEN_TASKS = 16  # later tasks import and cache nothing new

_operators: dict[str, StreamOperator] = {}
_frozen = 0


@dataclass(frozen=True)
class ShufflePage:
    """A page. Each kind sets only the fields that it needs."""

    bucket: int
    kind: str
    sequence: int
    now: int
    body: bytes | None = None
    counts: dict[str, int] | None = None
    detail: str | None = None

    def row(self) -> dict[str, Any]:
        """Return the page as a row for Spark."""
        return self.__dict__


def sequence(task: int, chunk: int) -> int:
    """Return a page's place in the order in which pages are applied: by task, then by chunk. A replay has the same."""
    return task * _MAX_CHUNKS + chunk


def at_depth(kind: str, depth: int) -> str:
    """Return the kind of an output page of the operator at some depth.

    >>> at_depth(LATE, 1), at_depth(PANES, 1)
    ('late.1', 'panes')
    """
    return kind if kind == PANES else f"{kind}.{depth}"


def stamp_to_bytes(stamp: Stamp) -> bytes:
    """Return a stamp as the body of a page."""
    stamped = {name: getattr(stamp.stamped, name) for name in ("cells", "rows", "late", "outside", "failed")}
    return snapshot.dump(
        {
            "rows": stamp.rows,
            "dead": list(stamp.dead),
            "summary": stamp.summary if stamp.summary.height else None,
            "late_rows": stamp.late_rows,
            "stamped": stamped,
            "edge": stamp.edge,
        },
        compression=_COMPRESSION,
    )


def stamp_from_bytes(body: bytes) -> Stamp:
    """Return the stamp in the body of a page."""
    content = snapshot.load(body)
    summary = _summary_in(content)
    return Stamp(**content | {"stamped": Stamped(**content["stamped"]), "summary": summary})


def rows_to_bytes(rows: pl.DataFrame, summary: pl.DataFrame, edge: int) -> bytes:
    """Return rows of an input, and the watermark summary of all rows of their task, as the body of a page."""
    content = {"rows": rows, "summary": summary if summary.height else None, "edge": edge}
    return snapshot.dump(content, compression=_COMPRESSION)


def rows_from_bytes(body: bytes) -> tuple[pl.DataFrame, pl.DataFrame, int]:
    """Return the rows and the summary in the body of a page, and the number of the input."""
    content = snapshot.load(body)
    return content["rows"], _summary_in(content), content["edge"]


def summary_to_bytes(summary: pl.DataFrame, edge: int) -> bytes:
    """Return the progress of a task's origins as the body of a page."""
    content = {"summary": summary if summary.height else None, "edge": edge}
    return snapshot.dump(content, compression=_COMPRESSION)


def summary_from_bytes(body: bytes) -> tuple[int, pl.DataFrame]:
    """Return the number of the input and the progress of its origins in the body of a page."""
    content = snapshot.load(body)
    return content["edge"], _summary_in(content)


def reached_to_bytes(tracker: AnyTracker, notes: Sequence[Note]) -> bytes:
    """Return what a tracker has reached, and the watermarks that arrived from outside, as the body of a page."""
    marks = [[note.key, note.time] for note in notes if isinstance(note, Watermark)]
    return json.dumps({"reached": tracker.reached(), "marks": marks}, separators=(",", ":")).encode()


def reached_from_bytes(body: bytes) -> list[Note]:
    """Return the notes in the body of a page that ``reached_to_bytes`` wrote."""
    content = json.loads(bytes(body))
    return [Reached(content["reached"]), *(Watermark(*mark) for mark in content["marks"])]


def _summary_in(content: Mapping[str, Any]) -> pl.DataFrame:
    summary: pl.DataFrame | None = content["summary"]
    return empty_summary() if summary is None else summary


def table_to_bytes(table: pa.Table) -> bytes:
    """Return output rows as the body of a page: Arrow's stream format, in Spark's types."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def read_batches(body: bytes) -> Iterator[pa.RecordBatch]:
    """Yield the output rows in the body of a page."""
    with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
        yield from reader


def batch_time() -> Column:
    """Return the batch's time in microseconds as a column, as Spark logged it: a repeated batch has the same.

    Use it for few rows (pages, names of files), and where ``set_batch_time`` cannot be used. Spark writes a plain
    timestamp into the Java code that it generates, so it would compile new code for every batch. It generates no code
    for sorted arrays, which cost more for each row.
    """
    from pyspark.sql import functions as F  # noqa: N812

    return F.element_at(F.array_sort(F.array(F.unix_micros(F.current_timestamp()))), 1)


def set_batch_time(spark: SparkSession, checkpoint: Path, batch: int) -> None:
    """Send the time of a batch, from Spark's offset log, to the tasks of the jobs that this thread starts.

    ``foreachBatch`` calls it. A column with the time would cost more than the columns of a row.
    """
    _, metadata, *_ = (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").split("\n")
    spark.sparkContext.setLocalProperty(BATCH_TIME, str(json.loads(metadata)["batchTimestampMs"] * 1000))


def set_task_properties(spark: SparkSession, *, now: int, watermark: int) -> None:
    """Send the time of a batch and the watermark before it to the tasks of the jobs that this thread starts."""
    spark.sparkContext.setLocalProperty(BATCH_TIME, str(now))
    spark.sparkContext.setLocalProperty(WATERMARK, str(watermark))


@dataclass(frozen=True)
class Task:
    """A task of a micro-batch; outside a streaming query there is no batch."""

    number: int
    attempt: int
    batch: int | None
    run: str
    watermark: int | None = None  # of the first operator at the start of the batch, if state is in the driver
    now: int = MIN  # the batch's time, if the host sends it to its tasks


def this_task() -> Task:
    """Return the task that runs this code."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    batch = context.getLocalProperty("streaming.sql.batchId")
    run = context.getLocalProperty("spark.jobGroup.id") or ""
    watermark = context.getLocalProperty(WATERMARK)
    now = context.getLocalProperty(BATCH_TIME)
    return Task(
        context.partitionId(),
        context.taskAttemptId(),
        None if batch is None else int(batch),
        run,
        None if watermark is None else int(watermark),
        MIN if now is None else int(now),
    )


def freeze_gc() -> None:
    """Hide the objects that exist now from the garbage collector. Call it when a task begins.

    Spark collects garbage after each task. Objects that survive are mostly modules, and a scan of all of them takes
    longer than a small task. Only the first tasks of a process freeze: a reference cycle that is frozen is never freed.

    >>> freeze_gc()
    >>> gc.get_freeze_count() > 0
    True
    """
    global _frozen
    if _frozen == 0:
        gc.collect()
    if _frozen < _FROZEN_TASKS:
        _frozen += 1
        gc.freeze()


@dataclass(frozen=True)
class Layout:
    """The layout of an operator's state in a checkpoint; None: it is not started yet."""

    buckets: int | None = None
    progress: Progress | None = None


@dataclass(frozen=True)
class OriginTraits:
    """How an operator uses origins, on which it depends how their progress reaches the buckets."""

    has_origins: bool = False  # the watermark is the least of several origins
    looks_up_origins: bool = False  # buckets need single origins, not only watermarks


def traits_of(plan: Plan) -> OriginTraits:
    """Return how a plan uses origins."""
    options = [edge.watermark.options for edge in plan.edges]
    return OriginTraits(
        has_origins=any(option.origin is not None for option in options),
        looks_up_origins=any(option.deduplicate or option.offset is not None for option in options),
    )


@dataclass(frozen=True)
class Stage:
    """An operator of a query, as its tasks need it: small, immutable, and sent to each of them."""

    name: str  # unique to the query that is being built
    plan: Plan
    schemas: tuple[Mapping[str, pl.DataType], ...]  # of the rows of each input
    buckets: int
    depth: int = 0  # the number of operators before it in the chain
    sources: int = 0  # the number of buckets of the previous operator
    streaming: bool = True
    derived: tuple[str, ...] = ()  # columns from expressions of the plan, which late rows and dead letters leave out
    repaired_in: int = -1  # up to this batch, tasks ignore the previous batch's watermark, because it is lowered
    tasks_know_time: bool = False  # the host sends the batch's time to its tasks, so rows do not carry it
    progress: Progress = "direct"  # whether each bucket tracks all origins, or one place for all buckets

    def output_schema(self, output: str) -> StructType:
        """Return the columns of panes, late rows or dead letters, in Spark's types."""
        from eventide.spark.types import spark_schema

        schema = self.operator().output_schemas()[output]
        hidden = () if output == PANES else self.derived
        return spark_schema({name: dtype for name, dtype in schema.items() if name not in hidden})

    @property
    def tracking_labels(self) -> tuple[int, ...]:
        """Return the buckets that summaries, output watermarks, commands and ticks are sent to."""
        return bucket_labels(self.buckets) if self.progress == "direct" else bucket_labels(self.buckets)[:1]

    def operator(self) -> StreamOperator:
        """Return the operator, which each process binds once."""
        operator = _operators.pop(self.name, None) or operator_of(self.plan, *self.schemas)
        _operators[self.name] = operator
        if len(_operators) > _MAX_OPERATORS:
            del _operators[next(iter(_operators))]  # the least recently used
        return operator
