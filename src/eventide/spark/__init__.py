"""The Spark host: pipelines on Structured Streaming."""

from eventide.spark.inspecting import inspect
from eventide.spark.listening import PrometheusMetrics, listen
from eventide.spark.metrics import BatchMetrics
from eventide.spark.query import Query
from eventide.spark.running import run
from eventide.spark.scanning import scan_parquet
from eventide.spark.session import configure, session

__all__ = [
    "BatchMetrics",
    "PrometheusMetrics",
    "Query",
    "configure",
    "inspect",
    "listen",
    "run",
    "scan_parquet",
    "session",
]
