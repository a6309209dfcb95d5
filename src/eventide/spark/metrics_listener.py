"""A listener for the metrics of running queries.

They are read from the progress that Spark reports for each batch, so they cover every query with a pipeline in it.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from eventide._hints import with_option_hints
from eventide.spark.metrics import BatchMetrics, metrics_in_progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryListener


OnMetrics = Callable[[str, BatchMetrics], Any]

# With state in the driver, metrics are computed in this process, so Spark cannot observe them.
_published: dict[str, deque[tuple[int, Sequence[BatchMetrics]]]] = {}
_followed: dict[str, Callable[[], None]] = {}  # by query: reads new metrics of a query that runs in another process


def publish(query: str, metrics: Sequence[BatchMetrics]) -> None:
    """Store the metrics of a batch for listeners, which are called when Spark has committed the batch."""
    if metrics:
        _published.setdefault(query, deque(maxlen=16)).append((metrics[0].batch, metrics))


def follow(query: str, refresh: Callable[[], None]) -> None:
    """Call ``refresh`` before the metrics of a query are looked up: another process computes and stores them."""
    _followed[query] = refresh


def published_in(progress: Mapping[str, Any]) -> Sequence[BatchMetrics]:
    """Return the metrics that the driver has published for the batch of a progress report."""
    if (refresh := _followed.get(progress["id"])) is not None:
        refresh()
    batches = dict(_published.get(progress["id"], ()))
    return batches.get(progress["batchId"], ())


def batches_in(progress: Mapping[str, Any]) -> Iterator[BatchMetrics]:
    """Return the metrics of each operator in a progress report, with the duration and the phases of the batch.

    >>> [batch.seconds for batch in batches_in({"id": "a", "batchId": 0, "durationMs": {"triggerExecution": 250}})]
    []
    """
    milliseconds = dict(progress.get("durationMs") or {})
    seconds = milliseconds.pop("triggerExecution", 0) / 1000
    phases = {phase: duration / 1000 for phase, duration in milliseconds.items()}
    for operator in metrics_in_progress(progress) or published_in(progress):
        yield replace(operator, seconds=seconds or operator.seconds, phases={**operator.phases, **phases})


@with_option_hints
def listen(spark: SparkSession, on_metrics: OnMetrics) -> StreamingQueryListener:
    """Call ``on_metrics(query, metrics)`` for every batch of every query, once for each operator in it.

    ``query`` is the name of the query, or its id. ``spark.streams.removeListener`` removes the listener.

    >>> listener = listen(spark, lambda query, metrics: print(query, metrics.rows, metrics.watermark))  # doctest: +SKIP
    """
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:  # noqa: N802
            """Do nothing."""

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            """Report the operators of a batch."""
            progress = json.loads(event.progress.json)
            for operator in batches_in(progress):
                on_metrics(progress.get("name") or progress["id"], operator)

        def onQueryIdle(self, event: Any) -> None:  # noqa: N802
            """Do nothing."""

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
            """Do nothing."""

    listener = Listener()
    spark.streams.addListener(listener)
    return listener
