"""Eventide: event time for PySpark.

Windows, watermarks, triggers and panes with retractions, for pipelines that lose nothing silently.

>>> import eventide as ev
>>> import polars as pl
>>> per_minute = ev.stream(time="ts", key="shop").window(ev.tumbling("1 minute")).agg(orders=ev.count())
>>> rows = pl.DataFrame({"ts": ["2026-03-01T12:00:05Z", "2026-03-01T12:00:40Z"], "shop": ["kiel", "kiel"]})
>>> per_minute.local(rows).panes["orders"].to_list()
[2]
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eventide import compat, marks, sinks, standalone
    from eventide.aggregates import (
        Accumulator,
        Aggregate,
        MergeAggregate,
        Parts,
        approx_distinct,
        approx_quantile,
        collect_list,
        collect_set,
        collect_sorted,
        composite,
        count,
        count_distinct,
        first,
        fold,
        last,
        max,
        max_by,
        mean,
        median,
        min,
        min_by,
        mode,
        quantile,
        reduce,
        std,
        sum,
        top_n,
        top_n_by_key,
        var,
    )
    from eventide.dashboards import dashboard
    from eventide.errors import DataError, DriverLimitWarning, EventideError, LateRowsWarning, PlanError
    from eventide.plan import (
        Pipeline,
        Stream,
        WindowedStream,
        cogroup,
        ingestion_time,
        join,
        process,
        stream,
        union,
        window_join,
    )
    from eventide.processors import Processor, RowProcessor
    from eventide.spark.inspection import inspect
    from eventide.spark.metrics import BatchMetrics
    from eventide.spark.metrics_export import OpenTelemetryMetrics, PrometheusMetrics
    from eventide.spark.metrics_listener import listen
    from eventide.spark.query import Query
    from eventide.spark.query_outputs import QueryOutputs, outputs
    from eventide.spark.rescale import rescale
    from eventide.spark.scan import scan_parquet, scan_stream
    from eventide.spark.session import configure, spark_session
    from eventide.spark.sources import scan_kafka
    from eventide.streamsql import SqlPipeline, sql
    from eventide.triggers import (
        after_count,
        after_processing_time,
        after_watermark,
        all_of,
        any_of,
        every,
        in_order,
        never,
        on_update,
        or_finally,
        repeatedly,
    )
    from eventide.watermarks import (
        Watermark,
        ascending,
        bounded_delay,
        no_watermark,
        noted,
        processing_time,
        punctuated,
    )
    from eventide.windows import (
        WindowKind,
        calendar,
        cumulate,
        global_window,
        inherit,
        row_sessions,
        rows,
        sessions,
        sliding,
        tumbling,
    )

__version__ = "0.1.0"

__all__ = [
    "Accumulator",
    "Aggregate",
    "BatchMetrics",
    "DataError",
    "DriverLimitWarning",
    "EventideError",
    "LateRowsWarning",
    "MergeAggregate",
    "OpenTelemetryMetrics",
    "Parts",
    "Pipeline",
    "PlanError",
    "Processor",
    "PrometheusMetrics",
    "Query",
    "QueryOutputs",
    "RowProcessor",
    "SqlPipeline",
    "Stream",
    "Watermark",
    "WindowKind",
    "WindowedStream",
    "after_count",
    "after_processing_time",
    "after_watermark",
    "all_of",
    "any_of",
    "approx_distinct",
    "approx_quantile",
    "ascending",
    "bounded_delay",
    "calendar",
    "cogroup",
    "collect_list",
    "collect_set",
    "collect_sorted",
    "compat",
    "composite",
    "configure",
    "count",
    "count_distinct",
    "cumulate",
    "dashboard",
    "every",
    "first",
    "fold",
    "global_window",
    "in_order",
    "ingestion_time",
    "inherit",
    "inspect",
    "join",
    "last",
    "listen",
    "marks",
    "max",
    "max_by",
    "mean",
    "median",
    "min",
    "min_by",
    "mode",
    "never",
    "no_watermark",
    "noted",
    "on_update",
    "or_finally",
    "outputs",
    "process",
    "processing_time",
    "punctuated",
    "quantile",
    "reduce",
    "repeatedly",
    "rescale",
    "row_sessions",
    "rows",
    "scan_kafka",
    "scan_parquet",
    "scan_stream",
    "sessions",
    "sinks",
    "sliding",
    "spark_session",
    "sql",
    "standalone",
    "std",
    "stream",
    "sum",
    "top_n",
    "top_n_by_key",
    "tumbling",
    "union",
    "var",
    "window_join",
]

# Where the names above live. They are imported when they are first used: Spark starts many processes, and most of
# them need little of this package.
_PACKAGES = (
    "aggregates",
    "dashboards",
    "errors",
    "plan",
    "processors",
    "triggers",
    "watermarks",
    "windows",
    "streamsql",
)
_ON_SPARK = {
    "BatchMetrics": "metrics",
    "OpenTelemetryMetrics": "metrics_export",
    "PrometheusMetrics": "metrics_export",
    "Query": "query",
    "configure": "session",
    "inspect": "inspection",
    "listen": "metrics_listener",
    "QueryOutputs": "query_outputs",
    "outputs": "query_outputs",
    "rescale": "rescale",
    "scan_kafka": "sources",
    "scan_parquet": "scan",
    "scan_stream": "scan",
    "spark_session": "session",
}


def __getattr__(name: str) -> object:
    if name in ("compat", "marks", "sinks", "standalone", "testing"):
        return import_module(f"eventide.{name}")
    if name not in __all__:
        raise AttributeError(import_module("eventide._hints").no_attribute("eventide", name, __all__))
    if name in _ON_SPARK:
        home = import_module(f"eventide.spark.{_ON_SPARK[name]}")
    else:
        packages = (import_module(f"eventide.{package}") for package in _PACKAGES)
        home = next(package for package in packages if name in package.__all__)
    value: object = getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
