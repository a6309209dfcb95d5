"""The in-process host: pipelines without Spark."""

from eventide.local.query import LocalQuery
from eventide.local.result import LocalResult
from eventide.local.run import Clock, Rows, run_local

__all__ = ["Clock", "LocalQuery", "LocalResult", "Rows", "run_local"]
