"""Aggregates: a call in a query as an aggregate of the library, and what is made of its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlglot import exp

from eventide import aggregates
from eventide.aggregates import Aggregate
from eventide.errors import sql as errors
from eventide.errors import sql_expressions as expression_errors
from eventide.streamsql.catalogue import AGGREGATES, IN_PYTHON
from eventide.streamsql.expressions import has_aggregate
from eventide.streamsql.names import Names
from eventide.streamsql.places import At, said_at
from eventide.streamsql.reading import constant

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
class Caller:
    """Reads calls. ``computed`` gives the name of a column for what an aggregate is of, if that is no plain column."""

    names: Names
    computed: Callable[[exp.Expr], str]

    def call(self, node: exp.Expr) -> Aggregate:
        """The aggregate that a call means. It may be inside FILTER, IGNORE NULLS or WITHIN GROUP."""
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
        if word in IN_PYTHON:
            raise At(inner, errors.aggregate_in_python(word.upper()))
        given = self._arguments(inner, within)
        if given and isinstance(given[0], exp.IgnoreNulls | exp.RespectNulls):  # the standard's place: LAST(x IGNORE …)
            nulls, given = given[0], [given[0].this, *given[1:]]
        if nulls is not None and AGGREGATES[word] not in _WITH_NULLS:
            raise At(inner, expression_errors.nulls_not_for(word.upper()))
        return self._called(inner, AGGREGATES[word], given, where, isinstance(nulls, exp.IgnoreNulls))

    def _arguments(self, call: exp.Anonymous, within: Any) -> list[Any]:
        given = list(call.expressions)
        if any(isinstance(one, exp.Order) for one in given):
            raise At(call, expression_errors.order_not_for(call.name.upper()))
        if within is None:
            return given
        if AGGREGATES[call.name.lower()] != "quantile" or len(within) != 1:
            raise At(call, errors.aggregate_arguments(call.name.upper(), _EXAMPLES["quantile"]))
        if within[0].args.get("desc"):
            given = [_from_the_end(one) for one in given]
        return [within[0].this, *given]

    def _called(self, call: exp.Anonymous, name: str, given: list[Any], where: Any, ignore_nulls: bool) -> Aggregate:
        wrong = errors.aggregate_arguments(call.name.upper(), _EXAMPLES.get(name, f"{call.name.upper()}(column)"))
        named = {one.this.name.lower(): one.expression for one in given if isinstance(one, exp.Kwarg)}
        given = [one for one in given if not isinstance(one, exp.Kwarg)]
        if name == "composite":
            if given or not named or where is not None:
                raise At(call, wrong)
            return self._composite(call, named)
        options = {option: constant(value, call.name.upper()) for option, value in named.items()}
        options |= {"ignore_nulls": True} if ignore_nulls else {}
        distinct = bool(given) and isinstance(given[0], exp.Distinct)
        if distinct:
            if name not in (*_DISTINCT, "min", "max") or len(given[0].expressions) != 1:
                raise At(call, errors.distinct_not_for(call.name.upper()))
            given = [*given[0].expressions, *given[1:]]
        if where is not None and name in _WITH_NULLS and not ignore_nulls:
            raise At(call, errors.filter_not_for(call.name.upper()))
        if name == "count" and (not given or isinstance(given[0], exp.Star)):
            given = [] if where is None else [exp.Literal.number(1)]
        elif len(given) != _COLUMNS.get(name, 1) + _CONSTANTS.get(name, 0) or isinstance(given[0], exp.Star):
            raise At(call, wrong)
        columns = [self._column(one, where) for one in given[: _COLUMNS.get(name, 1)]]
        rest = [constant(one, call.name.upper()) for one in given[_COLUMNS.get(name, 1) :]]
        build: Any = getattr(aggregates, _DISTINCT.get(name, name) if distinct else name)
        with said_at(call):
            try:
                aggregate: Aggregate = build(*columns, *rest, **options)
                return aggregate
            except TypeError:
                raise At(call, wrong) from None

    def _composite(self, call: exp.Anonymous, named: dict[str, Any]) -> Aggregate:
        parts = {name: self.call(one) for name, one in named.items()}
        with said_at(call):
            return aggregates.composite(**parts)

    def _column(self, node: exp.Expr, where: exp.Expr | None) -> str:
        """What an aggregate is of; with a filter, null where that does not hold."""
        if has_aggregate(node) or has_aggregate(where):
            raise At(node, errors.not_here("An aggregate inside another", "Aggregate the result in an outer query."))
        spelt = self.names.spelt(node)
        if where is not None:
            spelt = exp.Case().when(self.names.spelt(where), spelt)
        if isinstance(spelt, exp.Column):
            return spelt.name
        return self.computed(spelt)


def _from_the_end(share: exp.Expr) -> exp.Expr:
    """The share of what is ordered from the greatest on."""
    plain = isinstance(share, exp.Literal) and not share.is_string
    return exp.Literal.number(str(1 - Decimal(share.name))) if plain else share


def name_of(aggregate: Aggregate) -> str:
    """A readable name for a result that has none.

    >>> from eventide import aggregates
    >>> name_of(aggregates.sum("price")), name_of(aggregates.count())
    ('sum_price', 'count')
    """
    said = str(aggregate)
    return "_".join("".join(letter if letter.isalnum() or letter == "_" else " " for letter in said).split())
