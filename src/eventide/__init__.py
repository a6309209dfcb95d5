"""Eventide: event time for PySpark.

Windows, watermarks, triggers and panes with retractions, for pipelines that lose nothing silently.

>>> import eventide as ev
>>> import polars as pl
>>> per_minute = ev.stream(time="ts", key="shop").window(ev.tumbling("1 minute")).agg(orders=ev.count())
>>> rows = pl.DataFrame({"ts": ["2026-03-01T12:00:05Z", "2026-03-01T12:00:40Z"], "shop": ["kiel", "kiel"]})
>>> per_minute.local(rows).panes["orders"].to_list()
[2]
"""

from eventide import policies, sinks
from eventide.aggregates import (
    Accumulator,
    Aggregate,
    Parts,
    approx_distinct,
    approx_quantile,
    collect,
    collect_set,
    composite,
    count,
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
    sort,
    std,
    sum,
    top_n,
    top_n_by_key,
    var,
)
from eventide.errors import (
    DataError,
    EventideError,
    PlanError,
)
from eventide.plan import (
    Pipeline,
    Stream,
    ingestion_time,
    stream,
)
from eventide.spark import configure, run, scan_parquet, session
from eventide.triggers import (
    after_count,
    after_processing_time,
    after_watermark,
    all_of,
    any_of,
    each,
    every,
    in_order,
    never,
    or_finally,
    repeatedly,
)
from eventide.watermarks import (
    Watermark,
    ascending,
    clock_lag,
    lag,
    none,
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
    "DataError",
    "EventideError",
    "Parts",
    "Pipeline",
    "PlanError",
    "Stream",
    "Watermark",
    "WindowKind",
    "after_count",
    "after_processing_time",
    "after_watermark",
    "all_of",
    "any_of",
    "approx_distinct",
    "approx_quantile",
    "ascending",
    "calendar",
    "clock_lag",
    "collect",
    "collect_set",
    "composite",
    "configure",
    "count",
    "cumulate",
    "each",
    "every",
    "first",
    "fold",
    "global_window",
    "in_order",
    "ingestion_time",
    "inherit",
    "lag",
    "last",
    "max",
    "max_by",
    "mean",
    "median",
    "min",
    "min_by",
    "mode",
    "never",
    "none",
    "or_finally",
    "policies",
    "punctuated",
    "quantile",
    "reduce",
    "repeatedly",
    "row_sessions",
    "rows",
    "run",
    "scan_parquet",
    "session",
    "sessions",
    "sinks",
    "sliding",
    "sort",
    "std",
    "stream",
    "sum",
    "top_n",
    "top_n_by_key",
    "tumbling",
    "var",
]
