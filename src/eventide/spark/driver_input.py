"""How the rows of a micro-batch reach the driver, where the state is."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Protocol

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from eventide.operators.bundle import Stamp
from eventide.plan.calls import spans_bundles
from eventide.spark import page
from eventide.spark.batch_log import BatchLog
from eventide.spark.control import marks_of
from eventide.spark.feeding import Feed
from eventide.spark.row_pieces import row_pieces, workers_have_eventide
from eventide.spark.stage import Stage
from eventide.spark.stamping import StampBatches, as_batch, gathered, stamped_pages
from eventide.spark.tasks import this_task
from eventide.spark.types import from_spark
from eventide.watermarks.rules import Noted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = logging.getLogger("eventide")

_LARGE = 64 << 20  # bytes on disk, or in memory where that is what is known, above which tasks stamp the rows
_BYTES_PER_VALUE = 32  # of rows in memory; a guess that errs on the large side
_EDGE = "edge"
_NOTE = "note"


@dataclass(frozen=True)
class Collected:
    """A batch in the driver: stamps in their order, and messages of the streams that a watermark follows (JSON)."""

    stamps: Sequence[Stamp]
    notes: Sequence[str] = ()


class DriverInput(Protocol):
    """A way from the sources to the driver."""

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

    def collect(self, batch: DataFrame, log: BatchLog, watermark: int) -> Collected:
        """Bring a batch of that DataFrame to the driver."""
        ...


class RowInput:
    """Rows as Arrow, with the columns that the plan reads. No Python worker takes part.

    A batch that is large, or may be, is stamped by tasks instead: the driver then holds cells, not rows.
    """

    transport = f"rows up to {_LARGE >> 20} MB, then stamps"

    def __init__(self, stage: Stage, feeds: Sequence[Feed]) -> None:
        self._stage = stage
        self._feeds = feeds
        self._marked = any(isinstance(edge.watermark.rule, Noted) for edge in stage.plan.edges)
        self._plain = len(feeds) == 1 and not self._marked
        self._last: int | None = None  # bytes of the last batch, for sources that do not tell
        # Whether workers stamp large batches; None: not known yet. For calls of the driver they would send whole rows.
        self._workers_stamp: bool | None = False if spans_bundles(stage.plan) else None

    @property
    def columns(self) -> int:
        """How many columns of the sources travel."""
        return sum(len(feed.schema) for feed in self._feeds)

    def dataframe(self) -> DataFrame:
        """The rows of all inputs side by side; columns go by their position, because names may contain dots."""
        from pyspark.sql import functions as F  # noqa: N812

        parts = []
        for edge, feed in enumerate(self._feeds):
            if not feed.streaming:  # a table is read by itself
                continue
            quoted = [f"`{name.replace('`', '``')}`" for name in feed.schema]
            columns = [F.col(name).alias(f"e{edge}c{place}") for place, name in enumerate(quoted)]
            tag = [] if self._plain else [F.lit(edge).cast("byte").alias(_EDGE)]
            parts.append(feed.rows.select(*tag, *columns))  # type: ignore[union-attr]
        for marks in marks_of(self._feeds[0].spark, self._stage) if self._marked else []:
            parts.append(marks.select(F.lit(-1).cast("byte").alias(_EDGE), F.col("detail").alias(_NOTE)))
        return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts)

    def collect(self, batch: DataFrame, log: BatchLog, watermark: int) -> Collected:
        """Collect rows and stamp them here, or let tasks stamp them."""
        expected = log.size if log.size is not None else self._last
        if expected is None or expected > _LARGE:
            return self._collect_large(batch, log.time, watermark)
        try:
            table = batch.toArrow()
        except Exception as failure:
            if "maxResultSize" not in str(failure):
                raise
            return self._collect_large(batch, log.time, watermark)  # larger than expected; nothing was processed yet
        self._last = table.nbytes if table.num_rows else self._last
        return self._stamped([table], log.time, watermark)

    def _stamped(self, pieces: Iterable[pa.Table], now: int, watermark: int) -> Collected:
        """Stamp rows here. What a piece leaves behind is its stamp."""
        operator = self._stage.operator()
        stamps, notes = [], []
        for piece in pieces:
            frames, messages = split_inputs(piece, [feed.schema for feed in self._feeds], plain=self._plain)
            stamps += [operator.stamp(rows, now, watermark, edge) for edge, rows in frames]
            notes += messages
        return Collected(stamps, notes)

    def _collect_large(self, batch: DataFrame, now: int, watermark: int) -> Collected:
        """Let tasks stamp the rows, or bring them here in pieces if Python workers lack Eventide."""
        if self._workers_stamp is None:
            self._workers_stamp = workers_have_eventide(batch.sparkSession)
            if not self._workers_stamp:
                _log.warning(
                    "The Python workers cannot import Eventide, so the rows of large batches come to the driver in "
                    "pieces, partition by partition. Install pyspark-eventide on the workers to let them aggregate."
                )
        if self._workers_stamp:
            return self._collect_stamps(batch, now)
        return self._remembered(self._stamped(row_pieces(batch), now, watermark))

    def _collect_stamps(self, batch: DataFrame, now: int) -> Collected:
        pages = batch.mapInArrow(stamp_inputs(self._stage, now, plain=self._plain), page.SCHEMA)
        return self._remembered(read_pages(collect_pages(pages)))

    def _remembered(self, collected: Collected) -> Collected:
        """Remember how large a batch was, by its rows, for the next one whose size is not known."""
        rows = sum(stamp.rows for stamp in collected.stamps)
        self._last = rows * self.columns * _BYTES_PER_VALUE if rows else self._last
        return collected


def split_inputs(
    table: pa.Table, schemas: Sequence[Mapping[str, pl.DataType]], *, plain: bool
) -> tuple[list[tuple[int, pl.DataFrame]], list[str]]:
    """Take the rows of each input apart again, and the messages for watermarks."""
    frames = []
    for edge, schema in enumerate(schemas):
        rows = table if plain else table.filter(pc.equal(table.column(_EDGE), edge))
        if rows.num_rows:
            named = rows.select([f"e{edge}c{place}" for place in range(len(schema))]).rename_columns(list(schema))
            frames.append((edge, from_spark(named.to_batches(), schema)))
    notes = table.column(_NOTE).drop_null().to_pylist() if _NOTE in table.column_names else []
    return frames, notes


def stamp_inputs(stage: Stage, now: int, *, plain: bool) -> StampBatches:
    """Return the function that stamps the rows of all inputs in a task."""

    def stamped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = this_task()
        for chunk, lot in enumerate(gathered(batches)):
            sequence = page.sequence(task.number, chunk)
            frames, notes = split_inputs(pa.Table.from_batches(lot), stage.schemas, plain=plain)
            pages = [
                made
                for edge, rows in frames
                for made in stamped_pages(stage, rows, now, sequence, task.watermark, edge)
            ]
            pages += [page.Page(0, page.CONTROL, sequence, now, detail=note) for note in notes]
            yield as_batch(pages)

    return stamped


def collect_pages(pages: DataFrame) -> list[dict[str, Any]]:
    """Collect pages in the order of the tasks that made them."""
    rows: list[dict[str, Any]] = pages.select("kind", "sequence", "body", "detail").toArrow().to_pylist()
    return sorted(rows, key=lambda row: row["sequence"])


def read_pages(pages: Sequence[Mapping[str, Any]]) -> Collected:
    """Read stamps and messages from pages. Tasks know the watermark, so there are no rows without a stamp."""
    stamps = [page.stamp_from_bytes(row["body"]) for row in pages if row["kind"] == page.STAMP]
    return Collected(stamps, [row["detail"] for row in pages if row["kind"] == page.CONTROL])


class StampInput:
    """Stamps: the tasks that read a source aggregate its rows, and only cells travel."""

    transport = "stamps"

    def __init__(self, stage: Stage, feeds: Sequence[Feed]) -> None:
        self._stage = stage
        self._feeds = feeds

    @property
    def columns(self) -> int:
        """How many columns of the sources are read."""
        return sum(len(feed.schema) for feed in self._feeds)

    def dataframe(self) -> DataFrame:
        """The stamps of all inputs as pages."""
        pages = [feed.stamped(self._stage, edge) for edge, feed in enumerate(self._feeds) if feed.streaming]
        pages += marks_of(self._feeds[0].spark, self._stage)
        return reduce(lambda left, right: left.union(right), pages)

    def collect(self, batch: DataFrame, log: BatchLog, watermark: int) -> Collected:
        """Collect the pages."""
        return read_pages(collect_pages(batch))
