"""Aggregates that return lists: ``collect_list``, ``collect_set``, ``collect_sorted``, ``top_n`` and their like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from eventide.aggregates.aggregate import Aggregate, Parts, Source
from eventide.aggregates.entries import (
    COUNT,
    Entries,
    field_of,
    multiset,
    one_zero,
    present,
    sortable,
    spelled_out,
    timed_values,
    values,
)
from eventide.aggregates.grouping import group
from eventide.aggregates.numbering import GROUP, in_order
from eventide.errors import aggregates as errors


@dataclass(frozen=True)
class Collect(Aggregate):
    """All values of ``column`` in the order of event time."""

    column: str

    word: ClassVar[str] = "collect_list"
    needs_rows: ClassVar[bool] = True

    def bind(self, source: Source) -> Parts:  # noqa: D102
        dtype = source.dtype(self.column, self)
        if source.diff is not None:
            kept = timed_values(source, self.column)
            return Parts([kept], lambda cells: spelled_out(cells, kept).list.drop_nulls())
        fields = {"time": pl.col(source.time), "value": one_zero(pl.col(self.column), dtype)}
        types = {"time": pl.Int64(), "value": dtype}
        name = f"collect({self.column})"
        entries = Entries(name, fields, types, keep=pl.col(self.column).is_not_null(), order=["time", "value"])
        return Parts([entries], field_of(pl.col(name), "value"))


@dataclass(frozen=True)
class CollectSet(Aggregate):
    """The distinct values of ``column``, sorted."""

    column: str

    word: ClassVar[str] = "collect_set"
    needs_rows: ClassVar[bool] = True

    def bind(self, source: Source) -> Parts:  # noqa: D102
        dtype = sortable(source, self.column, self)
        if source.diff is not None:
            kept = values(source, self.column)
            return Parts([kept], field_of(present(kept), "value"))
        name = f"set({self.column})"
        entries = Entries(
            name,
            {"value": one_zero(pl.col(self.column), dtype)},
            {"value": dtype},
            keep=pl.col(self.column).is_not_null(),
            collapse=["value"],
            order=["value"],
        )
        return Parts([entries], pl.col(name))


@dataclass(frozen=True)
class CountDistinct(Aggregate):
    """How many distinct values ``column`` has, exactly. Its state is that of ``CollectSet``."""

    column: str

    word: ClassVar[str] = "count_distinct"
    needs_rows: ClassVar[bool] = True

    def bind(self, source: Source) -> Parts:  # noqa: D102
        distinct = CollectSet(self.column).bind(source)

        def counted(cells: pl.DataFrame) -> pl.Series:
            return distinct.result_of(cells).list.len().cast(pl.Int64).fill_null(0)

        return Parts(distinct.accumulators, counted)


@dataclass(frozen=True)
class Sort(Aggregate):
    """All values of ``column``, sorted."""

    column: str
    descending: bool = False

    word: ClassVar[str] = "collect_sorted"
    needs_rows: ClassVar[bool] = True

    def bind(self, source: Source) -> Parts:  # noqa: D102
        sortable(source, self.column, self)
        kept = sorted_values(source, self.column)
        if source.diff is not None:
            return Parts([kept], lambda cells: self._directed(spelled_out(cells, kept)))
        values = pl.col(kept.name)
        return Parts([kept], values.list.reverse() if self.descending else values)

    def _directed(self, lists: pl.Series) -> pl.Series:
        return lists.list.reverse() if self.descending else lists


@dataclass(frozen=True)
class TopN(Aggregate):
    """The ``n`` greatest values of ``column``."""

    column: str
    n: int

    word: ClassVar[str] = "top_n"

    def bind(self, source: Source) -> Parts:  # noqa: D102
        dtype = sortable(source, self.column, self)
        if source.diff is not None:
            kept = values(source, self.column)
            return Parts([kept], lambda cells: spelled_out(cells, kept).list.reverse().list.head(self.n))
        name = f"top_n({self.column}, {self.n})"
        entries = Entries(
            name,
            {"value": one_zero(pl.col(self.column), dtype)},
            {"value": dtype},
            keep=pl.col(self.column).is_not_null(),
            order=["value"],
            descending=["value"],
            first=self.n,
            keeps_rows=False,
        )
        return Parts([entries], pl.col(name))


@dataclass(frozen=True)
class TopNByKey(Aggregate):
    """The ``n`` keys whose latest ``value`` is greatest."""

    value: str
    key: str
    n: int

    word: ClassVar[str] = "top_n_by_key"
    needs_rows: ClassVar[bool] = True

    def bind(self, source: Source) -> Parts:  # noqa: D102
        dtype, key_dtype = sortable(source, self.value, self), sortable(source, self.key, self)
        fields = {
            "key": (pl.col(self.key), key_dtype),
            "time": (pl.col(source.time), pl.Int64()),
            "value": (pl.col(self.value), dtype),
        }
        keep = pl.col(self.value).is_not_null() & pl.col(self.key).is_not_null()
        if source.diff is not None:
            kept = multiset(f"history({self.value}, {self.key})", source, fields, keep=keep)
        else:
            # A key's latest value may be lower than its last one, so every key must be kept.
            kept = Entries(
                f"latest({self.value}, {self.key})",
                {name: one_zero(expr, dtype) for name, (expr, dtype) in fields.items()},
                {name: dtype for name, (_, dtype) in fields.items()},
                keep=keep,
                collapse=["key"],
                into=[pl.col("time", "value").last()],
                collapse_in=["time", "value"],
                order=["key"],
            )
        return Parts([kept], lambda cells: self._ranked(cells, kept))

    def _ranked(self, cells: pl.DataFrame, kept: Entries) -> pl.Series:
        numbered = cells.select(kept.name).with_row_index(GROUP)
        each = numbered.explode(kept.name, empty_as_null=False, keep_nulls=False).unnest(kept.name)
        if COUNT in kept.types:
            latest = [pl.col("value").last()]  # a multiset is sorted by key, time and value
            each = group(each.filter(pl.col(COUNT) > 0), [GROUP, "key"], latest)
        each = each.sort("value", "key", descending=[True, False])
        ranked = group(each, [GROUP], [pl.struct("key", "value").head(self.n).implode().alias("top")])
        dtype = pl.List(pl.Struct({"key": kept.types["key"], "value": kept.types["value"]}))
        return in_order(ranked, cells.height, missing=pl.lit([], dtype=dtype))


def collect_list(column: str) -> Collect:
    """All values of a column in the order of event time; nulls are skipped.

    Values of equal times are in ascending order.

    >>> from eventide.aggregates import try_out
    >>> try_out({"at": [20, 10, 15], "price": [5, 9, None]}, time="at", prices=collect_list("price"))
    {'prices': [9, 5]}
    """
    return Collect(column)


def collect_set(column: str) -> CollectSet:
    """The distinct values of a column in ascending order; nulls are skipped.

    >>> from eventide.aggregates import try_out
    >>> try_out({"shop": ["y", "x", None, "y"]}, shops=collect_set("shop"))
    {'shops': ['x', 'y']}
    """
    return CollectSet(column)


def count_distinct(column: str) -> CountDistinct:
    """How many distinct values a column has, exactly; nulls are skipped. ``approx_distinct`` needs less state.

    >>> from eventide.aggregates import try_out
    >>> try_out({"shop": ["y", "x", None, "y"]}, shops=count_distinct("shop"))
    {'shops': 2}
    """
    return CountDistinct(column)


def collect_sorted(column: str, *, descending: bool = False) -> Sort:
    """All values of a column in ascending or descending order; nulls are skipped.

    >>> from eventide.aggregates import try_out
    >>> try_out({"price": [5, 9, None, 7]}, prices=collect_sorted("price", descending=True))
    {'prices': [9, 7, 5]}
    """
    return Sort(column, descending)


def top_n(column: str, n: int) -> TopN:
    """The ``n`` greatest values of a column in descending order; nulls are skipped, NaN comes first.

    >>> from eventide.aggregates import try_out
    >>> try_out({"price": [5, 9, 7]}, top=top_n("price", 2))
    {'top': [9, 7]}
    """
    _check_n("top_n", n)
    return TopN(column, n)


def top_n_by_key(value: str, key: str, n: int) -> TopNByKey:
    """The ``n`` keys whose latest value, by event time, is greatest: a list of structs of key and value.

    Ties are in the order of keys. Rows without a key or a value are skipped.

    >>> from eventide.aggregates import try_out
    >>> rows = {"player": ["ann", "bob", "ann"], "score": [9, 5, 3]}
    >>> try_out(rows, best=top_n_by_key("score", "player", 1))
    {'best': [{'key': 'bob', 'value': 5}]}
    """
    _check_n("top_n_by_key", n)
    return TopNByKey(value, key, n)


def sorted_values(source: Source, column: str) -> Entries:
    """All values in ascending order: plain where they only grow, a multiset where rows can be taken back."""
    if source.diff is not None:
        return values(source, column)
    return Entries(
        f"sorted({column})",
        {"value": one_zero(pl.col(column), source.schema[column])},
        {"value": source.schema[column]},
        keep=pl.col(column).is_not_null(),
        order=["value"],
    )


def _check_n(word: str, n: int) -> None:
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise errors.bad_number(word, "n", n, "a whole number of at least 1")
