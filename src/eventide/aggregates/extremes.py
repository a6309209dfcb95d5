"""``min``, ``max``, ``min_by``, ``max_by``, and ``first`` and ``last`` in event time.

For ``first`` and ``last``, a time and a value of at most 64 bits are combined into one number. The first value is then
a minimum, and the last a maximum, which does not depend on the order of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl

from eventide._column_refs import Column, column, condition, masked
from eventide._hints import with_option_hints
from eventide.aggregates.aggregate import Accumulator, Aggregate, Parts, Source
from eventide.aggregates.value_lists import multiset, one_zero, present, sortable, tie, timed_values, values


@dataclass(frozen=True)
class _Extreme(Aggregate):
    column: str

    def bind(self, source: Source) -> Parts:
        return _extreme(self, self.column, source)


class Min(_Extreme):
    """The least value of ``column``."""

    word: ClassVar[str] = "min"


class Max(_Extreme):
    """The greatest value of ``column``."""

    word: ClassVar[str] = "max"


@dataclass(frozen=True)
class _Companion(Aggregate):
    value: str
    by: str

    def bind(self, source: Source) -> Parts:
        return _companion(self, self.value, self.by, source)


class MinBy(_Companion):
    """The ``value`` of the row where ``by`` is least."""

    word: ClassVar[str] = "min_by"


class MaxBy(_Companion):
    """The ``value`` of the row where ``by`` is greatest."""

    word: ClassVar[str] = "max_by"


@with_option_hints
def min(column: Column, *, where: Column | None = None) -> Min:
    """The least value of a column. Nulls are skipped; NaN is greater than everything, as in Spark.

    >>> from eventide.aggregates import try_out
    >>> try_out({"price": [5.0, None, float("nan")]}, low=min("price"))
    {'low': 5.0}
    """
    return Min(masked("min", column, where))


@with_option_hints
def max(column: Column, *, where: Column | None = None) -> Max:
    """The greatest value of a column. Nulls are skipped; NaN is greater than everything, as in Spark.

    >>> from eventide.aggregates import try_out
    >>> try_out({"name": ["ann", None, "bob"]}, high=max("name"))
    {'high': 'bob'}
    """
    return Max(masked("max", column, where))


@with_option_hints
def min_by(value: Column, by: Column, *, where: Column | None = None) -> MinBy:
    """The value of the row where ``by`` is least. Rows without ``by`` are skipped.

    Among equals the earliest in event time wins, then the least value.

    >>> from eventide.aggregates import try_out
    >>> try_out({"shop": ["x", "y"], "price": [7, 5]}, cheapest=min_by("shop", "price"))
    {'cheapest': 'y'}
    """
    return MinBy(column("min_by", value), masked("min_by", by, where))


@with_option_hints
def max_by(value: Column, by: Column, *, where: Column | None = None) -> MaxBy:
    """The value of the row where ``by`` is greatest. Rows without ``by`` are skipped.

    Among equals the earliest in event time wins, then the least value.

    >>> from eventide.aggregates import try_out
    >>> try_out({"shop": ["x", "y"], "price": [7, 5]}, dearest=max_by("shop", "price"))
    {'dearest': 'x'}
    """
    return MaxBy(column("max_by", value), masked("max_by", by, where))


def extreme(word: str, column: str, dtype: pl.DataType) -> Accumulator:
    """Return the accumulator of a least or greatest value."""
    name = f"{word}({column})"
    start = _reduced(word, one_zero(pl.col(column), dtype), dtype)
    return Accumulator(name, dtype, start, _reduced(word, pl.col(name), dtype), ordered=False)


def _extreme(aggregate: Aggregate, column: str, source: Source) -> Parts:
    dtype = sortable(source, column, aggregate)
    if source.diff is None:
        accumulator = extreme(aggregate.word, column, dtype)
        return Parts([accumulator], pl.col(accumulator.name))
    entries = values(source, column)
    end = 0 if aggregate.word == "min" else -1
    return Parts([entries], present(entries).list.get(end, null_on_oob=True).struct.field("value"))


def _reduced(word: str, value: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    if word == "min":
        return value.min()
    # Polars skips NaN; for Spark it is the greatest value.
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
        entries = multiset(name, source, entry, keep=pl.col(by).is_not_null(), descending=down)
        return Parts([entries], present(entries).list.get(0, null_on_oob=True).struct.field("value"))
    limit = extreme(word.removesuffix("_by"), by, by_dtype)
    at = f"{word}_time({by})"
    values: list[pl.Expr] = []
    times: list[pl.Expr] = []
    for source_column, when, order in ((value, source.time, by), (name, at, limit.name)):
        best = pl.col(order) == _reduced(limit.name[:3], pl.col(order), by_dtype)
        earliest = pl.col(when).filter(best).min()
        times.append(earliest)
        values.append(tie("first", pl.col(source_column).filter(best & (pl.col(when) == earliest)), dtype))
    return Parts(
        [
            Accumulator(name, dtype, values[0], values[1], ordered=False),
            limit,
            Accumulator(at, pl.Int64(), times[0], times[1], ordered=False),
        ],
        pl.col(name),
    )


_NULL = 2**64  # the greatest of all values
_STEP = 2 * _NULL
_SIGN = np.uint64(2**63)
_FITS = (
    *(pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32),
    *(pl.Float32, pl.Float64, pl.Boolean, pl.Date, pl.Datetime, pl.Time, pl.Duration),
)


def fits(dtype: pl.DataType) -> bool:
    """Return whether values of a type fit into one number with a time."""
    return dtype.base_type() in _FITS


@dataclass(frozen=True)
class Ranks:
    """A column of event times and values as numbers of 128 bits, in the order of both. Null is the greatest value."""

    name: str
    column: str
    time: str
    dtype: pl.DataType
    ignore_nulls: bool
    where: str | None = None

    @property
    def reads(self) -> Sequence[str]:
        """The columns of rows that are read."""
        return (self.column, self.time) if self.where is None else (self.column, self.time, self.where)

    @property
    def columns(self) -> Sequence[str]:
        """The column of numbers."""
        return (self.name,)

    def adder(self, rows: pl.DataFrame, size: int) -> None:
        """Return None: the numbers are not added up."""

    def needs_recompute(self) -> None:
        """Return None: each row is always computed separately."""

    def of_rows(self, rows: pl.DataFrame, *, per_row: bool) -> Mapping[str, pl.Series]:
        """Return the number of each row; null where nulls are skipped."""
        values = rows[self.column]
        rank = pl.lit(pl.Series(_ranks(values))).cast(pl.Int128)
        if values.null_count():
            null = pl.lit(None if self.ignore_nulls else _NULL, pl.Int128)
            rank = pl.when(pl.col(self.column).is_not_null()).then(rank).otherwise(null)
        number = pl.col(self.time).cast(pl.Int128) * pl.lit(_STEP, pl.Int128) + rank
        number = number if self.where is None else pl.when(pl.col(self.where)).then(number)
        return {self.name: rows.select(number.alias(self.name)).to_series()}

    def needs_alignment(self, frame: pl.DataFrame) -> bool:
        """Return False: nothing needs to be aligned."""
        return False

    def align(self, frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the frame."""
        return frame

    def values(self, cells: pl.DataFrame) -> pl.Series:
        """Return the values of the numbers in cells."""
        rank = pl.col(self.name) % pl.lit(_STEP, pl.Int128)
        known = (rank < pl.lit(_NULL, pl.Int128)).fill_null(False)
        zero = pl.lit(int(_SIGN), pl.Int128)  # a value that every type has
        decoded = cells.select(known=known, rank=pl.when(known).then(rank).otherwise(zero).cast(pl.UInt64))
        values = _values(decoded["rank"].to_numpy(), self.dtype)
        return pl.select(pl.when(decoded["known"]).then(values)).to_series()


