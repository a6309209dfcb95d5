"""``reduce``, ``fold`` and ``MergeAggregate``: aggregates from user functions, row by row in Python."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import polars as pl

from eventide._column_refs import Column, condition, masked
from eventide._hints import with_option_hints
from eventide.aggregates.aggregate import Aggregate, Parts, Source
from eventide.aggregates.errors import bad_on_error, unfinished_aggregate
from eventide.aggregates.row_functions import called
from eventide.errors import PlanError, shown
from eventide.panes import INPUT


@dataclass(frozen=True, repr=False)
class Reduce(Aggregate):
    """Combines the values of a column two at a time."""

    fn: Callable[[Any, Any], Any]
    reads: str = ""
    dtype: pl.DataType | None = None
    on_error: Literal["dead", "raise"] = "dead"

    word: ClassVar[str] = "reduce"

    def bind(self, source: Source) -> Parts:
        dtype = source.dtype(self.reads, self)
        return super(Reduce, self if self.dtype is not None else replace(self, dtype=dtype)).bind(source)

    def __repr__(self) -> str:
        return f"<{self}>"

    def __str__(self) -> str:
        return f"reduce({called(self.fn)}, {self.reads})"

    def create(self) -> Any:
        return None

    def add(self, state: Any, row: Any) -> Any:
        return row if state is None else self.fn(state, row)

    def merge(self, first: Any, second: Any) -> Any:
        return second if first is None else first if second is None else self.fn(first, second)

    @property
    def written(self) -> Mapping[str, Callable[..., Any]]:
        """The user's function of each method."""
        return {"add": self.fn, "merge": self.fn}


@dataclass(frozen=True, repr=False)
class FoldInOrder(Aggregate):
    """Adds rows to a value in the order of event time. All rows of a window are kept."""

    initial: Any
    fn: Callable[[Any, Any], Any]
    reads: str | None = None
    dtype: pl.DataType | None = None
    on_error: Literal["dead", "raise"] = "dead"
    where: str | None = None

    word: ClassVar[str] = "fold"

    def __repr__(self) -> str:
        return f"<{self}>"

    def __str__(self) -> str:
        return f"fold({self.initial!r}, {called(self.fn)}{'' if self.where is None else f' where {self.where}'})"

    def create(self) -> Any:
        return copy.deepcopy(self.initial)

    def add(self, state: Any, row: Any) -> Any:
        return self.fn(state, row)

    @property
    def written(self) -> Mapping[str, Callable[..., Any]]:
        """The user's function of each method."""
        return {"add": self.fn}


@dataclass(frozen=True, repr=False)
class Fold(FoldInOrder):
    """Adds rows to a value as they arrive, and merges such values. No rows are kept."""

    merger: Callable[[Any, Any], Any] = field(kw_only=True)

    def merge(self, first: Any, second: Any) -> Any:
        return self.merger(first, second)

    @property
    def written(self) -> Mapping[str, Callable[..., Any]]:
        """The user's function of each method."""
        return {"add": self.fn, "merge": self.merger}


@with_option_hints
def reduce(
    fn: Callable[[Any, Any], Any],
    column: Column,
    *,
    dtype: pl.DataType | None = None,
    on_error: Literal["dead", "raise"] = "dead",
    where: Column | None = None,
) -> Reduce:
    """The values of a column combined two at a time. Nulls are skipped.

    ``fn`` must be associative and commutative: rows arrive in any order, divided among tasks in any way.

    The result has the type of the column, or ``dtype``. A row on which ``fn`` raises becomes a dead letter
    and counts in no aggregate; with ``on_error="raise"`` the job stops.

    >>> import math
    >>> from eventide.aggregates import try_out
    >>> try_out({"size": [12, None, 18]}, divisor=reduce(math.gcd, "size"))
    {'divisor': 6}
    """
    _check("reduce", on_error, fn=fn)
    return Reduce(fn, masked("reduce", column, where), dtype, on_error)


