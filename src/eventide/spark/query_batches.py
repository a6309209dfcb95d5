"""What processes the batches of a query: this process, or a process of the server of Spark Connect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from eventide.spark.batch_history import RunHistory
from eventide.spark.control import Control
from eventide.spark.metrics import BatchMetrics
from eventide.spark.sink_delivery import RunOutputs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

WriteBatch = Callable[["DataFrame", int], None]
"""The callback of ``foreachBatch``."""


@dataclass(frozen=True)
class QueryBatches:
    """The batches of a query, and what this process does around them."""

    write: WriteBatch
    start: Callable[[DataStreamWriter], StreamingQuery]
    history: Sequence[BatchMetrics]
    fail: Callable[[Exception], None]  # writes into the history why the query has ended
    close: Callable[[], None]  # when the query has ended


def local_batches(
    write_batch: WriteBatch, outputs: RunOutputs, control: Control, history: RunHistory, spark: SparkSession
) -> QueryBatches:
    """Return the batches of a query that this process runs."""

    def start(writer: DataStreamWriter) -> StreamingQuery:
        control.show_running()
        return writer.start()

    fail = partial(history.fail, spark=spark)
    return QueryBatches(outputs.guarded(write_batch), start, outputs.history, fail, outputs.close)