def _ranks(values: pl.Series) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Return numbers in the order of values: NaN is the greatest, and both zeros are equal."""
    dtype = values.dtype
    if not dtype.is_float():
        return values.cast(pl.Int64).fill_null(0).to_numpy().view(np.uint64) ^ _SIGN
    floats = values.cast(pl.Float64).fill_null(0.0).to_numpy() + 0.0
    bits = np.where(np.isnan(floats), np.nan, floats).view(np.uint64)
    return np.where(bits >= _SIGN, ~bits, bits ^ _SIGN)


def _values(ranks: np.ndarray[tuple[int], np.dtype[np.uint64]], dtype: pl.DataType) -> pl.Series:
    if not dtype.is_float():
        return pl.Series((ranks ^ _SIGN).view(np.int64)).cast(dtype)
    bits = np.where(ranks >= _SIGN, ranks ^ _SIGN, ~ranks)
    return pl.Series(bits.view(np.float64)).cast(dtype)


@dataclass(frozen=True)
class _End(Aggregate):
    column: str
    ignore_nulls: bool = False
    where: str | None = None

    def bind(self, source: Source) -> Parts:
        return _end(self, self.column, self.ignore_nulls, self.where, source)


class First(_End):
    """The value of ``column`` in the row that happened first."""

    word: ClassVar[str] = "first"


class Last(_End):
    """The value of ``column`` in the row that happened last."""

    word: ClassVar[str] = "last"


@with_option_hints
def first(column: Column, *, ignore_nulls: bool = False, where: Column | None = None) -> First:
    """The value of the row with the least event time; among equals the least value. Null is the greatest.

    The order of arrival makes no difference.

    >>> from eventide.aggregates import try_out
    >>> rows = {"at": [20, 10, 15], "price": [5, None, 7]}
    >>> try_out(rows, time="at", first=first("price"), known=first("price", ignore_nulls=True))
    {'first': None, 'known': 7}
    """
    return First(*_read("first", column, ignore_nulls, where))


@with_option_hints
def last(column: Column, *, ignore_nulls: bool = False, where: Column | None = None) -> Last:
    """The value of the row with the greatest event time; among equals the greatest value. Null is the greatest.

    The order of arrival makes no difference.

    >>> from eventide.aggregates import try_out
    >>> try_out({"at": [20, 10, 15], "price": [5, None, 7]}, time="at", price=last("price"))
    {'price': 5}
    """
    return Last(*_read("last", column, ignore_nulls, where))


def _read(word: str, value: Any, ignore_nulls: bool, where: Any) -> tuple[str, bool, str | None]:
    """Return the column, ``ignore_nulls`` and the condition. Where nulls are skipped, the condition makes nulls."""
    if ignore_nulls or where is None:
        return masked(word, value, where), ignore_nulls, None
    return column(word, value), ignore_nulls, condition(word, where)


def _end(aggregate: Aggregate, column: str, ignore_nulls: bool, where: str | None, source: Source) -> Parts:
    dtype = source.dtype(column, aggregate)
    word = aggregate.word
    if source.diff is not None:
        entries = timed_values(source, column, where)
        listed = present(entries)
        if ignore_nulls:
            entry = pl.element()
            listed = listed.list.eval(entry.filter(entry.struct.field("value").is_not_null()))
        end = 0 if word == "first" else -1
        return Parts([entries], listed.list.get(end, null_on_oob=True).struct.field("value"))
    known = f"known {column}" if ignore_nulls else column if where is None else f"{column} where {where}"
    name = f"{word}({known})"
    if fits(dtype):
        ranks = Ranks(name, column, source.time, dtype, ignore_nulls, where)
        chosen = _end_of(word, pl.col(name))
        return Parts([Accumulator(name, pl.Int128(), chosen, chosen, ordered=False, prepared=ranks)], ranks.values)
    # A merge needs the value's time to choose between two cells.
    at = f"{word}_time({known if ignore_nulls else '*' if where is None else f'* where {where}'})"
    time = pl.col(source.time)
    if ignore_nulls:
        time = pl.when(pl.col(column).is_not_null()).then(time)
    if where is not None:
        time = pl.when(pl.col(where)).then(time)
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
