"""``min`` and ``max``, and ``min_by`` and ``max_by``: the value that goes with the least or greatest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from eventide.aggregates.aggregate import Accumulator, Aggregate, Parts, Source
from eventide.aggregates.entries import multiset, one_zero, present, sortable, tie, values


@dataclass(frozen=True)
class Min(Aggregate):
    """The least value of ``column``."""

    column: str

    word: ClassVar[str] = "min"

    def bind(self, source: Source) -> Parts:  # noqa: D102
        return _extreme(self, self.column, source)


@dataclass(frozen=True)
class Max(Aggregate):
    """The greatest value of ``column``."""

    column: str

    word: ClassVar[str] = "max"

    def bind(self, source: Source) -> Parts:  # noqa: D102
        return _extreme(self, self.column, source)


@dataclass(frozen=True)
class MinBy(Aggregate):
    """The ``value`` of the row where ``by`` is least."""

    value: str
    by: str

    word: ClassVar[str] = "min_by"

    def bind(self, source: Source) -> Parts:  # noqa: D102
        return _companion(self, self.value, self.by, source)


@dataclass(frozen=True)
class MaxBy(Aggregate):
    """The ``value`` of the row where ``by`` is greatest."""

    value: str
    by: str

    word: ClassVar[str] = "max_by"

    def bind(self, source: Source) -> Parts:  # noqa: D102
        return _companion(self, self.value, self.by, source)


def min(column: str) -> Min:
    """The least value of a column. Nulls are skipped; NaN is greater than everything, as in Spark.

    >>> from eventide.aggregates import try_out
    >>> try_out({"price": [5.0, None, float("nan")]}, low=min("price"))
    {'low': 5.0}
    """
    return Min(column)


def max(column: str) -> Max:
    """The greatest value of a column. Nulls are skipped; NaN is greater than everything, as in Spark.

    >>> from eventide.aggregates import try_out
    >>> try_out({"name": ["ann", None, "bob"]}, high=max("name"))
    {'high': 'bob'}
    """
    return Max(column)


def min_by(value: str, by: str) -> MinBy:
    """The value of the row where ``by`` is least. Rows without ``by`` are skipped.

    Among equals the earliest in event time wins, then the least value.

    >>> from eventide.aggregates import try_out
    >>> try_out({"shop": ["x", "y"], "price": [7, 5]}, cheapest=min_by("shop", "price"))
    {'cheapest': 'y'}
    """
    return MinBy(value, by)


def max_by(value: str, by: str) -> MaxBy:
    """The value of the row where ``by`` is greatest. Rows without ``by`` are skipped.

    Among equals the earliest in event time wins, then the least value.

    >>> from eventide.aggregates import try_out
    >>> try_out({"shop": ["x", "y"], "price": [7, 5]}, dearest=max_by("shop", "price"))
    {'dearest': 'x'}
    """
    return MaxBy(value, by)


def extreme(word: str, column: str, dtype: pl.DataType) -> Accumulator:
    """The accumulator of a least or greatest value."""
    name = f"{word}({column})"
    start = _reduced(word, one_zero(pl.col(column), dtype), dtype)
    return Accumulator(name, dtype, start, _reduced(word, pl.col(name), dtype), ordered=False)


def _extreme(aggregate: Aggregate, column: str, source: Source) -> Parts:
    dtype = sortable(source, column, aggregate)
    if source.diff is None:
        accumulator = extreme(aggregate.word, column, dtype)
        return Parts([accumulator], pl.col(accumulator.name))
    kept = values(source, column)
    end = 0 if aggregate.word == "min" else -1
    return Parts([kept], present(kept).list.get(end, null_on_oob=True).struct.field("value"))


def _reduced(word: str, value: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    if word == "min":
        return value.min()
    # Polars passes over NaN; for Spark it is the greatest.
    return value.nan_max() if dtype.is_float() else value.max()


def _companion(aggregate: Aggregate, value: str, by: str, source: Source) -> Parts:
    word = aggregate.word
    name = f"{word}({value}, {by})"
    dtype, by_dtype = source.dtype(value, aggregate), sortable(source, by, aggregate)
    if source.diff is not None:
        entry = {
            "by": (pl.col(by), by_dtype),
            "time": (pl.col(source.time), pl.Int64()),
            "value": (pl.col(value), dtype),
        }
        down = ("by",) if word == "max_by" else ()
        kept = multiset(name, source, entry, keep=pl.col(by).is_not_null(), descending=down)
        return Parts([kept], present(kept).list.get(0, null_on_oob=True).struct.field("value"))
    limit = extreme(word.removesuffix("_by"), by, by_dtype)
    at = f"{word}_time({by})"
    values: list[pl.Expr] = []
    times: list[pl.Expr] = []
    for each, when, order in ((value, source.time, by), (name, at, limit.name)):
        best = pl.col(order) == _reduced(limit.name[:3], pl.col(order), by_dtype)
        earliest = pl.col(when).filter(best).min()
        times.append(earliest)
        values.append(tie("first", pl.col(each).filter(best & (pl.col(when) == earliest)), dtype))
    return Parts(
        [
            Accumulator(name, dtype, values[0], values[1], ordered=False),
            limit,
            Accumulator(at, pl.Int64(), times[0], times[1], ordered=False),
        ],
        pl.col(name),
    )
