"""Eventide: event time for PySpark.

Windows, watermarks, triggers and panes with retractions, for pipelines that lose nothing silently.
"""

from eventide.aggregates import *  # noqa: F403
from eventide.aggregates import __all__ as _aggregates
from eventide.errors import DataError, EventideError, PlanError
from eventide.plan import Pipeline, Stream, ingestion_time, stream
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
from eventide.watermarks import Watermark, ascending, clock_lag, lag, none, punctuated
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