@with_option_hints
def fold(
    initial: Any,
    fn: Callable[[Any, Any], Any],
    *,
    merge: Callable[[Any, Any], Any] | None = None,
    column: Column | None = None,
    dtype: pl.DataType | None = None,
    on_error: Literal["dead", "raise"] = "dead",
    where: Column | None = None,
) -> FoldInOrder:
    """Rows added to a value one by one: ``fn(value, row)``, where ``row`` is a dict.

    With ``column``, ``fn`` gets its values instead of rows, without nulls. With ``merge(first, second)``, partial
    values are merged and no rows are kept. Rows are added as they arrive, so the result must not depend on their
    order. Without it, rows are kept, and added in the order of event time; among equals in that of their values.
    The type of the result is that of ``initial``, or ``dtype``.

    With ``merge``, a row on which ``fn`` raises becomes a dead letter and counts in no aggregate, or stops the
    job with ``on_error="raise"``. Without it, it always stops the job.

    >>> from eventide.aggregates import try_out
    >>> rows = {"side": ["buy", "sell", "buy"], "size": [5, 2, 1]}
    >>> def position(held, row):
    ...     return held + row["size"] if row["side"] == "buy" else held - row["size"]
    >>> try_out(rows, held=fold(0, position, merge=lambda first, second: first + second))
    {'held': 4}
    """
    _check("fold", on_error, fn=fn, **({} if merge is None else {"merge": merge}))
    dtype = _dtype_of(initial) if dtype is None else dtype
    reads, test = None, None
    if column is not None:
        reads = masked("fold", column, where)
    elif where is not None:  # the function gets whole rows
        test = condition("fold", where)
    if merge is None:
        return FoldInOrder(initial, fn, reads, dtype, on_error, test)
    return Fold(initial, fn, reads, dtype, on_error, test, merger=merge)


def _check(word: str, on_error: object, **functions: object) -> None:
    for option, value in functions.items():
        if not callable(value):
            raise PlanError(f"{word}: {option}={shown(value)} is not a function.")
    if on_error not in ("dead", "raise"):
        raise bad_on_error(word, on_error)


def _dtype_of(initial: Any) -> pl.DataType:
    types: dict[type, pl.DataType] = {
        bool: pl.Boolean(),
        int: pl.Int64(),
        float: pl.Float64(),
        str: pl.String(),
        bytes: pl.Binary(),
    }
    if type(initial) not in types:
        raise PlanError(
            f"fold: the result type cannot be inferred from {shown(initial)}. Set it, such as dtype=pl.List(pl.Int64)."
        )
    return types[type(initial)]


class MergeAggregate(Aggregate):
    """One state for the rows of several inputs of a cogroup. Subclass it, as a row-wise ``Aggregate``.

    Override ``create``, ``accumulate``, ``merge`` and, where the state is not the result, ``result``; ``dtype`` is the
    type of the results. Without ``merge``, rows are kept and added in the order of event time.

    >>> import eventide as ev, polars as pl
    >>> class Balance(MergeAggregate):
    ...     dtype = pl.Int64()
    ...     def create(self):
    ...         return 0
    ...     def accumulate(self, balance, input, row):
    ...         return balance + row["amount"] if input == "paid" else balance - row["price"]
    ...     def merge(self, first, second):
    ...         return first + second
    >>> paid, bought = (ev.stream(time="t", key="user") for _ in range(2))
    >>> both = ev.cogroup({"paid": paid, "bought": bought}, window=ev.tumbling("1 minute"), agg={"balance": Balance()})
    >>> rows = {"paid": pl.DataFrame({"t": [1], "user": ["eva"], "amount": [30]}),
    ...         "bought": pl.DataFrame({"t": [2, 3], "user": ["eva", "eva"], "price": [5, 6]})}
    >>> both.local(rows).panes.select("user", "balance").row(0)
    ('eva', 19)
    """

    def accumulate(self, state: Any, input: str, row: dict[str, Any]) -> Any:
        """Return the state with one more row of this input."""
        raise unfinished_aggregate(self, "accumulate")

    def add(self, state: Any, row: Any) -> Any:
        """Return the state with one more row of any input."""
        return self.accumulate(state, row[INPUT], row[row[INPUT]])

    def bind(self, source: Source) -> Parts:
        """Bind as any aggregate. Rows must have the name of their input."""
        if INPUT not in source.schema:
            raise PlanError(
                f"{self} accumulates the rows of several inputs. Use it in ev.cogroup(…, agg=…); for one "
                "input, subclass ev.Aggregate."
            )
        return super().bind(source)
