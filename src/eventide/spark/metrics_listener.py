"""Metrics of running queries: a listener for Spark, and counters and gauges for Prometheus.

They are read from the progress that Spark reports for each batch, so they cover every query with a pipeline in it.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from eventide.errors import PlanError
from eventide.spark.metrics import BatchMetrics, metrics_in_progress

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryListener


OnMetrics = Callable[[str, BatchMetrics], Any]

# With state in the driver, metrics are computed in this process, so Spark cannot observe them.
_published: dict[str, deque[tuple[int, Sequence[BatchMetrics]]]] = {}


def publish(query: str, metrics: Sequence[BatchMetrics]) -> None:
    """Store the metrics of a batch for listeners, which are called when Spark has committed the batch."""
    if metrics:
        _published.setdefault(query, deque(maxlen=16)).append((metrics[0].batch, metrics))


def published_in(progress: Mapping[str, Any]) -> Sequence[BatchMetrics]:
    """Return the metrics that the driver has published for the batch of a progress report."""
    batches = dict(_published.get(progress["id"], ()))
    return batches.get(progress["batchId"], ())


_COUNTERS = (
    *("rows", "kept", "late", "refined", "unemitted", "retractions", "written", "missing_files"),
    *("forgotten_origins", "forgotten_keys"),
)
_GAUGES = ("open_windows", "in_flight", "pages", "state_bytes", "cache_hits", "origins", "gaps")


def listen(spark: SparkSession, tell: OnMetrics) -> StreamingQueryListener:
    """Call ``tell(query, metrics)`` for every batch of every query, once for each operator in it.

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
            for operator in metrics_in_progress(progress) or published_in(progress):
                tell(progress.get("name") or progress["id"], operator)

        def onQueryIdle(self, event: Any) -> None:  # noqa: N802
            """Do nothing."""

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
            """Do nothing."""

    listener = Listener()
    spark.streams.addListener(listener)
    return listener


class PrometheusMetrics:
    """Counters and gauges of all queries, labelled by query and by operator (its depth in a chain).

    ``listen(spark, PrometheusMetrics())`` fills them; serve them with ``prometheus_client.start_http_server``.

    >>> from prometheus_client import CollectorRegistry
    >>> metrics = PrometheusMetrics(registry := CollectorRegistry())
    >>> from eventide.time import as_datetime
    >>> at, watermark = as_datetime(5_000_000), as_datetime(2_000_000)
    >>> metrics("orders", BatchMetrics(batch=0, depth=0, at=at, rows=3, kept=3, watermark=watermark))
    >>> registry.get_sample_value("eventide_lag_seconds", {"query": "orders", "operator": "0"})
    3.0
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        try:
            import prometheus_client as prometheus
        except ImportError as cause:
            raise PlanError(
                "Prometheus metrics need the package prometheus-client. Use: pip install 'pyspark-eventide[prometheus]'"
            ) from cause
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
        self._idle = gauge("idle_origins", "Origins that are idle")

    def __call__(self, query: str, metrics: BatchMetrics) -> None:
        """Record a batch."""
        labels = (query, str(metrics.depth))
        for name, counter in self._counters.items():
            counter.labels(*labels).inc(getattr(metrics, name))
        for name, gauge in self._gauges.items():
            gauge.labels(*labels).set(getattr(metrics, name))
        for reason, number in metrics.dead.items():
            self._dead.labels(*labels, reason).inc(number)
        for timing, number in metrics.panes.items():
            self._panes.labels(*labels, timing).inc(number)
        self._idle.labels(*labels).set(len(metrics.idle_origins))
        if metrics.watermark is not None and metrics.lag is not None:
            self._watermark.labels(*labels, str(metrics.watermark_key)).set(metrics.watermark.timestamp())
            self._lag.labels(*labels).set(metrics.lag.total_seconds())
