"""``first`` and ``last``: in event time, not in the order of arrival."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from eventide.aggregates.aggregate import Accumulator, Aggregate, Parts, Source
from eventide.aggregates.entries import present, timed_values


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
    """The value of the row with the least event time; among equals, of the one that arrived first.

    Where rows can be taken back, equals go by value: the least one.

    >>> from eventide.aggregates import try_out
    >>> rows = {"at": [20, 10, 15], "price": [5, None, 7]}
    >>> try_out(rows, time="at", first=first("price"), known=first("price", ignore_nulls=True))
    {'first': None, 'known': 7}
    """
    return First(column, ignore_nulls)


def last(column: str, *, ignore_nulls: bool = False) -> Last:
    """The value of the row with the greatest event time; among equals, of the one that arrived last.

    Where rows can be taken back, equals go by value: the greatest one.

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
    # Without the value's time a merge could not tell which of two cells holds the end.
    known = f"known {column}" if ignore_nulls else column
    name, at = f"{word}({known})", f"{word}_time({known if ignore_nulls else '*'})"
    chosen = ValueAtEnd(
        name,
        dtype,
        _at(word, pl.col(column), pl.col(source.time)),
        _at(word, pl.col(name), pl.col(at)),
        word=word,
        value=column,
        time=source.time,
        at=at,
        ignore_nulls=ignore_nulls,
    )
    time = _known(column, source.time) if ignore_nulls else pl.col(source.time)
    reach = (time.min(), pl.col(at).min()) if word == "first" else (time.max(), pl.col(at).max())
    return Parts([chosen, Accumulator(at, pl.Int64(), *reach)], pl.col(name))


@dataclass(frozen=True, eq=False)
class ValueAtEnd(Accumulator):
    """The value at the least or greatest time. Where rows stand in order of time, the first or last row."""

    word: str = ""
    value: str = ""
    time: str = ""
    at: str = ""
    """The accumulator of that time."""
    ignore_nulls: bool = False

    def starting(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.Expr:  # noqa: D102
        if self.ignore_nulls:
            return _at(self.word, pl.col(self.value), _known(self.value, self.time))
        return _chosen(self.word, rows, self.value, self.time)

    def merging(self, cells: pl.DataFrame, by: Sequence[str]) -> pl.Expr:  # noqa: D102
        return _chosen(self.word, cells, self.name, self.at)


def _chosen(word: str, frame: pl.DataFrame, value: str, time: str) -> pl.Expr:
    flags = frame[time].flags
    if flags["SORTED_ASC"] and not frame[time].null_count():
        return pl.col(value).first() if word == "first" else pl.col(value).last()
    if flags["SORTED_ASC"] or flags["SORTED_DESC"]:
        # Inside a group Polars misreads a reversed sorted column (pola-rs/polars#26141); a new one is safe.
        return _at(word, pl.col(value), _known(time, time))
    return _at(word, pl.col(value), pl.col(time))


def _known(column: str, time: str) -> pl.Expr:
    """The times of the rows whose ``column`` is not null."""
    return pl.when(pl.col(column).is_not_null()).then(pl.col(time))


def _at(word: str, value: pl.Expr, time: pl.Expr) -> pl.Expr:
    # min_by and max_by take the first of equals; reversed, that is the last.
    return value.min_by(time) if word == "first" else value.reverse().max_by(time.reverse())
