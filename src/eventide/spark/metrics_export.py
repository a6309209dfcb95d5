"""Metrics and traces for monitoring systems: Prometheus and OpenTelemetry, with the same names.

``INSTRUMENTS`` lists every metric once. An exporter creates the instruments and records the samples of each batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import time_ns
from typing import TYPE_CHECKING, Any, Literal

from eventide.errors import PlanError
from eventide.spark.metrics import BatchMetrics

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider
    from prometheus_client import CollectorRegistry

LABELS = ("query", "operator")
"""The labels of every metric. ``operator`` is the position of the pipeline in a chain."""

# The order of the phases of a batch: those of Spark, and within addBatch those of state in the driver. Only their
# durations are reported.
_PHASES = ("latestOffset", "walCommit", "getBatch", "queryPlanning", "addBatch", "commitBatch", "commitOffsets")
_STEPS = ("read", "compute", "deliver")


@dataclass(frozen=True)
class Instrument:
    """A metric: a counter, which only grows, or a gauge, which holds the value of the last batch."""

    kind: Literal["counter", "gauge"]
    text: str
    label: str | None = None  # in addition to LABELS


INSTRUMENTS = {
    "batches": Instrument("counter", "Batches"),
    "batch_seconds": Instrument("counter", "Seconds spent in batches"),
    "rows": Instrument("counter", "Rows read. Each one is kept, late or dead"),
    "kept": Instrument("counter", "Rows in windows, in a join or with a processor"),
    "late": Instrument("counter", "Rows whose windows have all expired"),
    "dead": Instrument("counter", "Dead letters", "reason"),
    "refined": Instrument("counter", "Late rows that corrected a result within the allowed lateness"),
    "unemitted": Instrument("counter", "Rows that arrived after their trigger had finished"),
    "panes": Instrument("counter", "Panes", "timing"),
    "retractions": Instrument("counter", "Retracted panes"),
    "written": Instrument("counter", "Bytes of state that were written"),
    "missing_files": Instrument("counter", "Source files that were deleted before a batch was repeated"),
    "forgotten_origins": Instrument("counter", "Origins that were idle for forget_after"),
    "forgotten_keys": Instrument("counter", "Keys that were idle for forget_after"),
    "open_windows": Instrument("gauge", "Open windows"),
    "in_flight": Instrument("gauge", "Rows that wait for an asynchronous call"),
    "pages": Instrument("gauge", "Pages of state"),
    "state_bytes": Instrument("gauge", "Bytes of state"),
    "cache_hits": Instrument("gauge", "Buckets whose state was cached in the last batch"),
    "origins": Instrument("gauge", "Known origins"),
    "idle_origins": Instrument("gauge", "Origins that are idle"),
    "gaps": Instrument("gauge", "Runs of missing sequence numbers"),
    "watermark_seconds": Instrument(
        "gauge", "The watermark, in seconds since the epoch; +Inf once drained", "watermark_key"
    ),
    "lag_seconds": Instrument("gauge", "Time from the watermark to the time of the last batch"),
}

_LABELLED = ("dead", "panes")
_DERIVED = ("batches", "batch_seconds", "idle_origins", "watermark_seconds", "lag_seconds")
_FIELDS = [name for name in INSTRUMENTS if name not in (*_LABELLED, *_DERIVED)]


@dataclass(frozen=True)
class Sample:
    """A value of one instrument."""

    name: str
    value: float
    label: str | None = None  # the value of the instrument's label


def samples(metrics: BatchMetrics) -> Iterator[Sample]:
    """Return what a batch adds to counters, and the new values of gauges.

    >>> from eventide.time import as_datetime
    >>> batch = BatchMetrics(batch=0, depth=0, at=as_datetime(0), rows=2, kept=1, dead={"future": 1}, seconds=0.5)
    >>> [sample for sample in samples(batch) if sample.value][:3]
    [Sample(name='batches', value=1, label=None), Sample(name='batch_seconds', value=0.5, label=None),
    Sample(name='rows', value=2, label=None)]
    """
    yield Sample("batches", 1)
    yield Sample("batch_seconds", metrics.seconds)
    for name in _FIELDS:
        yield Sample(name, getattr(metrics, name))
    for name in _LABELLED:
        for label, number in getattr(metrics, name).items():
            yield Sample(name, number, label)
    yield Sample("idle_origins", metrics.idle)
    if metrics.drained:
        yield Sample("watermark_seconds", math.inf, str(metrics.watermark_key))
    if metrics.watermark is not None and metrics.lag is not None:
        yield Sample("watermark_seconds", metrics.watermark.timestamp(), str(metrics.watermark_key))
        yield Sample("lag_seconds", metrics.lag.total_seconds())


class PrometheusMetrics:
    """Counters and gauges of all queries for Prometheus, labelled by query and operator.

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
        kinds: dict[str, Any] = {"counter": prometheus.Counter, "gauge": prometheus.Gauge}
        self._instruments: dict[str, Any] = {
            name: kinds[instrument.kind](
                f"eventide_{name}",
                instrument.text,
                (*LABELS, instrument.label) if instrument.label else LABELS,
                registry=registry or prometheus.REGISTRY,
            )
            for name, instrument in INSTRUMENTS.items()
        }

    def __call__(self, query: str, metrics: BatchMetrics) -> None:
        """Record a batch."""
        for sample in samples(metrics):
            labels = (query, str(metrics.depth)) if sample.label is None else (query, str(metrics.depth), sample.label)
            instrument = self._instruments[sample.name].labels(*labels)
            if INSTRUMENTS[sample.name].kind == "counter":
                instrument.inc(sample.value)
            else:
                instrument.set(sample.value)


