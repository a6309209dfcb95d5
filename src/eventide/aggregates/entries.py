"""Accumulators that keep values: one list of entries per group, in a fixed order.

An entry has one field or several. The same rules make a list of rows and merge lists: entries are gathered,
those with equal keys collapse into one, and what remains is sorted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from eventide.aggregates.aggregate import Aggregate, Source
from eventide.aggregates.grouping import group
from eventide.aggregates.numbering import GROUP, in_order
from eventide.errors import aggregates as errors

COUNT = "count"


@dataclass(frozen=True, eq=False)
class Entries:
    """A list of entries per group."""

    name: str
    fields: Mapping[str, pl.Expr]
    """What an entry holds, read from a row."""
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
    """Fields to sort by. Entries that are equal in these must be equal, or the order of arrival would show."""
    descending: Sequence[str] = ()
    """Those of ``order`` that go from greatest to least."""
    first: int | None = None
    """How many entries are worth keeping."""
    keeps_rows: bool = True

    @property
    def dtype(self) -> pl.DataType:  # noqa: D102
        return pl.List(self.types[self._only] if self._only else pl.Struct(self.types))

    @property
    def empty(self) -> object:  # noqa: D102
        return []

    def start(self, rows: pl.DataFrame, groups: int) -> pl.Series:  # noqa: D102
        return self._gathered(rows.filter(self.keep).select(GROUP, **self.fields), groups)

    def merge(self, cells: pl.DataFrame, groups: int) -> pl.Series:  # noqa: D102
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
            down = [name in self.descending for name in self.order]
            entries = entries.sort(self.order, descending=down, nulls_last=True, maintain_order=True)
        each = pl.col(self._only) if self._only else pl.struct(*self.types)
        each = each.cast(self.dtype.inner)  # type: ignore[attr-defined]
        if self.first is not None:
            each = each.head(self.first)
        lists = group(entries, [GROUP], [each.implode().alias(self.name)])
        return in_order(lists, groups, missing=pl.lit([], dtype=self.dtype))


def multiset(
    name: str,
    source: Source,
    fields: Mapping[str, tuple[pl.Expr, pl.DataType]],
    *,
    keep: pl.Expr,
    descending: Sequence[str] = (),
) -> Entries:
    """Distinct entries with how often they occur, so that one occurrence can be taken out again.

    A count may be negative for a while: a retraction can come before what it retracts.
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
    """How often each value of a column occurs, sorted by value. Nulls are left out."""
    entry = {"value": (pl.col(column), source.schema[column])}
    return multiset(f"values({column})", source, entry, keep=pl.col(column).is_not_null())


def timed_values(source: Source, column: str) -> Entries:
    """How often each value occurs at each instant, sorted by both. Nulls are values here."""
    entry = {
        "time": (pl.col(source.time), pl.Int64()),
        "value": (pl.col(column), source.schema[column]),
    }
    return multiset(f"timed_values({column})", source, entry, keep=pl.lit(True))


def present(entries: Entries) -> pl.Expr:
    """The entries of a multiset that are really there."""
    each = pl.element()
    return pl.col(entries.name).list.eval(each.filter(each.struct.field(COUNT) > 0))


def spelled_out(cells: pl.DataFrame, entries: Entries, field: str = "value") -> pl.Series:
    """One field of a multiset as a list, each entry as often as it occurs."""
    numbered = cells.select(entries.name).with_row_index(GROUP)
    each = numbered.explode(entries.name, empty_as_null=False, keep_nulls=False).unnest(entries.name)
    often = each[COUNT].clip(0).to_numpy()
    repeated = each[np.repeat(np.arange(each.height), often)]
    lists = group(repeated, [GROUP], [pl.col(field).implode()])
    missing = pl.lit([], dtype=pl.List(entries.types[field]))
    return in_order(lists, cells.height, missing=missing)


def one_zero(value: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Floats with one zero: -0.0 and 0.0 are equal, and which of them arrives first must not show."""
    return pl.when(value == 0).then(value.abs()).otherwise(value) if dtype.is_float() else value


def tie(word: str, values: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """The first or the last of values that are equal in all else: by value, where null is the greatest."""
    values = one_zero(values, dtype)
    if dtype.is_nested():
        ordered = values.sort(nulls_last=True)
        return ordered.first() if word == "first" else ordered.last()
    if word == "first":
        return values.min()
    greatest = values.nan_max() if dtype.is_float() else values.max()
    return pl.when(values.null_count() == 0).then(greatest)


def field_of(lists: pl.Expr, name: str) -> pl.Expr:
    """One field of each entry of the lists."""
    return lists.list.eval(pl.element().struct.field(name))


def sortable(source: Source, column: str, aggregate: Aggregate) -> pl.DataType:
    """The type of a column whose values can be put in order."""
    dtype = source.dtype(column, aggregate)
    if dtype.is_nested() or dtype == pl.Object or dtype == pl.Null:
        needs = f"{aggregate.word} needs values that can be put in order"
        raise errors.wrong_type(aggregate, column, dtype, needs, "Take one field of it into a column first.")
    return dtype
