"""``median``, ``quantile`` and ``mode``: exact, so they keep the values of a window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from eventide._column_refs import Column, masked
from eventide._hints import with_option_hints
from eventide.aggregates.aggregate import Aggregate, Parts, Source
from eventide.aggregates.collect import sorted_values
from eventide.aggregates.sums import numeric
from eventide.aggregates.value_lists import COUNT, present, sortable, spelled_out, values
from eventide.errors import PlanError, shown


@dataclass(frozen=True)
class Quantile(Aggregate):
    """The value below which the share ``q`` of the values is."""

    column: str
    q: float

    word: ClassVar[str] = "quantile"
    needs_rows: ClassVar[bool] = True

    def bind(self, source: Source) -> Parts:
        numeric(source, self.column, self)
        entries = sorted_values(source, self.column)
        result = _interpolated(pl.col(entries.name), self.q)
        if source.diff is None:
            return Parts([entries], result)

        def interpolated(cells: pl.DataFrame) -> pl.Series:
            return spelled_out(cells, entries).to_frame(entries.name).select(result).to_series()

        return Parts([entries], interpolated)


@dataclass(frozen=True)
class Median(Quantile):
    """The value in the middle."""

    q: float = 0.5

    word: ClassVar[str] = "median"


@dataclass(frozen=True)
class Mode(Aggregate):
    """The value that occurs most often."""

    column: str

    word: ClassVar[str] = "mode"
    needs_rows: ClassVar[bool] = True

    def bind(self, source: Source) -> Parts:
        sortable(source, self.column, self)
        entries = values(source, self.column)
        entry = pl.element()
        # Values are sorted, and a stable sort by frequency leaves the least of equals in front.
        by_frequency = entry.sort_by(entry.struct.field(COUNT), descending=True, maintain_order=True)
        most_frequent = present(entries).list.eval(by_frequency).list.get(0, null_on_oob=True)
        return Parts([entries], most_frequent.struct.field("value"))


@with_option_hints
def quantile(column: Column, q: float, *, where: Column | None = None) -> Quantile:
    """The exact quantile of a column, interpolated between neighbours as Spark's ``percentile`` does.

    Nulls are skipped. All values of a window are kept; ``approx_quantile`` keeps a few kilobytes.

    >>> from eventide.aggregates import try_out
    >>> try_out({"price": [1, 2, 3, 10]}, p75=quantile("price", 0.75))
    {'p75': 4.75}
    """
    check_q("quantile", q)
    return Quantile(masked("quantile", column, where), q)


@with_option_hints
def median(column: Column, *, where: Column | None = None) -> Median:
    """The exact median of a column: ``quantile(column, 0.5)``.

    >>> from eventide.aggregates import try_out
    >>> try_out({"price": [1, 2, None, 10]}, middle=median("price"))
    {'middle': 2.0}
    """
    return Median(masked("median", column, where))


@with_option_hints
def mode(column: Column, *, where: Column | None = None) -> Mode:
    """The most frequent value of a column, the least one among equals. Nulls are skipped.

    >>> from eventide.aggregates import try_out
    >>> try_out({"shop": ["y", "x", "y", "x", None]}, usual=mode("shop"))
    {'usual': 'x'}
    """
    return Mode(masked("mode", column, where))


def check_q(word: str, q: object) -> None:
    """Reject a quantile that is not between 0 and 1."""
    if isinstance(q, bool) or not isinstance(q, (int, float)) or not 0 <= q <= 1:
        raise _bad_quantile(word, q)


def _interpolated(lists: pl.Expr, q: float) -> pl.Expr:
    position = (lists.list.len().cast(pl.Int64) - 1) * q
    below, above = position.floor(), position.ceil()
    low, high = (lists.list.get(i.cast(pl.Int64), null_on_oob=True).cast(pl.Float64) for i in (below, above))
    # Equal neighbours are not interpolated: infinity minus infinity is NaN.
    between = low * (above - position) + high * (position - below)
    return pl.when(low == high).then(low).otherwise(between)


def _bad_quantile(aggregate: str, q: object) -> PlanError:
    """A quantile is not between 0 and 1."""
    hint = ""
    if isinstance(q, (int, float)) and 1 < q <= 100:
        hint = f" For percent, divide by 100: {q / 100:g}."
    return PlanError(f"{aggregate}: q={shown(q)} is not between 0 and 1.{hint}")
