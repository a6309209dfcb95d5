"""Expressions of a query as Polars SQL, with the same meaning as on Spark.

Where the engines differ, this module decides: lengths are signed numbers, halves are rounded away from zero, a division
by zero and the logarithm of a number that is not positive are null, and an instant without a zone is in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

import polars as pl
from sqlglot import exp, parse_one
from sqlglot.errors import ErrorLevel

from eventide.streamsql.errors import number_as_instant
from eventide.streamsql.source_positions import LocatedError

Change = Callable[[exp.Expr], exp.Expr]


def rewrite(node: exp.Expr, change: Change) -> exp.Expr:
    """Return the expression with each part changed, innermost first. The result of ``change`` is not changed again."""
    copy = node.copy()
    for part in list(copy.iter_expressions()):
        part.replace(rewrite(part, change))
    return change(copy)


# Nodes with an operator or a keyword between operands, whose precedence differs between engines.
_WITH_OPERANDS = (exp.Binary, exp.Unary, exp.Between, exp.In)
_WITHOUT_OPERATOR = (exp.Dot, exp.Func, exp.Escape, exp.Paren, exp.Kwarg)


def parenthesize(node: exp.Expr) -> exp.Expr:
    """Return the expression with brackets around every operand, so that precedence does not depend on the engine.

    >>> parenthesize(parse_one("a IS NOT DISTINCT FROM b AND NOT c + 1 > 2")).sql()
    '(a IS NOT DISTINCT FROM b) AND (NOT ((c + 1) > 2))'
    """
    copy = node.copy()
    for part in list(copy.walk()):
        if part.parent is not None and _has_operands(part.parent) and _is_operation(part):
            brackets = exp.Paren()
            part.replace(brackets)
            brackets.set("this", part)
    return copy


def _is_operation(node: exp.Expr) -> bool:
    return _has_operands(node) or isinstance(node, exp.Escape)


def _has_operands(node: exp.Expr) -> bool:
    connector = isinstance(node, exp.Connector)
    return connector or (isinstance(node, _WITH_OPERANDS) and not isinstance(node, _WITHOUT_OPERATOR))


def template(text: str, dialect: str) -> Callable[..., exp.Expr]:
    """Return a function that fills a template such as ``CASE WHEN :x > 0 THEN LN(:x) END``.

    >>> template("CEIL(:x) + :n", "duckdb")(x=exp.column("a") * 2, n=exp.Literal.number(1)).sql()
    '(CEIL((a * 2)) + 1)'
    """
    read = parse_one(text, dialect=dialect)

    def filled(**parts: exp.Expr | None) -> exp.Expr:
        def part(node: exp.Expr) -> exp.Expr:
            value = parts.get(node.name) if isinstance(node, exp.Placeholder) else None
            return node if value is None else _isolated(value.copy())

        expression: exp.Expr = read.transform(part)
        return _isolated(expression)

    return filled


def _isolated(node: exp.Expr) -> exp.Expr:
    """Return an expression in brackets, unless it is atomic."""
    whole = isinstance(node, exp.Column | exp.Literal | exp.Func | exp.Paren | exp.Placeholder | exp.Boolean | exp.Null)
    return node if whole and not isinstance(node, exp.Connector) else exp.paren(node)


def whole_number(node: exp.Expr | None) -> int | None:
    """Return the value of an integer literal, with its sign; None: another expression."""
    if isinstance(node, exp.Paren):
        return whole_number(node.this)
    if isinstance(node, exp.Neg):
        inner = whole_number(node.this)
        return None if inner is None else -inner
    plain = isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit()
    return int(node.name) if plain and node is not None else None


def safe_division(node: exp.Div | exp.Mod | exp.IntDiv) -> exp.Expr:
    """Return a division that is null if the divisor is zero.

    A quotient is a double also of decimals, for which engines keep different numbers of digits.
    """
    ours, theirs = node.this, node.expression
    if isinstance(node, exp.Div):
        ours = exp.Mul(this=_isolated(ours), expression=exp.Literal.number("1E0"))
    written = isinstance(theirs, exp.Literal) and not theirs.is_string and float(theirs.name) != 0
    theirs = theirs if written else exp.Nullif(this=theirs, expression=exp.Literal.number(0))
    return type(node)(this=ours, expression=theirs, **{k: v for k, v in node.args.items() if k in ("typed", "safe")})


Typed = Callable[[str], pl.DataType | None]
"""The type of an expression of Polars', where the columns are known."""

