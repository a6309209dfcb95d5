"""Aggregates that return lists, such as ``collect_list``, ``collect_set`` and ``top_n``, and ``count_distinct``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from eventide._arguments import is_integer
from eventide._column_refs import Column, column, masked
from eventide._hints import with_option_hints
from eventide.aggregates.aggregate import Aggregate, Parts, Source
from eventide.aggregates.errors import bad_number
from eventide.aggregates.value_lists import (
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
from eventide.kernels.grouping import GROUP, group, in_order


@dataclass(frozen=True)
class Collect(Aggregate):
    """All values of ``column`` in the order of event time."""

    column: str

    word: ClassVar[str] = "collect_list"
    needs_rows: ClassVar[bool] = True

    def bind(self, source: Source) -> Parts:
        dtype = source.dtype(self.column, self)
        if source.diff is not None:
            entries = timed_values(source, self.column)
            return Parts([entries], lambda cells: spelled_out(cells, entries).list.drop_nulls())
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

    def bind(self, source: Source) -> Parts:
        dtype = sortable(source, self.column, self)
        if source.diff is not None:
            entries = values(source, self.column)
            return Parts([entries], field_of(present(entries), "value"))
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

    def bind(self, source: Source) -> Parts:
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

    def bind(self, source: Source) -> Parts:
        sortable(source, self.column, self)
        entries = sorted_values(source, self.column)
        if source.diff is not None:
            return Parts([entries], lambda cells: self._directed(spelled_out(cells, entries)))
        values = pl.col(entries.name)
        return Parts([entries], values.list.reverse() if self.descending else values)

    def _directed(self, lists: pl.Series) -> pl.Series:
        return lists.list.reverse() if self.descending else lists


@dataclass(frozen=True)
class TopN(Aggregate):
    """The ``n`` greatest values of ``column``."""

    column: str
    n: int

    word: ClassVar[str] = "top_n"

    def bind(self, source: Source) -> Parts:
        dtype = sortable(source, self.column, self)
        if source.diff is not None:
            entries = values(source, self.column)
            return Parts([entries], lambda cells: spelled_out(cells, entries).list.reverse().list.head(self.n))
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

    def bind(self, source: Source) -> Parts:
        dtype, key_dtype = sortable(source, self.value, self), sortable(source, self.key, self)
        fields = {
            "key": (pl.col(self.key), key_dtype),
            "time": (pl.col(source.time), pl.Int64()),
            "value": (pl.col(self.value), dtype),
        }
        keep = pl.col(self.value).is_not_null() & pl.col(self.key).is_not_null()
        if source.diff is not None:
            entries = multiset(f"history({self.value}, {self.key})", source, fields, keep=keep)
        else:
            # A key's next value may be lower, so every key must be kept.
            entries = Entries(
                f"latest({self.value}, {self.key})",
                {name: one_zero(expr, dtype) for name, (expr, dtype) in fields.items()},
                {name: dtype for name, (_, dtype) in fields.items()},
                keep=keep,
                collapse=["key"],
                into=[pl.col("time", "value").last()],
                collapse_in=["time", "value"],
                order=["key"],
            )
        return Parts([entries], lambda cells: self._ranked(cells, entries))

    def _ranked(self, cells: pl.DataFrame, entries: Entries) -> pl.Series:
        numbered = cells.select(entries.name).with_row_index(GROUP)
        listed = numbered.explode(entries.name, empty_as_null=False, keep_nulls=False).unnest(entries.name)
        if COUNT in entries.types:
            latest = [pl.col("value").last()]  # a multiset is sorted by key, time and value
            listed = group(listed.filter(pl.col(COUNT) > 0), [GROUP, "key"], latest)
        listed = listed.sort("value", "key", descending=[True, False])
        ranked = group(listed, [GROUP], [pl.struct("key", "value").head(self.n).implode().alias("top")])
        dtype = pl.List(pl.Struct({"key": entries.types["key"], "value": entries.types["value"]}))
        return in_order(ranked, cells.height, missing=pl.lit([], dtype=dtype))


@with_option_hints
def collect_list(column: Column, *, where: Column | None = None) -> Collect:
    """All values of a column in the order of event time; nulls are skipped.

    Values of equal times are in ascending order.

    >>> from eventide.aggregates import try_out
    >>> try_out({"at": [20, 10, 15], "price": [5, 9, None]}, time="at", prices=collect_list("price"))
    {'prices': [9, 5]}
    """
    return Collect(masked("collect_list", column, where))


@with_option_hints
def collect_set(column: Column, *, where: Column | None = None) -> CollectSet:
    """The distinct values of a column in ascending order; nulls are skipped.

    >>> from eventide.aggregates import try_out
    >>> try_out({"shop": ["y", "x", None, "y"]}, shops=collect_set("shop"))
    {'shops': ['x', 'y']}
    """
    return CollectSet(masked("collect_set", column, where))


@with_option_hints
def count_distinct(column: Column, *, where: Column | None = None) -> CountDistinct:
    """How many distinct values a column has, exactly; nulls are skipped. ``approx_distinct`` needs less state.

    >>> from eventide.aggregates import try_out
    >>> try_out({"shop": ["y", "x", None, "y"]}, shops=count_distinct("shop"))
    {'shops': 2}
    """
    return CountDistinct(masked("count_distinct", column, where))


@with_option_hints
def collect_sorted(column: Column, *, descending: bool = False, where: Column | None = None) -> Sort:
    """All values of a column in ascending or descending order; nulls are skipped.

    >>> from eventide.aggregates import try_out
    >>> try_out({"price": [5, 9, None, 7]}, prices=collect_sorted("price", descending=True))
    {'prices': [9, 7, 5]}
    """
    return Sort(masked("collect_sorted", column, where), descending)


@with_option_hints
def top_n(column: Column, n: int, *, where: Column | None = None) -> TopN:
    """The ``n`` greatest values of a column in descending order; nulls are skipped, NaN is first.

    >>> from eventide.aggregates import try_out
    >>> try_out({"price": [5, 9, 7]}, top=top_n("price", 2))
    {'top': [9, 7]}
    """
    _check_n("top_n", n)
    return TopN(masked("top_n", column, where), n)


@with_option_hints
def top_n_by_key(value: Column, key: Column, n: int, *, where: Column | None = None) -> TopNByKey:
    """The ``n`` keys whose latest value, by event time, is greatest: a list of structs of key and value.

    Ties are in the order of keys. Rows without a key or a value are skipped.

    >>> from eventide.aggregates import try_out
    >>> rows = {"player": ["ann", "bob", "ann"], "score": [9, 5, 3]}
    >>> try_out(rows, best=top_n_by_key("score", "player", 1))
    {'best': [{'key': 'bob', 'value': 5}]}
    """
    _check_n("top_n_by_key", n)
    return TopNByKey(masked("top_n_by_key", value, where), column("top_n_by_key", key), n)


def sorted_values(source: Source, column: str) -> Entries:
    """Return all values in ascending order; a multiset where rows can be retracted."""
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
    if not is_integer(n, at_least=1):
        raise bad_number(word, "n", n, "a whole number of at least 1")
