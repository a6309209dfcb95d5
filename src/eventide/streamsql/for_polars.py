"""Expressions as Polars reads them, so that they mean what they mean on Spark.

Where the two differ, what is written here decides: a number of letters is no unsigned number, halves are rounded away
from zero, a division by zero and the logarithm of what has none are null, and an instant without a zone is in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

import polars as pl
from sqlglot import exp
from sqlglot.errors import ErrorLevel

from eventide.errors import sql_expressions as expression_errors
from eventide.streamsql.places import At
from eventide.streamsql.rewriting import bracketed, divided, form, rewritten, whole_number

Typed = Callable[[str], pl.DataType | None]
"""The type of an expression of Polars', where the columns are known."""

_INSTANTS = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ, exp.DType.DATETIME)


def _form(text: str) -> Callable[..., exp.Expr]:
    return form(text, "duckdb")


_IS = {
    True: _form("COALESCE(:x, FALSE)"),
    False: _form("COALESCE(NOT :x, FALSE)"),
}
_ONE: dict[type[exp.Expr], Callable[..., exp.Expr]] = {
    exp.Ln: _form("CASE WHEN :x > 0 THEN LN(:x) END"),
    exp.Ceil: _form("TRY_CAST(CEIL(:x) AS BIGINT)"),
    exp.Floor: _form("TRY_CAST(FLOOR(:x) AS BIGINT)"),
    exp.Trunc: _form("TRY_CAST(TRUNC(:x) AS BIGINT)"),
    # Polars counts in unsigned and in very short numbers, which run over.
    exp.Length: _form("CAST(LENGTH(:x) AS INT)"),
    exp.ByteLength: _form("CAST(OCTET_LENGTH(:x) AS INT)"),
    exp.BitLength: _form("CAST(BIT_LENGTH(:x) AS INT)"),
    exp.Sign: _form("CAST(SIGN(:x) AS DOUBLE)"),
    exp.ArraySize: _form("CAST(ARRAY_LENGTH(:x) AS INT)"),
    exp.DayOfWeek: _form("CAST(EXTRACT(DOW FROM :x) AS INT) + 1"),
    **{
        kind: _form(f"CAST(EXTRACT({part} FROM :x) AS INT)")
        for kind, part in (
            (exp.Year, "YEAR"),
            (exp.Quarter, "QUARTER"),
            (exp.Month, "MONTH"),
            (exp.Week, "WEEK"),
            (exp.WeekOfYear, "WEEK"),
            (exp.Day, "DAY"),
            (exp.DayOfMonth, "DAY"),
            (exp.DayOfYear, "DOY"),
            (exp.DayOfWeekIso, "ISODOW"),
            (exp.Hour, "HOUR"),
            (exp.Minute, "MINUTE"),
            (exp.Second, "SECOND"),
        )
    },
}
_TWO: dict[type[exp.Expr], Callable[..., exp.Expr]] = {
    exp.Pow: _form("POWER(CAST(:x AS DOUBLE), CAST(:y AS DOUBLE))"),
    exp.Log: _form("CASE WHEN :x > 0 AND :y > 0 THEN LOG(:y, :x) END"),  # the base comes last here
    exp.Left: _form("CASE WHEN :y > 0 THEN LEFT(:x, :y) WHEN :x IS NOT NULL AND :y <= 0 THEN '' END"),
    exp.Right: _form("CASE WHEN :y > 0 THEN RIGHT(:x, :y) WHEN :x IS NOT NULL AND :y <= 0 THEN '' END"),
    exp.RegexpLike: lambda x, y: exp.Anonymous(this="REGEXP_LIKE", expressions=[x, y]),
}
_LOGARITHMS = {10: "LOG10", 2: "LOG2"}
_OF_POSITIVE = _form("CASE WHEN :x > 0 THEN :y END")
_POSITION = _form(
    "CASE WHEN :x IS NULL OR :y IS NULL THEN NULL WHEN :y = '' THEN 1 WHEN STRPOS(:x, :y) = 0 THEN 0 "
    "ELSE CAST(LENGTH(SPLIT_PART(:x, :y, 1)) AS INT) + 1 END"
)
_EXTRACTED = {
    "EPOCH": _form("EXTRACT(EPOCH FROM :x)"),
    "SECOND": _form("EXTRACT(MICROSECOND FROM :x) / 1E6"),
}
_PART = "CAST(EXTRACT({part} FROM :x) AS INT)"
_ROUNDED = _form("CASE WHEN ABS(:x - TRUNC(:x)) >= 0.5 THEN TRUNC(:x) + SIGN(:x) ELSE TRUNC(:x) END")
# 2.675 is a little less than that as a double, and is meant as it is written; so the product is made a little greater.
_SCALED = _form("CAST(:x AS DOUBLE) * :scale * 1.00000000000000022E0")
_TIMES, _OVER = _form(":x * :y"), _form(":x / :y")
_INSTANT = _form("CAST(:x AS TIMESTAMPTZ)")
_TEXT_OF_INSTANT = _form("RTRIM(RTRIM(STRFTIME(:x, '%Y-%m-%d %H:%M:%S%.6f'), '0'), '.')")
_WRITTEN = "STRPTIME('{}', '%Y-%m-%d %H:%M:%S.%f%z')"


