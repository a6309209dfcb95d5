"""Expressions as Spark reads them, so that they mean what they mean in process."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp
from sqlglot.errors import ErrorLevel

from eventide.streamsql.for_polars import is_instant, written_instant
from eventide.streamsql.rewriting import bracketed, divided, form, rewritten, whole_number


def _form(text: str) -> Callable[..., exp.Expr]:
    return form(text, "spark")


_ONE: dict[type[exp.Expr], Callable[..., exp.Expr]] = {
    exp.Ceil: _form("CAST(CEIL(:x) AS BIGINT)"),
    exp.Floor: _form("CAST(FLOOR(:x) AS BIGINT)"),
    exp.ByteLength: lambda x: exp.Anonymous(this="OCTET_LENGTH", expressions=[x]),
    exp.Sign: _form("CAST(SIGN(:x) AS DOUBLE)"),
    exp.Week: _form("EXTRACT(WEEK FROM :x)"),
    exp.DayOfWeekIso: _form("EXTRACT(DAYOFWEEK_ISO FROM :x)"),
}
_EXTRACTED = {
    "DOW": _form("EXTRACT(DOW FROM :x) - 1"),
    "ISODOW": _form("EXTRACT(DAYOFWEEK_ISO FROM :x)"),
    "EPOCH": _form("UNIX_MICROS(CAST(:x AS TIMESTAMP)) / 1000000"),
    "SECOND": _form("CAST(EXTRACT(SECOND FROM :x) AS DOUBLE)"),
}
_LOGARITHMS = {
    10: lambda x: exp.Anonymous(this="LOG10", expressions=[x]),
    2: lambda x: exp.Anonymous(this="LOG2", expressions=[x]),
}
# Spark counts places below 1 from the end, and 0 as 1.
_TO_THE_END = _form("CASE WHEN :p >= 1 THEN SUBSTRING(:x, :p) WHEN :p < 1 THEN :x END")
_SUBSTRING = _form(
    "CASE WHEN :p >= 1 THEN SUBSTRING(:x, :p, :n) WHEN :p - 1 + :n > 0 THEN SUBSTRING(:x, 1, :p - 1 + :n) "
    "WHEN :p - 1 + :n <= 0 THEN SUBSTRING(:x, 1, 0) END"
)


def for_spark(node: exp.Expr) -> str:
    """The expression in Spark's SQL."""
    made = bracketed(rewritten(node, _changed))
    text: str = made.sql(dialect="spark", identify=True, unsupported_level=ErrorLevel.RAISE)
    return text


def _changed(node: exp.Expr) -> exp.Expr:
    if type(node) in _ONE:
        return _ONE[type(node)](x=node.this)
    if isinstance(node, exp.Log) and whole_number(node.this) in _LOGARITHMS:
        return _LOGARITHMS[int(node.this.name)](node.expression)
    if isinstance(node, exp.DateTrunc):  # Spark's TRUNC is of days, and null for shorter units
        return exp.TimestampTrunc(this=node.this, unit=exp.var(node.args["unit"].name))
    if isinstance(node, exp.Extract) and node.this.name.upper() in _EXTRACTED:
        return _EXTRACTED[node.this.name.upper()](x=node.expression)
    if isinstance(node, exp.Div | exp.Mod | exp.IntDiv):
        return divided(node)
    if isinstance(node, exp.Substring) and whole_number(node.args.get("start")) is None:
        parts = {"x": node.this, "p": node.args["start"]}
        return _TO_THE_END(**parts) if (n := node.args.get("length")) is None else _SUBSTRING(**parts, n=n)
    if isinstance(node, exp.Bracket) and whole_number(node.expressions[0]) is not None:
        return exp.Anonymous(this="GET", expressions=[node.this, node.expressions[0]])  # null beyond the end
    if isinstance(node, exp.Cast) and is_instant(node) and isinstance(node.this, exp.Literal):
        node.set("this", exp.Literal.string(written_instant(node.this.name).isoformat(" ")))
    return node
