"""What processes the batches of a query: this process, or a process of the server of Spark Connect."""

from __future__ import annotations

import logging
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

_log = logging.getLogger("eventide")
_started: dict[str, RunOutputs] = {}  # queries that run in this process, by Spark's id

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
        query = writer.start()
        _close_replaced(str(query.id), outputs)
        return query

    fail = partial(history.fail, spark=spark)
    return QueryBatches(outputs.guarded(write_batch), start, outputs.history, fail, outputs.close)


def _close_replaced(query: str, outputs: RunOutputs) -> None:
    """Close the outputs of the run that this start has replaced: Spark stops it, and no batch of it follows."""
    older, _started[query] = _started.get(query), outputs
    outputs.when_closed(partial(_forget, query, outputs))
    if older is not None and older is not outputs:
        try:
            older.close(successor=outputs)
        except Exception:  # of a sink; the new run has started
            _log.warning("A sink of the replaced query %s could not be closed", query, exc_info=True)


def _forget(query: str, outputs: RunOutputs) -> None:
    if _started.get(query) is outputs:
        del _started[query]
