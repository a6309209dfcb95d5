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
    "collect": "collect_list",
    "collect_list": "collect_list",
    "array_agg": "collect_list",
    "collect_set": "collect_set",
    "count_distinct": "count_distinct",
    "sort": "collect_sorted",
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

ELSEWHERE = {
    **dict.fromkeys(("stddev_pop", "stdev", "stddevp"), "STDDEV(x) is that of a sample."),
    **dict.fromkeys(("var_pop", "variance_pop", "varp"), "VARIANCE(x) is that of a sample."),
    **dict.fromkeys(("string_agg", "listagg", "group_concat"), "Use ARRAY_AGG(x), and join the texts outside."),
    **dict.fromkeys(("bool_and", "every", "logical_and"), "Use COUNT(*) FILTER (WHERE NOT x) = 0."),
    **dict.fromkeys(("bool_or", "some", "logical_or"), "Use COUNT(*) FILTER (WHERE x) > 0."),
    **dict.fromkeys(("count_if", "countif"), "Use COUNT(*) FILTER (WHERE x)."),
    **dict.fromkeys(("sum_if", "sumif"), "Use SUM(x) FILTER (WHERE y)."),
    "any_value": "Use FIRST(x), which says which.",
    "percentile_disc": "PERCENTILE_CONT and QUANTILE give a value between two rows; MEDIAN does, too.",
    **dict.fromkeys(
        ("corr", "covar_pop", "covar_samp", "regr_slope", "skewness", "kurtosis"),
        "Build the pipeline in Python, with ev.fold(…).",
    ),
    **dict.fromkeys(
        ("row_number", "rank", "dense_rank", "ntile", "lag", "lead", "nth_value", "cume_dist", "percent_rank"),
        "A stream has no order of all its rows. Use TOP_N_BY_KEY(value, key, n), FIRST(x) or LAST(x).",
    ),
}
"""Aggregates and window functions that other databases have, and what to do instead."""

OF_ENGINES = ("quantile_cont", "quantile_disc", "stdev_samp", "covar", "listagg")
"""Aggregates that Polars knows and the parser does not; all others the parser tells from functions."""

TRIGGERS = (
    *("after_watermark", "after_count", "after_processing_time", "every", "on_update", "never"),
    *("repeatedly", "any_of", "all_of", "in_order", "or_finally"),
)
"""The algebra of triggers, under Python's names."""
