"""Accumulators that keep values: a list of entries per group, in a fixed order.

An entry has one or more fields. Building a list from rows and merging lists follow the same rules: entries are
gathered, entries with equal keys collapse into one, and the result is sorted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from eventide.aggregates.aggregate import Aggregate, Source
from eventide.aggregates.errors import wrong_type
from eventide.kernels.grouping import GROUP, group, in_order

COUNT = "count"


@dataclass(frozen=True, eq=False)
class Entries:
    """A list of entries per group."""

    name: str
    fields: Mapping[str, pl.Expr]
    """The fields of an entry, read from a row."""
    types: Mapping[str, pl.DataType]
    keep: pl.Expr = field(default_factory=lambda: pl.lit(True))
    """Which rows have an entry."""
    collapse: Sequence[str] = ()
    """Entries with equal values here become one."""
    into: Sequence[pl.Expr] = ()
    """The other fields of that one."""
    collapse_in: Sequence[str] = ()
    """Fields to sort by before, where ``into`` depends on the order."""
    order: Sequence[str] = ()
    """Fields to sort by. Entries that are equal in these must be equal, or the result depends on arrival."""
    descending: Sequence[str] = ()
    """The fields of ``order`` that are descending."""
    first: int | None = None
    """How many entries are kept."""
    keeps_rows: bool = True

    @property
    def dtype(self) -> pl.List:
        return pl.List(self.types[self._only] if self._only else pl.Struct(self.types))

    @property
    def empty(self) -> object:
        return []

    def start(self, rows: pl.DataFrame, groups: int) -> pl.Series:
        return self._gathered(rows.filter(self.keep).select(GROUP, **self.fields), groups)

    def merge(self, cells: pl.DataFrame, groups: int) -> pl.Series:
        return self._gathered(self._scattered(cells.select(GROUP, self.name)), groups)

    @property
    def _only(self) -> str | None:
        return next(iter(self.types)) if len(self.types) == 1 else None

    def _scattered(self, lists: pl.DataFrame) -> pl.DataFrame:
        entries = lists.explode(self.name, empty_as_null=False, keep_nulls=False)
        return entries.rename({self.name: self._only}) if self._only else entries.unnest(self.name)

    def _gathered(self, entries: pl.DataFrame, groups: int) -> pl.Series:
        if self.collapse_in:
            entries = entries.sort(self.collapse_in, maintain_order=True)
        if self.collapse:
            entries = group(entries, [GROUP, *self.collapse], list(self.into), ordered=bool(self.collapse_in))
            if COUNT in self.types:
                entries = entries.filter(pl.col(COUNT) != 0)
        if self.order:
            descending = [name in self.descending for name in self.order]
            entries = entries.sort(self.order, descending=descending, nulls_last=True, maintain_order=True)
        entry = pl.col(self._only) if self._only else pl.struct(*self.types)
        entry = entry.cast(self.dtype.inner)
        if self.first is not None:
            entry = entry.head(self.first)
        lists = group(entries, [GROUP], [entry.implode().alias(self.name)])
        return in_order(lists, groups, missing=pl.lit([], dtype=self.dtype))


def multiset(
    name: str,
    source: Source,
    fields: Mapping[str, tuple[pl.Expr, pl.DataType]],
    *,
    keep: pl.Expr,
    descending: Sequence[str] = (),
) -> Entries:
    """Return distinct entries with their counts, so that one occurrence can be retracted.

    A count may be negative for a while: a retraction can arrive before the row that it retracts.
    """
    fields = {field: (one_zero(expr, dtype), dtype) for field, (expr, dtype) in fields.items()}
    weight = pl.lit(1) if source.diff is None else pl.col(source.diff)
    return Entries(
        name,
        {field: expr for field, (expr, _) in fields.items()} | {COUNT: weight.cast(pl.Int64)},
        {field: dtype for field, (_, dtype) in fields.items()} | {COUNT: pl.Int64()},
        keep=keep,
        collapse=tuple(fields),
        into=[pl.col(COUNT).sum()],
        order=tuple(fields),
        descending=descending,
    )


def values(source: Source, column: str) -> Entries:
    """Return the counts of the values of a column, sorted by value. Nulls are skipped."""
    entry = {"value": (pl.col(column), source.schema[column])}
    return multiset(f"values({column})", source, entry, keep=pl.col(column).is_not_null())


def timed_values(source: Source, column: str, where: str | None = None) -> Entries:
    """Return the counts of values at each instant, sorted by both. Nulls are values here."""
    entry = {
        "time": (pl.col(source.time), pl.Int64()),
        "value": (pl.col(column), source.schema[column]),
    }
    if where is None:
        return multiset(f"timed_values({column})", source, entry, keep=pl.lit(True))
    return multiset(f"timed_values({column} where {where})", source, entry, keep=pl.col(where))


def present(entries: Entries) -> pl.Expr:
    """Return the entries of a multiset with a positive count."""
    entry = pl.element()
    return pl.col(entries.name).list.eval(entry.filter(entry.struct.field(COUNT) > 0))


def spelled_out(cells: pl.DataFrame, entries: Entries, field: str = "value") -> pl.Series:
    """Return one field of a multiset as a list, with each entry repeated by its count."""
    numbered = cells.select(entries.name).with_row_index(GROUP)
    entry = numbered.explode(entries.name, empty_as_null=False, keep_nulls=False).unnest(entries.name)
    counts = entry[COUNT].clip(0).to_numpy()
    repeated = entry[np.repeat(np.arange(entry.height), counts)]
    lists = group(repeated, [GROUP], [pl.col(field).implode()])
    missing = pl.lit([], dtype=pl.List(entries.types[field]))
    return in_order(lists, cells.height, missing=missing)


def one_zero(value: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Replace -0.0 by 0.0: they are equal, so the result must not depend on which arrives first."""
    return pl.when(value == 0).then(value.abs()).otherwise(value) if dtype.is_float() else value


def tie(word: str, values: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Return the least or the greatest of values that are otherwise equal. Null is the greatest."""
    values = one_zero(values, dtype)
    if dtype.is_nested():
        ordered = values.sort(nulls_last=True)
        return ordered.first() if word == "first" else ordered.last()
    if word == "first":
        return values.min()
    greatest = values.nan_max() if dtype.is_float() else values.max()
    return pl.when(values.null_count() == 0).then(greatest)


def field_of(lists: pl.Expr, name: str) -> pl.Expr:
    """Return one field of each entry of the lists."""
    return lists.list.eval(pl.element().struct.field(name))


def sortable(source: Source, column: str, aggregate: Aggregate) -> pl.DataType:
    """Return the type of a column, which must be sortable."""
    dtype = source.dtype(column, aggregate)
    if dtype.is_nested() or dtype == pl.Object or dtype == pl.Null:
        needs = f"{aggregate.word} needs sortable values"
        raise wrong_type(aggregate, column, dtype, needs, "Take one field of it into a column first.")
    return dtype