class OpenTelemetryMetrics:
    """Counters, gauges and traces of all queries for OpenTelemetry, with the names that Prometheus has.

    ``listen(spark, OpenTelemetryMetrics())`` fills them. Without arguments, the global providers are used.

    A batch is a span with a child for each phase that Spark reports, and ``addBatch`` has the steps of state in the
    driver. The span ends when Spark reports the batch. Durations are measured; the start of a phase is the end of the
    one before it.

    >>> from opentelemetry.sdk.metrics import MeterProvider
    >>> from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    >>> metrics = OpenTelemetryMetrics(MeterProvider([reader := InMemoryMetricReader()]))
    >>> from eventide.time import as_datetime
    >>> metrics("orders", BatchMetrics(batch=0, depth=0, at=as_datetime(5_000_000), rows=3, kept=3))
    >>> exported = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
    >>> [(metric.name, metric.data.data_points[0].value) for metric in exported][:3]
    [('eventide_batches', 1), ('eventide_batch_seconds', 0.0), ('eventide_rows', 3)]
    """

    def __init__(
        self, meter_provider: MeterProvider | None = None, tracer_provider: TracerProvider | None = None
    ) -> None:
        try:
            from opentelemetry import metrics, trace
        except ImportError as cause:
            raise PlanError(
                "OpenTelemetry needs the package opentelemetry-sdk. Use: pip install 'pyspark-eventide[otel]'"
            ) from cause
        meter = metrics.get_meter("eventide", meter_provider=meter_provider)
        self._trace = trace
        self._tracer = trace.get_tracer("eventide", tracer_provider=tracer_provider)
        create: dict[str, Any] = {"counter": meter.create_counter, "gauge": meter.create_gauge}
        self._instruments: dict[str, Any] = {
            name: create[instrument.kind](f"eventide_{name}", description=instrument.text)
            for name, instrument in INSTRUMENTS.items()
        }

    def __call__(self, query: str, metrics: BatchMetrics) -> None:
        """Record a batch."""
        attributes = {"query": query, "operator": str(metrics.depth)}
        for sample in samples(metrics):
            instrument = INSTRUMENTS[sample.name]
            labels = attributes if instrument.label is None else {**attributes, instrument.label: str(sample.label)}
            if instrument.kind == "counter":
                self._instruments[sample.name].add(sample.value, labels)
            else:
                self._instruments[sample.name].set(sample.value, labels)
        self._add_span(attributes, metrics)

    def _add_span(self, attributes: dict[str, str], metrics: BatchMetrics) -> None:
        end = time_ns()
        start = end - int(metrics.seconds * 1e9)
        counts = {
            "batch": metrics.batch,
            "rows": metrics.rows,
            "late": metrics.late,
            "dead": sum(metrics.dead.values()),
        }
        root = self._trace.set_span_in_context(self._trace.INVALID_SPAN)  # a batch has no parent
        span = self._tracer.start_span("eventide.batch", root, attributes={**attributes, **counts}, start_time=start)
        for phase, child, begin in self._add_phases(span, _PHASES, metrics.phases, start):
            if phase == "addBatch":
                list(self._add_phases(child, _STEPS, metrics.phases, begin))
        span.end(end)

    def _add_phases(
        self, parent: Span, names: Sequence[str], seconds: Mapping[str, float], start: int
    ) -> Iterator[tuple[str, Span, int]]:
        """Add a child for each phase, one after the other. Yield its name, the child and its start."""
        context = self._trace.set_span_in_context(parent)
        for name in names:
            if name in seconds:
                child = self._tracer.start_span(f"eventide.batch.{name}", context, start_time=start)
                begin, start = start, start + int(seconds[name] * 1e9)
                child.end(start)
                yield name, child, begin
