"""The in-process host: pipelines without Spark."""

from eventide.local.query import Clock, Frame, LocalQuery, LocalResult, Rows, run_local

__all__ = ["Clock", "Frame", "LocalQuery", "LocalResult", "Rows", "run_local"]
