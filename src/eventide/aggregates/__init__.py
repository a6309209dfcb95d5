"""Aggregates: what is computed for each window and key.

An aggregate is a frozen description (``aggregate``). Bound to a schema it becomes accumulators: rows start them,
partial results merge, and results are read from them (``binding``).
"""

from eventide.aggregates.aggregate import Accumulator, Aggregate, OwnPass, Parts, Source, composite
from eventide.aggregates.binding import Bound, Description, Started, bind, try_out
from eventide.aggregates.collect import collect_list, collect_set, collect_sorted, count_distinct, top_n, top_n_by_key
from eventide.aggregates.extremes import first, last, max, max_by, min, min_by
from eventide.aggregates.quantiles import median, mode, quantile
from eventide.aggregates.sketches import approx_distinct, approx_quantile
from eventide.aggregates.sums import count, mean, sum
from eventide.aggregates.user_defined import MergeAggregate, fold, reduce
from eventide.aggregates.variance import std, var

__all__ = [
    "Accumulator",
    "Aggregate",
    "Bound",
    "Description",
    "MergeAggregate",
    "OwnPass",
    "Parts",
    "Source",
    "Started",
    "approx_distinct",
    "approx_quantile",
    "bind",
    "collect_list",
    "collect_set",
    "collect_sorted",
    "composite",
    "count",
    "count_distinct",
    "first",
    "fold",
    "last",
    "max",
    "max_by",
    "mean",
    "median",
    "min",
    "min_by",
    "mode",
    "quantile",
    "reduce",
    "std",
    "sum",
    "top_n",
    "top_n_by_key",
    "try_out",
    "var",
]
