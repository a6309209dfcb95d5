"""``first`` and ``last``: in event time, not in the order of arrival."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from eventide.aggregates.aggregate import Accumulator, Aggregate, Parts, Source
from eventide.aggregates.entries import present, tie, timed_values
from eventide.aggregates.ranked import Ranks, fits


@dataclass(frozen=True)
class First(Aggregate):
    """The value of ``column`` in the row that happened first."""

    column: str
    ignore_nulls: bool = False

    word: ClassVar[str] = "first"

    def bind(self, source: Source) -> Parts:  # noqa: D102
        return _end(self, self.column, self.ignore_nulls, source)


@dataclass(frozen=True)
class Last(Aggregate):
    """The value of ``column`` in the row that happened last."""

    column: str
    ignore_nulls: bool = False

    word: ClassVar[str] = "last"

    def bind(self, source: Source) -> Parts:  # noqa: D102
        return _end(self, self.column, self.ignore_nulls, source)


def first(column: str, *, ignore_nulls: bool = False) -> First:
    """The value of the row with the least event time; among equals the least value. Null is the greatest.

    The order of arrival makes no difference.

    >>> from eventide.aggregates import try_out
    >>> rows = {"at": [20, 10, 15], "price": [5, None, 7]}
    >>> try_out(rows, time="at", first=first("price"), known=first("price", ignore_nulls=True))
    {'first': None, 'known': 7}
    """
    return First(column, ignore_nulls)


def last(column: str, *, ignore_nulls: bool = False) -> Last:
    """The value of the row with the greatest event time; among equals the greatest value. Null is the greatest.

    The order of arrival makes no difference.

    >>> from eventide.aggregates import try_out
    >>> try_out({"at": [20, 10, 15], "price": [5, None, 7]}, time="at", price=last("price"))
    {'price': 5}
    """
    return Last(column, ignore_nulls)


def _end(aggregate: Aggregate, column: str, ignore_nulls: bool, source: Source) -> Parts:
    dtype = source.dtype(column, aggregate)
    word = aggregate.word
    if source.diff is not None:
        kept = timed_values(source, column)
        there = present(kept)
        if ignore_nulls:
            each = pl.element()
            there = there.list.eval(each.filter(each.struct.field("value").is_not_null()))
        end = 0 if word == "first" else -1
        return Parts([kept], there.list.get(end, null_on_oob=True).struct.field("value"))
    known = f"known {column}" if ignore_nulls else column
    name = f"{word}({known})"
    if fits(dtype):
        ranks = Ranks(name, column, source.time, dtype, ignore_nulls)
        chosen = _end_of(word, pl.col(name))
        return Parts([Accumulator(name, pl.Int128(), chosen, chosen, ordered=False, prepared=ranks)], ranks.values)
    # Without the value's time a merge could not tell which of two cells holds the end.
    at = f"{word}_time({known if ignore_nulls else '*'})"
    time = pl.col(source.time)
    if ignore_nulls:
        time = pl.when(pl.col(column).is_not_null()).then(time)
    start, merge = (_at_end(word, pl.col(column), time, dtype), _at_end(word, pl.col(name), pl.col(at), dtype))
    reach = _end_of(word, time), _end_of(word, pl.col(at))
    return Parts(
        [
            Accumulator(name, dtype, start, merge, ordered=False),
            Accumulator(at, pl.Int64(), reach[0], reach[1], ordered=False),
        ],
        pl.col(name),
    )


def _at_end(word: str, value: pl.Expr, time: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    return tie(word, value.filter(time == _end_of(word, time)), dtype)


def _end_of(word: str, time: pl.Expr) -> pl.Expr:
    return time.min() if word == "first" else time.max()