def for_polars(node: exp.Expr, typed: Typed) -> str:
    """The expression in Polars' SQL."""
    return _written(rewritten(node, lambda one: _changed(one, typed)))


def _written(node: exp.Expr) -> str:
    text: str = bracketed(node).sql(dialect="duckdb", identify=True, unsupported_level=ErrorLevel.RAISE)
    return text


def _changed(node: exp.Expr, typed: Typed) -> exp.Expr:
    kind = type(node)
    if kind in _ONE:
        return _ONE[kind](x=node.this)
    if isinstance(node, exp.Log) and whole_number(node.this) in _LOGARITHMS:
        called = exp.Anonymous(this=_LOGARITHMS[int(node.this.name)], expressions=[node.expression])
        return _OF_POSITIVE(x=node.expression, y=called)
    if kind in _TWO:
        return _TWO[kind](x=node.this, y=node.expression)
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Boolean):
        return _IS[bool(node.expression.this)](x=node.this)
    if isinstance(node, exp.StrPosition):
        return _POSITION(x=node.this, y=node.args["substr"])
    if isinstance(node, exp.Extract):
        part = node.this.name.upper()
        return (_EXTRACTED.get(part) or _form(_PART.format(part=part)))(x=node.expression)
    if isinstance(node, exp.Div | exp.Mod | exp.IntDiv):
        if isinstance(node, exp.Div) and typed(_written(node.this)) == pl.Float32:
            node.set("this", exp.cast(node.this, exp.DType.DOUBLE))
        return divided(node)
    if isinstance(node, exp.Round):
        return _rounded(node.this, whole_number(node.args.get("decimals")) or 0, typed)
    if isinstance(node, exp.Escape):
        return _matched(node.this, node.expression.name)
    if isinstance(node, exp.CurrentTimestamp):
        return _instant(datetime.now(UTC))
    return _cast(node, typed) if isinstance(node, exp.Cast) else node


def _matched(like: exp.Expr, escape: str) -> exp.Expr:
    """``LIKE … ESCAPE``, which Polars does not read, as a regular expression."""
    signs = iter(like.expression.name)
    parts = [
        re.escape(next(signs, "")) if sign == escape else {"%": ".*", "_": "."}.get(sign) or re.escape(sign)
        for sign in signs
    ]
    flags = "(?is)" if isinstance(like, exp.ILike) else "(?s)"
    pattern = exp.Literal.string(f"{flags}^{''.join(parts)}$")
    matched = exp.Anonymous(this="REGEXP_LIKE", expressions=[like.this, pattern])
    return exp.Not(this=matched) if like.args.get("negate") else matched


def _rounded(node: exp.Expr, digits: int, typed: Typed) -> exp.Expr:
    """Halves go away from zero. A whole number is what it was."""
    dtype = typed(_written(node))
    if dtype is not None and dtype.is_integer():
        return node
    if isinstance(dtype, pl.Decimal):
        scale = exp.Literal.number(10**digits)
        rounded = _OVER(x=_ROUNDED(x=_TIMES(x=node, y=scale)), y=scale)
        return exp.cast(rounded, exp.DataType.build(f"DECIMAL(38, {digits})"))
    if not digits:
        return _ROUNDED(x=node)
    scale = exp.Literal.number(f"{10**digits}E0")
    return _OVER(x=_ROUNDED(x=_SCALED(x=node, scale=scale)), y=scale)


def _cast(node: exp.Cast, typed: Typed) -> exp.Expr:
    to = node.args["to"].this
    if to in _INSTANTS:
        if isinstance(node.this, exp.Literal):
            return _instant(written_instant(node.this.name))
        dtype = typed(_written(node.this))
        if dtype is not None and dtype.is_numeric():
            raise At(node, expression_errors.number_as_instant(node.sql()))
        made = _INSTANT(x=node.this)
        return exp.TryCast(this=made.this, to=made.args["to"]) if isinstance(node, exp.TryCast) else made
    if to == exp.DType.DECIMAL:
        return _as_decimal(node, typed)
    if to in exp.DataType.TEXT_TYPES and isinstance(typed(_written(node.this)), pl.Datetime):
        return _TEXT_OF_INSTANT(x=node.this)
    return node


def _as_decimal(node: exp.Cast, typed: Typed) -> exp.Expr:
    """Halves go away from zero here, too; a number in a text is read with more digits than are asked for."""
    asked = node.args["to"].expressions
    digits = whole_number(asked[1].this) if len(asked) > 1 else 0
    dtype = typed(_written(node.this))
    if digits is None or dtype is None:
        return node
    if dtype == pl.String:
        node.set("this", exp.cast(node.this, exp.DataType.build(f"DECIMAL(38, {digits + 8})")))
    node.set("this", _rounded(node.this, digits, typed))
    return node


def written_instant(text: str) -> datetime:
    """An instant that a query has as a text; in UTC, if no zone is said. ValueError, if it is none."""
    read = datetime.fromisoformat(text.strip())
    return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)


def _instant(at: datetime) -> exp.Expr:
    return _form(_WRITTEN.format(at.strftime("%Y-%m-%d %H:%M:%S.%f+0000")))()


def is_instant(node: exp.Expr) -> bool:
    """Whether it makes an instant in a zone, which Polars does not compare with one that has none."""
    return isinstance(node, exp.CurrentTimestamp) or (isinstance(node, exp.Cast) and node.args["to"].this in _INSTANTS)
