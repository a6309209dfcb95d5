"""Metrics of running queries for others to see: a listener for Spark, and gauges for Prometheus.

They are found in the progress that Spark reports of each batch, so any query with a pipeline in it is seen, whoever
started it.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from eventide.errors import spark as errors
from eventide.spark.metrics import BatchMetrics, observed_in

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryListener

OnMetrics = Callable[[str, BatchMetrics], Any]

# Queries whose state is in the driver compute their metrics here, not in Spark's plan, so Spark cannot observe them.
_published: dict[str, deque[tuple[int, Sequence[BatchMetrics]]]] = {}


def publish(query: str, metrics: Sequence[BatchMetrics]) -> None:
    """Make the metrics of a batch known to listeners. They are called when Spark has committed the batch."""
    if metrics:
        _published.setdefault(query, deque(maxlen=16)).append((metrics[0].batch, metrics))


def published_in(progress: Mapping[str, Any]) -> Sequence[BatchMetrics]:
    """Return what the driver has published of the batch that Spark reports."""
    batches = dict(_published.get(progress["id"], ()))
    return batches.get(progress["batchId"], ())


_COUNTERS = ("rows", "kept", "late", "refined", "unemitted", "retractions", "written", "missing_files")
_GAUGES = ("open_windows", "in_flight", "pages", "state_bytes", "cache_hits", "origins", "gaps")


def listen(spark: SparkSession, tell: OnMetrics) -> StreamingQueryListener:
    """Call ``tell(query, metrics)`` for every batch of every query, once for each operator in it.

    ``query`` is the name of the query, or its id. ``spark.streams.removeListener`` ends it.

    >>> listener = listen(spark, lambda query, one: print(query, one.rows, one.watermark))  # doctest: +SKIP
    """
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:  # noqa: N802
            """Nothing is known yet."""

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            """A batch has ended."""
            progress = json.loads(event.progress.json)
            for operator in observed_in(progress) or published_in(progress):
                tell(progress.get("name") or progress["id"], operator)

        def onQueryIdle(self, event: Any) -> None:  # noqa: N802
            """Nothing has changed."""

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
            """Its last batch has been told."""

    listener = Listener()
    spark.streams.addListener(listener)
    return listener


class PrometheusMetrics:
    """Counters and gauges of all queries, labelled by query and by operator (its depth in a chain).

    ``listen(spark, PrometheusMetrics())`` fills them; serve them with ``prometheus_client.start_http_server``.

    >>> from prometheus_client import CollectorRegistry
    >>> metrics = PrometheusMetrics(registry := CollectorRegistry())
    >>> metrics("orders", BatchMetrics(batch=0, depth=0, at=5_000_000, rows=3, kept=3, watermark=2_000_000))
    >>> registry.get_sample_value("eventide_lag_seconds", {"query": "orders", "operator": "0"})
    3.0
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        try:
            import prometheus_client as prometheus
        except ImportError as cause:
            raise errors.no_prometheus() from cause
        registry = registry or prometheus.REGISTRY
        labels = ("query", "operator")

        def counter(name: str, text: str, *more: str) -> Any:
            return prometheus.Counter(f"eventide_{name}", text, (*labels, *more), registry=registry)

        def gauge(name: str, text: str, *more: str) -> Any:
            return prometheus.Gauge(f"eventide_{name}", text, (*labels, *more), registry=registry)

        self._counters = {name: counter(name, f"Total of {name.replace('_', ' ')}") for name in _COUNTERS}
        self._gauges = {name: gauge(name, f"Last batch: {name.replace('_', ' ')}") for name in _GAUGES}
        self._dead = counter("dead", "Dead letters", "reason")
        self._panes = counter("panes", "Panes", "timing")
        self._watermark = gauge("watermark_seconds", "The watermark, in seconds since the epoch", "watermark_key")
        self._lag = gauge("lag_seconds", "How far the watermark is behind the batch's time")
        self._idle = gauge("idle_origins", "Origins that are not waited for")

    def __call__(self, query: str, one: BatchMetrics) -> None:
        """Take in a batch."""
        where = (query, str(one.depth))
        for name, counter in self._counters.items():
            counter.labels(*where).inc(getattr(one, name))
        for name, gauge in self._gauges.items():
            gauge.labels(*where).set(getattr(one, name))
        for reason, number in one.dead.items():
            self._dead.labels(*where, reason).inc(number)
        for timing, number in one.panes.items():
            self._panes.labels(*where, timing).inc(number)
        self._idle.labels(*where).set(len(one.idle_origins))
        if one.watermark is not None and one.lag is not None:
            self._watermark.labels(*where, str(one.watermark_key)).set(one.watermark / 1e6)
            self._lag.labels(*where).set(one.lag.total_seconds())
