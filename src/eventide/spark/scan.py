"""What is read and stamped in the same worker, so that its rows never cross the JVM.

Spark plans which batch has which pieces, and logs it, as for any source; a piece is a row that names it. A task gets
the names of its pieces, reads them, and sends on what the stamp makes of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl
import pyarrow as pa

from eventide.errors import spark as errors
from eventide.spark import page
from eventide.spark.settling import settle
from eventide.spark.stage import Stage
from eventide.spark.stamping import NOW, as_batch, letter_pages, stamped_pages, watermark_known
from eventide.spark.tasks import this_task

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from eventide.plan.pipeline import Pipeline
    from eventide.spark.stamping import StampBatches

    Read = Callable[[dict[str, Any], Mapping[str, pl.DataType]], Iterator[pl.DataFrame | "Unreadable"]]


@dataclass(frozen=True)
class Unreadable:
    """Rows of a piece that cannot be read: which ones, and why."""

    what: str
    why: str

    @property
    def message(self) -> str:
        """What the dead letter says."""
        return f"{self.what} cannot be read: {self.why}"


@dataclass(frozen=True)
class Scan:
    """A source that is read by the stamp itself. ``scan.transform(pipeline)`` gives panes; ``ev.run`` takes it, too."""

    schema: StructType
    spark: SparkSession

    isStreaming = True  # noqa: N815  # as a DataFrame says it
    keeps_unreadable: ClassVar[bool] = False
    """Whether a piece that cannot be read becomes a dead letter; otherwise it stops the query."""

    @property
    def sparkSession(self) -> SparkSession:  # noqa: N802  # as a DataFrame says it
        """The session that it runs in."""
        return self.spark

    def transform(self, pipeline: Pipeline) -> DataFrame:
        """The panes of a pipeline over it."""
        return pipeline(self)

    def pieces(self) -> DataFrame:
        """A row for each piece that is to be read, with the batch's time as ``NOW``."""
        raise NotImplementedError

    def reading(self) -> Read:
        """What reads a piece (a row of ``pieces``), in the columns that are asked for; it is shipped to the tasks."""
        raise NotImplementedError


def stamp_pieces(stage: Stage, edge: int, read: Read, *, keeps_unreadable: bool = False) -> StampBatches:
    """Names of pieces to pages."""

    def stamped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        task = this_task()
        was = watermark_known(stage, task)
        number = 0
        for piece in (one for batch in batches for one in batch.to_pylist()):
            for rows in read(piece, stage.schemas[edge]):
                sequence = page.sequence(task.number, number)
                number += 1
                if not isinstance(rows, Unreadable):
                    yield as_batch(stamped_pages(stage, rows, piece[NOW], sequence, was, edge))
                elif keeps_unreadable:
                    yield as_batch(letter_pages(stage, rows.message, piece[NOW], sequence, edge))
                else:
                    raise errors.bad_file(rows.what, task.batch, rows.why)

    return stamped
