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
    from eventide import marks, policies, sinks
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
    from eventide.errors import (
        DataError,
        DriverLimitWarning,
        EventideError,
        LateRowsWarning,
        PlanError,
        Refused,
    )
    from eventide.marks.spark.scanning import scan_stream
    from eventide.plan import (
        Pipeline,
        Stream,
        cogroup,
        ingestion_time,
        join,
        process,
        stream,
        union,
        window_join,
    )
    from eventide.processors import Processor, RowProcessor
    from eventide.spark.inspecting import inspect
    from eventide.spark.listening import PrometheusMetrics, listen
    from eventide.spark.metrics import BatchMetrics
    from eventide.spark.move import move
    from eventide.spark.outputs import QueryOutputs, outputs
    from eventide.spark.query import Query
    from eventide.spark.running import run
    from eventide.spark.scanning import scan_parquet
    from eventide.spark.session import configure, spark_session
    from eventide.standalone import JoinWindow, SessionAggregator, SessionJoinWindow, WindowAggregator
    from eventide.streamsql import SqlPipeline, sql, sql_pipeline
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
        range,
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
    "JoinWindow",
    "LateRowsWarning",
    "MergeAggregate",
    "Parts",
    "Pipeline",
    "PlanError",
    "Processor",
    "PrometheusMetrics",
    "Query",
    "QueryOutputs",
    "Refused",
    "RowProcessor",
    "SessionAggregator",
    "SessionJoinWindow",
    "SqlPipeline",
    "Stream",
    "Watermark",
    "WindowAggregator",
    "WindowKind",
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
    "composite",
    "configure",
    "count",
    "count_distinct",
    "cumulate",
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
    "move",
    "never",
    "no_watermark",
    "noted",
    "on_update",
    "or_finally",
    "outputs",
    "policies",
    "process",
    "processing_time",
    "punctuated",
    "quantile",
    "range",
    "reduce",
    "repeatedly",
    "row_sessions",
    "rows",
    "run",
    "scan_parquet",
    "scan_stream",
    "sessions",
    "sinks",
    "sliding",
    "spark_session",
    "sql",
    "sql_pipeline",
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
    "errors",
    "plan",
    "processors",
    "triggers",
    "watermarks",
    "windows",
    "standalone",
    "streamsql",
)
_ON_SPARK = {
    "BatchMetrics": "metrics",
    "PrometheusMetrics": "listening",
    "Query": "query",
    "configure": "session",
    "inspect": "inspecting",
    "listen": "listening",
    "move": "move",
    "QueryOutputs": "outputs",
    "outputs": "outputs",
    "run": "running",
    "scan_parquet": "scanning",
    "spark_session": "session",
}


def __getattr__(name: str) -> object:
    if name == "scan_stream":
        return import_module("eventide.marks.spark.scanning").scan_stream
    if name in ("marks", "policies", "sinks"):
        return import_module(f"eventide.{name}")
    if name not in __all__:
        raise AttributeError(import_module("eventide.hints").no_attribute("eventide", name, __all__))
    if name in _ON_SPARK:
        home = import_module(f"eventide.spark.{_ON_SPARK[name]}")
    else:
        packages = (import_module(f"eventide.{package}") for package in _PACKAGES)
        home = next(package for package in packages if name in package.__all__)
    found: object = getattr(home, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