_INSTANTS = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ, exp.DType.DATETIME)


def _template(text: str) -> Callable[..., exp.Expr]:
    return template(text, "duckdb")


_IS = {
    True: _template("COALESCE(:x, FALSE)"),
    False: _template("COALESCE(NOT :x, FALSE)"),
}
_UNARY: dict[type[exp.Expr], Callable[..., exp.Expr]] = {
    exp.Ln: _template("CASE WHEN :x > 0 THEN LN(:x) END"),
    exp.Ceil: _template("TRY_CAST(CEIL(:x) AS BIGINT)"),
    exp.Floor: _template("TRY_CAST(FLOOR(:x) AS BIGINT)"),
    exp.Trunc: _template("TRY_CAST(TRUNC(:x) AS BIGINT)"),
    # Polars counts in unsigned and in very short numbers, which run over.
    exp.Length: _template("CAST(LENGTH(:x) AS INT)"),
    exp.ByteLength: _template("CAST(OCTET_LENGTH(:x) AS INT)"),
    exp.BitLength: _template("CAST(BIT_LENGTH(:x) AS INT)"),
    exp.Sign: _template("CAST(SIGN(:x) AS DOUBLE)"),
    exp.ArraySize: _template("CAST(ARRAY_LENGTH(:x) AS INT)"),
    exp.DayOfWeek: _template("CAST(EXTRACT(DOW FROM :x) AS INT) + 1"),
    **{
        kind: _template(f"CAST(EXTRACT({part} FROM :x) AS INT)")
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
_BINARY: dict[type[exp.Expr], Callable[..., exp.Expr]] = {
    exp.Pow: _template("POWER(CAST(:x AS DOUBLE), CAST(:y AS DOUBLE))"),
    exp.Log: _template("CASE WHEN :x > 0 AND :y > 0 THEN LOG(:y, :x) END"),  # the base is the last argument here
    exp.Left: _template("CASE WHEN :y > 0 THEN LEFT(:x, :y) WHEN :x IS NOT NULL AND :y <= 0 THEN '' END"),
    exp.Right: _template("CASE WHEN :y > 0 THEN RIGHT(:x, :y) WHEN :x IS NOT NULL AND :y <= 0 THEN '' END"),
    exp.RegexpLike: lambda x, y: exp.Anonymous(this="REGEXP_LIKE", expressions=[x, y]),
}
_LOGARITHMS = {10: "LOG10", 2: "LOG2"}
_OF_POSITIVE = _template("CASE WHEN :x > 0 THEN :y END")
_POSITION = _template(
    "CASE WHEN :x IS NULL OR :y IS NULL THEN NULL WHEN :y = '' THEN 1 WHEN STRPOS(:x, :y) = 0 THEN 0 "
    "ELSE CAST(LENGTH(SPLIT_PART(:x, :y, 1)) AS INT) + 1 END"
)
_EXTRACTED = {
    "EPOCH": _template("EXTRACT(EPOCH FROM :x)"),
    "SECOND": _template("EXTRACT(MICROSECOND FROM :x) / 1E6"),
}
_PART = "CAST(EXTRACT({part} FROM :x) AS INT)"
_ROUNDED = _template("CASE WHEN ABS(:x - TRUNC(:x)) >= 0.5 THEN TRUNC(:x) + SIGN(:x) ELSE TRUNC(:x) END")
# 2.675 is a little less than that as a double, and is meant as it is written; so the product is made a little greater.
_SCALED = _template("CAST(:x AS DOUBLE) * :scale * 1.00000000000000022E0")
_TIMES, _OVER = _template(":x * :y"), _template(":x / :y")
_INSTANT = _template("CAST(:x AS TIMESTAMPTZ)")
_TEXT_OF_INSTANT = _template("RTRIM(RTRIM(STRFTIME(:x, '%Y-%m-%d %H:%M:%S%.6f'), '0'), '.')")
_WRITTEN = "STRPTIME('{}', '%Y-%m-%d %H:%M:%S.%f%z')"


def polars_sql(node: exp.Expr, typed: Typed) -> str:
    """Return the expression as Polars SQL."""
    return _sql(rewrite(node, lambda part: _rewrite_node(part, typed)))


def _sql(node: exp.Expr) -> str:
    text: str = parenthesize(node).sql(dialect="duckdb", identify=True, unsupported_level=ErrorLevel.RAISE)
    return text


def _rewrite_node(node: exp.Expr, typed: Typed) -> exp.Expr:
    kind = type(node)
    if kind in _UNARY:
        return _UNARY[kind](x=node.this)
    if isinstance(node, exp.Log) and whole_number(node.this) in _LOGARITHMS:
        called = exp.Anonymous(this=_LOGARITHMS[int(node.this.name)], expressions=[node.expression])
        return _OF_POSITIVE(x=node.expression, y=called)
    if kind in _BINARY:
        return _BINARY[kind](x=node.this, y=node.expression)
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Boolean):
        return _IS[bool(node.expression.this)](x=node.this)
    if isinstance(node, exp.StrPosition):
        return _POSITION(x=node.this, y=node.args["substr"])
    if isinstance(node, exp.Extract):
        part = node.this.name.upper()
        return (_EXTRACTED.get(part) or _template(_PART.format(part=part)))(x=node.expression)
    if isinstance(node, exp.Div | exp.Mod | exp.IntDiv):
        if isinstance(node, exp.Div) and typed(_sql(node.this)) == pl.Float32:
            node.set("this", exp.cast(node.this, exp.DType.DOUBLE))
        return safe_division(node)
    if isinstance(node, exp.Round):
        return _rounded(node.this, whole_number(node.args.get("decimals")) or 0, typed)
    if isinstance(node, exp.Escape):
        return _matched(node.this, node.expression.name)
    if isinstance(node, exp.CurrentTimestamp):
        return _instant(datetime.now(UTC))
    return _cast(node, typed) if isinstance(node, exp.Cast) else node


def _matched(like: exp.Expr, escape: str) -> exp.Expr:
    """Return ``LIKE … ESCAPE`` as a regular expression, because Polars does not support it."""
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
    """Round halves away from zero. Integers stay unchanged."""
    dtype = typed(_sql(node))
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
            return _instant(parse_instant(node.this.name))
        dtype = typed(_sql(node.this))
        if dtype is not None and dtype.is_numeric():
            raise LocatedError(node, number_as_instant(node.sql()))
        instant = _INSTANT(x=node.this)
        return exp.TryCast(this=instant.this, to=instant.args["to"]) if isinstance(node, exp.TryCast) else instant
    if to == exp.DType.DECIMAL:
        return _as_decimal(node, typed)
    if to in exp.DataType.TEXT_TYPES and isinstance(typed(_sql(node.this)), pl.Datetime):
        return _TEXT_OF_INSTANT(x=node.this)
    return node


def _as_decimal(node: exp.Cast, typed: Typed) -> exp.Expr:
    """Cast to a decimal, with halves rounded away from zero. Text is parsed with more digits first."""
    asked = node.args["to"].expressions
    digits = whole_number(asked[1].this) if len(asked) > 1 else 0
    dtype = typed(_sql(node.this))
    if digits is None or dtype is None:
        return node
    if dtype == pl.String:
        node.set("this", exp.cast(node.this, exp.DataType.build(f"DECIMAL(38, {digits + 8})")))
    node.set("this", _rounded(node.this, digits, typed))
    return node


def parse_instant(text: str) -> datetime:
    """Return the instant of a text, in UTC if it has no zone. Raises ValueError if it is not an instant."""
    read = datetime.fromisoformat(text.strip())
    return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)


def _instant(at: datetime) -> exp.Expr:
    return _template(_WRITTEN.format(at.strftime("%Y-%m-%d %H:%M:%S.%f+0000")))()


def is_instant(node: exp.Expr) -> bool:
    """Whether an expression is an instant with a zone. Polars does not compare it with one without."""
    return isinstance(node, exp.CurrentTimestamp) or (isinstance(node, exp.Cast) and node.args["to"].this in _INSTANTS)
