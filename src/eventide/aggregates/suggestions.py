"""What to write for an aggregate that is a text, a Polars expression or a function of another package."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import polars as pl

from eventide._column_refs import is_row_wise
from eventide._familiar import FAMILIAR

_CALL = re.compile(r"(\w+)\s*\(\s*(distinct\s+)?(.*?)\s*\)", re.IGNORECASE | re.DOTALL)  # as in SQL
_METHOD = re.compile(r"(.*)\.(\w+)\((.*)\)", re.DOTALL)  # as in Polars
_COLUMN = re.compile(r'col\("([^"]*)"\)')
_PERCENTILE = re.compile(r"p(\d\d?)")
_NUMBER = re.compile(r"\d*\.\d+")
_ROWS = {"count", "len", "size"}  # without a column
_MORE: Mapping[str, str] = {
    "quantile": "ev.quantile(column, 0.95)",
    "approx_quantile": "ev.approx_quantile(column, 0.95)",
    "top_n": "ev.top_n(column, 3)",
    "top_n_by_key": "ev.top_n_by_key(value, key, 3)",
    "max_by": "ev.max_by(column, by)",
    "min_by": "ev.min_by(column, by)",
    "reduce": "ev.reduce(function, column)",
    "fold": "ev.fold(initial, function)",
    "composite": "ev.composite(a=ev.count(), b=ev.sum(column))",
    "list": "ev.collect_list(column)",
    "implode": "ev.collect_list(column)",
    "set": "ev.collect_set(column)",
    "unique": "ev.collect_set(column)",
}


def of_text(text: str) -> str | None:
    """Return the aggregate that a text means, as code; None: the text names none.

    >>> of_text("avg"), of_text("SUM(price)"), of_text("count(*)"), of_text("p95"), of_text("price")
    ('ev.mean(column)', "ev.sum('price')", 'ev.count()', 'ev.quantile(column, 0.95)', None)
    """
    call = _CALL.fullmatch(text.strip())
    if call is None:
        return _named(text)
    word, distinct, column = call.groups()
    return _named("count_distinct" if distinct else word, "" if column in ("*", "1") else column.strip("`\"'"))


def of_expression(expression: pl.Expr, name: str) -> str:
    """Return what to write for an expression of Polars as the result ``name``.

    >>> of_expression(pl.col("price").mean(), "n")
    "Write n=ev.mean('price')."
    """
    text = str(expression.meta.undo_aliases())
    call = _METHOD.fullmatch(text)
    if text == "len()":
        return f"Write {name}=ev.count()."
    code = None if call is None else _named(call[2], "column")
    if call is None or code is None:
        if is_row_wise(expression):
            return f"Name what to do with the values: {name}=ev.sum(expression)."
        return f"Write an aggregate for each part, such as {name}=ev.sum('price'), and compute the rest from the panes."
    if call[2] == "quantile" and (quantile := _NUMBER.search(call[3])):
        code = code.replace("0.95", quantile[0])
    column = _COLUMN.fullmatch(call[1])
    if column is None:
        return f"Pass the expression without .{call[2]}(): {name}={_with(code, 'expression')}."
    return f"Write {name}={_with(code, repr(column[1]))}."


def of_pair(pair: Any) -> str | None:
    """Return the aggregate that a column and a word mean, as pandas writes it: ``("price", "mean")``.

    >>> of_pair(("price", "mean"))
    "ev.mean('price')"
    """
    column, word = pair
    return _named(word, column) if isinstance(column, str) and isinstance(word, str) else None


def _named(word: str, column: str = "") -> str | None:
    """Return the aggregate of a name, with its column if that is known."""
    if (percent := _PERCENTILE.fullmatch(word)) is not None:
        return f"ev.quantile(column, 0.{percent[1]})"
    for name in (word, word.lower()):
        if name in _ROWS and not (column and name == "count"):
            return "ev.count()"
        code = _MORE.get(name) or (f"ev.{name}(column)" if name in aggregates() else FAMILIAR["eventide"].get(name))
        if code is not None and code.partition("(")[0].removeprefix("ev.") in aggregates():
            return _with(code, repr(column) if column.isidentifier() else "expression" if column else "column")
    return None


def _with(code: str, column: str) -> str:
    return re.sub(r"\('?column'?", lambda _: f"({column}", code, count=1)


def aggregates() -> set[str]:
    """The names of the functions that make aggregates."""
    from eventide import aggregates  # imports this module

    return {name for name in aggregates.__all__ if name.islower()} - {"bind", "try_out"}
