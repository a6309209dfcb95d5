"""Aggregate calls of a query as aggregates of the library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import polars as pl
from sqlglot import exp

from eventide import aggregates
from eventide.aggregates import Aggregate
from eventide.errors import PlanError
from eventide.streamsql.errors import unsupported
from eventide.streamsql.expressions import has_aggregate
from eventide.streamsql.select_clause import TableColumns
from eventide.streamsql.source_positions import LocatedError, locate
from eventide.streamsql.syntax import AGGREGATES, PYTHON_AGGREGATES, constant

_EXAMPLES = {
    "count": "COUNT(*), COUNT(column) or COUNT(DISTINCT column)",
    "min_by": "MIN_BY(value, by)",
    "max_by": "MAX_BY(value, by)",
    "top_n": "TOP_N(column, 3)",
    "top_n_by_key": "TOP_N_BY_KEY(value, key, 3)",
    "quantile": "QUANTILE(column, 0.95), or PERCENTILE_CONT(0.95) WITHIN GROUP (ORDER BY column)",
    "approx_quantile": "APPROX_QUANTILE(column, 0.95)",
    "approx_distinct": "APPROX_DISTINCT(column)",
    "collect_sorted": "SORT(column), or SORT(column, descending => TRUE)",
    "composite": "COMPOSITE(n => COUNT(*), total => SUM(price))",
}
# How many columns each reads; what follows them are constants.
_COLUMNS = {"min_by": 2, "max_by": 2, "top_n_by_key": 2}
_CONSTANTS = {"top_n": 1, "top_n_by_key": 1, "quantile": 1, "approx_quantile": 1}
_WITH_NULLS = ("first", "last")
_DISTINCT = {"count": "count_distinct", "collect_list": "collect_set"}


@dataclass(frozen=True)
class AggregateCalls:
    """Builds aggregates from calls. ``computed`` names the column of an argument that is not a plain column."""

    names: TableColumns
    computed: Callable[[exp.Expr], str]

    def call(self, node: exp.Expr) -> Aggregate:
        """Return the aggregate of a call, also inside FILTER, IGNORE NULLS or WITHIN GROUP."""
        where, nulls, within = None, None, None
        inner: Any = node
        while not isinstance(inner, exp.Anonymous):
            if isinstance(inner, exp.Filter):
                where = inner.expression.this
            elif isinstance(inner, exp.IgnoreNulls | exp.RespectNulls):
                nulls = inner
            elif isinstance(inner, exp.WithinGroup):
                within = inner.expression.expressions
            inner = inner.this
        word = inner.name.lower()
        if word in PYTHON_AGGREGATES:
            raise LocatedError(
                inner,
                f"{word.upper()} needs a function of Python's. Build this pipeline in Python: .agg(x=ev.{word}(…)).",
            )
        arguments = self._arguments(inner, within)
        if arguments and isinstance(
            arguments[0], exp.IgnoreNulls | exp.RespectNulls
        ):  # the standard's place: LAST(x IGNORE …)
            nulls, arguments = arguments[0], [arguments[0].this, *arguments[1:]]
        if nulls is not None and AGGREGATES[word] not in _WITH_NULLS:
            raise LocatedError(
                inner, f"{word.upper()} takes neither IGNORE NULLS nor RESPECT NULLS: FIRST and LAST do. Leave it out."
            )
        return self._called(inner, AGGREGATES[word], arguments, where, isinstance(nulls, exp.IgnoreNulls))

    def _arguments(self, call: exp.Anonymous, within: Any) -> list[Any]:
        arguments = list(call.expressions)
        if any(isinstance(argument, exp.Order) for argument in arguments):
            raise LocatedError(
                call,
                f"{call.name.upper()}(… ORDER BY …) is not supported. Use SORT(column), or SORT(column, "
                "descending => TRUE).",
            )
        if within is None:
            return arguments
        if AGGREGATES[call.name.lower()] != "quantile" or len(within) != 1:
            raise LocatedError(call, _aggregate_arguments(call.name.upper(), _EXAMPLES["quantile"]))
        if within[0].args.get("desc"):
            arguments = [_descending_share(argument) for argument in arguments]
        return [within[0].this, *arguments]

    def _called(
        self, call: exp.Anonymous, name: str, arguments: list[Any], where: Any, ignore_nulls: bool
    ) -> Aggregate:
        wrong = _aggregate_arguments(call.name.upper(), _EXAMPLES.get(name, f"{call.name.upper()}(column)"))
        named = {
            argument.this.name.lower(): argument.expression for argument in arguments if isinstance(argument, exp.Kwarg)
        }
        arguments = [argument for argument in arguments if not isinstance(argument, exp.Kwarg)]
        if name == "composite":
            if where is not None:
                inner = f"COMPOSITE(total => SUM(price) FILTER (WHERE {where.sql()}))"
                raise LocatedError(call, unsupported("FILTER of COMPOSITE", f"Filter the aggregates in it: {inner}."))
            if arguments or not named:
                raise LocatedError(call, wrong)
            return self._composite(call, named)
        options = {option: constant(value, call.name.upper()) for option, value in named.items()}
        options |= {"ignore_nulls": True} if ignore_nulls else {}
        distinct = bool(arguments) and isinstance(arguments[0], exp.Distinct)
        if distinct:
            if name not in (*_DISTINCT, "min", "max") or len(arguments[0].expressions) != 1:
                raise LocatedError(
                    call,
                    f"{call.name.upper()}(DISTINCT …) is not supported. COUNT, MIN, MAX and ARRAY_AGG take DISTINCT.",
                )
            arguments = [*arguments[0].expressions, *arguments[1:]]
        if name == "count" and (not arguments or isinstance(arguments[0], exp.Star)):
            arguments = []
        elif len(arguments) != _COLUMNS.get(name, 1) + _CONSTANTS.get(name, 0) or isinstance(arguments[0], exp.Star):
            raise LocatedError(call, wrong)
        columns = [self._column(argument) for argument in arguments[: _COLUMNS.get(name, 1)]]
        options |= {} if where is None else {"where": pl.col(self._column(where))}
        rest = [constant(argument, call.name.upper()) for argument in arguments[_COLUMNS.get(name, 1) :]]
        build: Any = getattr(aggregates, _DISTINCT.get(name, name) if distinct else name)
        with locate(call):
            try:
                aggregate: Aggregate = build(*columns, *rest, **options)
                return aggregate
            except TypeError:
                raise LocatedError(call, wrong) from None

    def _composite(self, call: exp.Anonymous, named: dict[str, Any]) -> Aggregate:
        parts = {name: self.call(call_node) for name, call_node in named.items()}
        with locate(call):
            return aggregates.composite(**parts)

    def _column(self, node: exp.Expr) -> str:
        """Return the column of an argument or condition: a column of the rows, or a computed one."""
        if has_aggregate(node):
            raise LocatedError(
                node, unsupported("An aggregate inside another", "Aggregate the result in an outer query.")
            )
        spelt = self.names.resolve(node)
        if isinstance(spelt, exp.Column):
            return spelt.name
        return self.computed(spelt)


def _descending_share(share: exp.Expr) -> exp.Expr:
    """Return the share of a descending order."""
    plain = isinstance(share, exp.Literal) and not share.is_string
    return exp.Literal.number(str(1 - Decimal(share.name))) if plain else share


def aggregate_name(aggregate: Aggregate) -> str:
    """Return a readable name for a result without an alias.

    >>> from eventide import aggregates
    >>> aggregate_name(aggregates.sum("price")), aggregate_name(aggregates.count())
    ('sum_price', 'count')
    """
    text = str(aggregate)
    return "_".join("".join(letter if letter.isalnum() or letter == "_" else " " for letter in text).split())


def _aggregate_arguments(name: str, example: str) -> PlanError:
    """An aggregate that is called wrongly."""
    return PlanError(f"{name} cannot be called like this. Write {example}.")
