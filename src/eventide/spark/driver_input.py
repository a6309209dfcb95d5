"""How the rows of a micro-batch reach the driver: as rows, as stamps of tasks, or in pieces.

Tables next to streams are read in the first batch, and end with it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Protocol

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from eventide._jvm import arrow_batches
from eventide.errors import DataError
from eventide.operators.operator import Stamp
from eventide.plan.plan import spans_bundles
from eventide.spark import shuffle_pages as page
from eventide.spark.batch_size import SizeEstimate
from eventide.spark.buckets import spark_settings, task_slots
from eventide.spark.control import marks_of
from eventide.spark.dataflow import SparkInput
from eventide.spark.scan import Scan
from eventide.spark.shuffle_pages import Stage, this_task
from eventide.spark.source_log import BatchLog
from eventide.spark.stamp import StampBatches, group_batches, pages_to_batch, stamp_raw_rows, stamp_to_pages
from eventide.spark.types import from_spark
from eventide.state.operator_state import State
from eventide.watermarks import OperatorTracker
from eventide.watermarks.generators import Noted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PIECE = 64 << 20  # bytes of rows that are stamped together: what the driver holds in addition to cells
_LARGE = 64 << 20  # bytes in memory above which tasks stamp the rows
_PROBES = 16  # tasks that try to import Eventide, so that several executors are asked
_RESULT_LIMIT = "spark.driver.maxResultSize"
_EDGE = "edge"
_NOTE = "note"

_log = logging.getLogger("eventide")


@dataclass(frozen=True)
class Collected:
    """A batch in the driver: stamps in row order, and JSON messages of the streams that a watermark follows."""

    stamps: Sequence[Stamp]
    notes: Sequence[str] = ()
    size: int = 0  # bytes of the rows in memory; 0: not known


class BatchReader(Protocol):
    """Brings the rows of a batch to the driver."""

    def collect(self, batch: DataFrame, log: BatchLog, watermark: int) -> Collected:
        """Read a batch of the query into the driver."""
        ...


class DriverInput(BatchReader, Protocol):
    """How rows travel from the sources to the driver."""

    @property
    def transport(self) -> str:
        """How rows travel, for ``explain()`` and the log."""
        ...

    @property
    def columns(self) -> int:
        """How many columns of the sources travel."""
        ...

    def dataframe(self) -> DataFrame:
        """Return the streaming DataFrame that the query reads."""
        ...


class RowInput:
    """Rows as Arrow, with the columns that the plan reads. No Python worker takes part.

    A batch that is large, or may be, is stamped by tasks instead: the driver then holds cells, not rows.
    """

    def __init__(self, stage: Stage, inputs: Sequence[SparkInput]) -> None:
        self._stage = stage
        self._inputs = inputs
        self._marked = any(isinstance(edge.watermark.generator, Noted) for edge in stage.plan.edges)
        self.reader = BatchRows(stage, plain=len(inputs) == 1 and not self._marked)

    @property
    def transport(self) -> str:
        """How rows travel. Workers stamp nothing for calls of the driver, which take whole rows."""
        large = "rows in pieces" if spans_bundles(self._stage.plan) else _stamps(self._stage)
        return f"rows up to {_LARGE >> 20} MB, then {large}"

    @property
    def columns(self) -> int:
        """How many columns of the sources travel."""
        return self.reader.columns

    def dataframe(self) -> DataFrame:
        """Return the rows of all inputs. Columns are named by position, because their names may contain dots."""
        from pyspark.sql import functions as F  # noqa: N812

        parts = []
        for edge, input in enumerate(self._inputs):
            if not input.streaming:  # TableInputs reads it
                continue
            quoted = [f"`{name.replace('`', '``')}`" for name in input.schema]
            columns = [F.col(name).alias(f"e{edge}c{place}") for place, name in enumerate(quoted)]
            tag = [] if self.reader.plain else [F.lit(edge).cast("byte").alias(_EDGE)]
            assert not isinstance(input.rows, Scan)  # DriverScan reads those
            parts.append(input.rows.select(*tag, *columns))
        for marks in marks_of(self._inputs[0].spark, self._stage) if self._marked else []:
            parts.append(marks.select(F.lit(-1).cast("byte").alias(_EDGE), F.col("detail").alias(_NOTE)))
        return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts)

    def collect(self, batch: DataFrame, log: BatchLog, watermark: int) -> Collected:
        """Collect rows and stamp them here, or let tasks stamp them."""
        return self.reader.collect(batch, log, watermark)


class BatchRows:
    """Reads the batches of a ``RowInput``. It has no DataFrame, so it can be sent to another process."""

    def __init__(self, stage: Stage, *, plain: bool) -> None:
        """``plain``: there is a single input, so that rows do not name theirs."""
        self._stage = stage
        self.plain = plain
        self._size = SizeEstimate(stage.schemas)
        # Whether workers stamp large batches; None: not known yet. For calls of the driver they would send whole rows.
        self._workers_stamp: bool | None = False if spans_bundles(stage.plan) else None

    @property
    def columns(self) -> int:
        """How many columns the rows have."""
        return self._size.columns

    def collect(self, batch: DataFrame, log: BatchLog, watermark: int) -> Collected:
        """Collect rows and stamp them here, or let tasks stamp them."""
        expected = self._size.of(log)
        if expected is None or expected > _LARGE:
            collected = self._collect_large(batch, log.time, watermark)
        else:
            collected = self._collect_rows(batch, log.time, watermark)
        self._size.learn(log, collected.size)
        return collected

    def _collect_rows(self, batch: DataFrame, now: int, watermark: int) -> Collected:
        """Collect all rows at once. If they are too many, nothing was processed yet."""
        try:
            table = batch.toArrow()
        except Exception as failure:
            if not _exceeds_limit(failure):
                raise
            return self._collect_large(batch, now, watermark)
        return self._stamped([table], now, watermark)

    def _stamped(self, pieces: Iterable[pa.Table], now: int, watermark: int) -> Collected:
        """Stamp rows here. Only the stamp of a piece stays in memory."""
        operator = self._stage.operator()
        stamps, notes, size = [], [], 0
        for piece in pieces:
            size += piece.nbytes if piece.num_rows else 0
            frames, messages = split_inputs(piece, self._stage.schemas, plain=self.plain)
            stamps += [operator.stamp(rows, now, watermark, edge) for edge, rows in frames]
            notes += messages
        return Collected(stamps, notes, size)

    def _collect_large(self, batch: DataFrame, now: int, watermark: int) -> Collected:
        """Let tasks stamp the rows, or bring them here in pieces if Python workers lack Eventide."""
        if self._workers_stamp is None:
            self._workers_stamp = workers_have_eventide(batch.sparkSession)
            if not self._workers_stamp:
                _log.warning(
                    "The Python workers cannot import Eventide, so the rows of large batches are sent to the driver in "
                    "pieces, partition by partition. Install pyspark-eventide on the workers to let them aggregate."
                )
        if self._workers_stamp:
            pages = batch.mapInArrow(stamp_inputs(self._stage, now, watermark, plain=self.plain), page.SCHEMA)
            return read_pages(collect_pages(pages), self._stage, now, watermark)
        return self._stamped(row_pieces(batch), now, watermark)


def split_inputs(
    table: pa.Table, schemas: Sequence[Mapping[str, pl.DataType]], *, plain: bool
) -> tuple[list[tuple[int, pl.DataFrame]], list[str]]:
    """Split a batch into the rows of each input, and the messages for watermarks."""
    frames = []
    for edge, schema in enumerate(schemas):
        rows = table if plain else table.filter(pc.equal(table.column(_EDGE), edge))
        if rows.num_rows:
            named = rows.select([f"e{edge}c{place}" for place in range(len(schema))]).rename_columns(list(schema))
            frames.append((edge, from_spark(named.to_batches(), schema)))
    notes = table.column(_NOTE).drop_null().to_pylist() if _NOTE in table.column_names else []
    return frames, notes


def stamp_inputs(stage: Stage, now: int, watermark: int, *, plain: bool) -> StampBatches:
    """Return the function that stamps the rows of all inputs in a task, behind the watermark of the last batch."""

    def stamp(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = this_task()
        for number, chunk in enumerate(group_batches(batches)):
            sequence = page.sequence(task.number, number)
            frames, notes = split_inputs(pa.Table.from_batches(chunk), stage.schemas, plain=plain)
            size = sum(records.nbytes for records in chunk)
            pages = [page.ShufflePage(0, page.SIZE, sequence, now, detail=str(size))]
            pages += [page.ShufflePage(0, page.CONTROL, sequence, now, detail=note) for note in notes]
            for edge, rows in frames:
                pages += stamp_to_pages(stage, rows, now, sequence, watermark, edge)
            yield pages_to_batch(pages)

    return stamp


def collect_pages(pages: DataFrame) -> list[dict[str, Any]]:
    """Collect pages in the order of the tasks that wrote them."""
    batches = collect_batches(pages.select("kind", "sequence", "body", "detail"))
    rows: list[dict[str, Any]] = [row for batch in batches for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: row["sequence"])


def collect_batches(rows: DataFrame) -> list[pa.RecordBatch]:
    """Collect a DataFrame in one job, or partition by partition if Spark's limit for the results of a job is exceeded.

    A batch that fails at that limit would fail again at every restart.
    """
    try:
        batches: list[pa.RecordBatch] = rows.toArrow().to_batches()
    except Exception as failure:
        if not _exceeds_limit(failure):
            raise
        return list(partition_batches(rows))
    return batches


def partition_batches(rows: DataFrame) -> Iterator[pa.RecordBatch]:
    """Yield a DataFrame partition by partition. Each partition is a separate job."""
    try:
        yield from arrow_batches(rows)
    except Exception as failure:
        if not _exceeds_limit(failure):
            raise
        limit = spark_settings(rows.sparkSession).get(_RESULT_LIMIT, "1g")
        raise DataError(
            f"One partition of a batch is larger than {_RESULT_LIMIT} ({limit}), so the driver cannot collect it. "
            "Raise the setting: the batch is repeated with the same offsets. Later batches can be smaller, for example "
            "with maxFilesPerTrigger or maxOffsetsPerTrigger."
        ) from failure


def _exceeds_limit(failure: Exception) -> bool:
    """Return whether Spark has stopped a job because its results are too large together."""
    return _RESULT_LIMIT.rpartition(".")[2] in str(failure)


def read_pages(pages: Sequence[Mapping[str, Any]], stage: Stage, now: int, watermark: int) -> Collected:
    """Read stamps and messages from pages. Rows of a task that did not learn the watermark are stamped here."""
    stamps, notes, size = [], [], 0
    for row in pages:
        match row["kind"]:
            case page.STAMP:
                stamps.append(page.stamp_from_bytes(row["body"]))
            case page.ROWS:
                stamps.append(stamp_raw_rows(stage, row["body"], now, watermark))
            case page.CONTROL:
                notes.append(row["detail"])
            case page.SIZE:
                size += int(row["detail"])
            case kind:
                raise DataError(
                    f"A task sent a page of the kind {kind!r}, which the driver cannot process. Install the same "
                    "version of pyspark-eventide on the workers and on the driver."
                )
    return Collected(stamps, notes, size)


class StampInput:
    """Stamps: the tasks that read a source aggregate its rows, and only cells travel."""

    def __init__(self, stage: Stage, inputs: Sequence[SparkInput]) -> None:
        self._stage = stage
        self._inputs = inputs

    @property
    def transport(self) -> str:
        """How rows travel."""
        return _stamps(self._stage)

    @property
    def columns(self) -> int:
        """How many columns of the sources are read."""
        return sum(len(input.schema) for input in self._inputs)

    def dataframe(self) -> DataFrame:
        """Return the stamps of all inputs as pages."""
        pages = [input.stamped(self._stage, edge) for edge, input in enumerate(self._inputs) if input.streaming]
        pages += marks_of(self._inputs[0].spark, self._stage)
        return reduce(lambda left, right: left.union(right), pages)

    def collect(self, batch: DataFrame, log: BatchLog, watermark: int) -> Collected:
        """Collect the pages. The plan is that of all batches, so tasks get the watermark as a property."""
        page.set_task_properties(batch.sparkSession, now=log.time, watermark=watermark)
        return read_pages(collect_pages(batch), self._stage, log.time, watermark)


def _stamps(stage: Stage) -> str:
    """Return what stamps are for a plan: row windows, joins and processors need all rows, aggregates only cells."""
    joins = getattr(stage.plan, "sides", None) is not None  # the cells of a window join are lists of its rows
    return "stamps with all rows" if joins or not stage.operator().judges_when_stamping else "stamps"


class TableInputs:
    """The inputs of a query that do not stream. Spark cannot read them in a streaming plan, so the driver does."""

    def __init__(self, stage: Stage, inputs: Sequence[SparkInput]) -> None:
        self._stage = stage
        self._tables = {edge: input for edge, input in enumerate(inputs) if not input.streaming}

    def collect(self, state: State, now: int) -> Collected:
        """Return the rows of tables that have not been read, and the end of each; nothing after the first batch."""
        if not self._tables:
            return Collected(())
        assert isinstance(state.tracker, OperatorTracker)
        stamps, notes, operator = [], [], self._stage.operator()
        for edge, table in self._tables.items():
            name = self._stage.plan.edges[edge].name
            if name in state.tracker.ended_inputs:
                continue
            assert not isinstance(table.rows, Scan)
            columns = [f"`{column.replace('`', '``')}`" for column in table.schema]
            rows = from_spark(collect_batches(table.rows.select(*columns)), table.schema)
            stamps.append(operator.stamp(rows, now, state.watermark, edge))
            notes.append(json.dumps({"do": "end", "input": name}))
        return Collected(stamps, notes)


def workers_have_eventide(spark: SparkSession) -> bool:
    """Return whether Python workers can import Eventide. A worker that cannot be started cannot.

    The probe is pickled by value and refers to nothing of Eventide, so that any worker can run it.
    """

    def probe(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow

        try:
            import eventide.spark.stamp  # noqa: F401

            installed = True
        except ImportError:
            installed = False
        for batch in batches:
            yield pyarrow.RecordBatch.from_pydict({"installed": [installed] * batch.num_rows})

    tasks = min(task_slots(spark), _PROBES)
    try:
        answers = spark.range(0, tasks, 1, tasks).mapInArrow(probe, "installed boolean").collect()
    except Exception:  # of Spark, for any reason that keeps its workers from starting
        return False
    return all(answer["installed"] for answer in answers)


def row_pieces(batch: DataFrame, size: int = PIECE) -> Iterator[pa.Table]:
    """Yield the rows of a batch as tables of about ``size`` bytes, in their order.

    Each partition is a separate job, so one partition is in the memory of the JVM, and one piece in that of Python.
    """
    pending: list[pa.RecordBatch] = []
    pending_bytes = 0
    for records in partition_batches(batch):
        pending.append(records)
        pending_bytes += records.nbytes
        if pending_bytes >= size:
            yield pa.Table.from_batches(pending)
            pending, pending_bytes = [], 0
    if pending:
        yield pa.Table.from_batches(pending)
