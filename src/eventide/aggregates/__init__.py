"""Aggregates: what is computed for each window and key. One family per file.

An aggregate describes (``aggregate``); bound to a schema it becomes accumulators that rows start, that merge,
and that results are read from (``binding``).
"""

from eventide.aggregates.aggregate import Accumulator, Aggregate, OwnPass, Parts, Source
from eventide.aggregates.binding import Bound, Description, Started, bind
from eventide.aggregates.composing import composite
from eventide.aggregates.counting import count
from eventide.aggregates.ends import first, last
from eventide.aggregates.extremes import max, max_by, min, min_by
from eventide.aggregates.functions import fold, reduce
from eventide.aggregates.histogram import approx_quantile
from eventide.aggregates.lists import (
    collect_list,
    collect_set,
    collect_sorted,
    count_distinct,
    top_n,
    top_n_by_key,
)
from eventide.aggregates.merge_inputs import MergeAggregate
from eventide.aggregates.quantiles import median, mode, quantile
from eventide.aggregates.sketches import approx_distinct
from eventide.aggregates.spread import std, var
from eventide.aggregates.sums import mean, sum
from eventide.aggregates.trying import try_out

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
