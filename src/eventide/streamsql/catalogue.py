"""The functions that Eventide's SQL knows by name."""

from __future__ import annotations

WINDOW_FUNCTIONS = ("TUMBLE", "HOP", "SESSION", "CUMULATE", "CALENDAR", "ROWS_WINDOW", "ROW_SESSION")
"""Windows as table functions."""

# What SQL calls it, and what Python calls it.
AGGREGATES = {
    "count": "count",
    "sum": "sum",
    "avg": "mean",
    "mean": "mean",
    "min": "min",
    "max": "max",
    "var": "var",
    "variance": "var",
    "var_samp": "var",
    "std": "std",
    "stddev": "std",
    "stddev_samp": "std",
    "first": "first",
    "first_value": "first",
    "last": "last",
    "last_value": "last",
    "min_by": "min_by",
    "max_by": "max_by",
    "arg_min": "min_by",
    "arg_max": "max_by",
    "top_n": "top_n",
    "top_n_by_key": "top_n_by_key",
    "collect": "collect",
    "collect_list": "collect",
    "array_agg": "collect",
    "collect_set": "collect_set",
    "sort": "sort",
    "median": "median",
    "quantile": "quantile",
    "percentile": "quantile",
    "percentile_cont": "quantile",
    "mode": "mode",
    "approx_distinct": "approx_distinct",
    "approx_count_distinct": "approx_distinct",
    "approx_quantile": "approx_quantile",
    "approx_percentile": "approx_quantile",
    "composite": "composite",
}
"""All aggregates of the library but those that need a function of Python's."""

IN_PYTHON = ("reduce", "fold")
"""Aggregates that need a function of Python's."""

OF_ENGINES = ("quantile_cont", "quantile_disc", "stdev_samp", "covar", "listagg")
"""Aggregates that Polars knows and the parser does not; all others the parser tells from functions."""

TRIGGERS = (
    *("after_watermark", "after_count", "after_processing_time", "every", "each", "never"),
    *("repeatedly", "any_of", "all_of", "in_order", "or_finally"),
)
"""The algebra of triggers, under Python's names."""
