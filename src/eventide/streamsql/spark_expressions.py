"""Expressions, filters and columns of a query on Spark, with the same meaning as in process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.errors import ErrorLevel, UnsupportedError

from eventide.streamsql.errors import not_a_condition, not_computed, number_as_instant
from eventide.streamsql.expressions import text_of
from eventide.streamsql.polars_expressions import (
    is_instant,
    parenthesize,
    parse_instant,
    rewrite,
    safe_division,
    template,
    whole_number,
)
from eventide.streamsql.source_positions import LocatedError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def _template(text: str) -> Callable[..., exp.Expr]:
    return template(text, "spark")


_UNARY: dict[type[exp.Expr], Callable[..., exp.Expr]] = {
    exp.Ceil: _template("CAST(CEIL(:x) AS BIGINT)"),
    exp.Floor: _template("CAST(FLOOR(:x) AS BIGINT)"),
    exp.ByteLength: lambda x: exp.Anonymous(this="OCTET_LENGTH", expressions=[x]),
    exp.Sign: _template("CAST(SIGN(:x) AS DOUBLE)"),
    exp.Week: _template("EXTRACT(WEEK FROM :x)"),
    exp.DayOfWeekIso: _template("EXTRACT(DAYOFWEEK_ISO FROM :x)"),
}
_EXTRACTED = {
    "DOW": _template("EXTRACT(DOW FROM :x) - 1"),
    "ISODOW": _template("EXTRACT(DAYOFWEEK_ISO FROM :x)"),
    "EPOCH": _template("UNIX_MICROS(CAST(:x AS TIMESTAMP)) / 1000000"),
    "SECOND": _template("CAST(EXTRACT(SECOND FROM :x) AS DOUBLE)"),
}
_LOGARITHMS = {
    10: lambda x: exp.Anonymous(this="LOG10", expressions=[x]),
    2: lambda x: exp.Anonymous(this="LOG2", expressions=[x]),
}
# Spark counts places below 1 from the end, and 0 as 1.
_TO_THE_END = _template("CASE WHEN :p >= 1 THEN SUBSTRING(:x, :p) WHEN :p < 1 THEN :x END")
_SUBSTRING = _template(
    "CASE WHEN :p >= 1 THEN SUBSTRING(:x, :p, :n) WHEN :p - 1 + :n > 0 THEN SUBSTRING(:x, 1, :p - 1 + :n) "
    "WHEN :p - 1 + :n <= 0 THEN SUBSTRING(:x, 1, 0) END"
)


def spark_sql(node: exp.Expr) -> str:
    """Return the expression as Spark SQL."""
    expression = parenthesize(rewrite(node, _rewrite_node))
    text: str = expression.sql(dialect="spark", identify=True, unsupported_level=ErrorLevel.RAISE)
    return text


def _rewrite_node(node: exp.Expr) -> exp.Expr:
    if type(node) in _UNARY:
        return _UNARY[type(node)](x=node.this)
    if isinstance(node, exp.Log) and whole_number(node.this) in _LOGARITHMS:
        return _LOGARITHMS[int(node.this.name)](node.expression)
    if isinstance(node, exp.DateTrunc):  # Spark's TRUNC is of days, and null for shorter units
        return exp.TimestampTrunc(this=node.this, unit=exp.var(node.args["unit"].name))
    if isinstance(node, exp.Extract) and node.this.name.upper() in _EXTRACTED:
        return _EXTRACTED[node.this.name.upper()](x=node.expression)
    if isinstance(node, exp.Div | exp.Mod | exp.IntDiv):
        return safe_division(node)
    if isinstance(node, exp.Substring) and whole_number(node.args.get("start")) is None:
        parts = {"x": node.this, "p": node.args["start"]}
        return _TO_THE_END(**parts) if (n := node.args.get("length")) is None else _SUBSTRING(**parts, n=n)
    if isinstance(node, exp.Bracket) and whole_number(node.expressions[0]) is not None:
        return exp.Anonymous(this="GET", expressions=[node.this, node.expressions[0]])  # null beyond the end
    if isinstance(node, exp.Cast) and is_instant(node) and isinstance(node.this, exp.Literal):
        node.set("this", exp.Literal.string(parse_instant(node.this.name).isoformat(" ")))
    return node


def filter_frame(frame: DataFrame, node: exp.Expr) -> DataFrame:
    """Return the rows for which a condition holds."""
    if _type(frame, node) != "boolean":
        raise LocatedError(node, not_a_condition(text_of(node)))
    return frame.where(to_spark(frame, node))


def select_columns(frame: DataFrame, columns: Mapping[str, exp.Expr]) -> DataFrame:
    """Return the frame with only these columns."""
    return frame.select(*[to_spark(frame, node).alias(name) for name, node in columns.items()])


def add_columns(frame: DataFrame, columns: Mapping[str, exp.Expr]) -> DataFrame:
    """Return the frame with these additional columns."""
    return frame.withColumns({name: to_spark(frame, node) for name, node in columns.items()})


def to_spark(frame: DataFrame, node: exp.Expr) -> Column:
    """Return the expression as a column of a DataFrame, checked by Spark."""
    from pyspark.sql import functions as F  # noqa: N812

    for part in node.walk():
        if is_instant(part) and isinstance(part, exp.Cast) and _is_number(_type(frame, part.this)):
            raise LocatedError(part, number_as_instant(text_of(part)))
    with _locate_spark_errors(node):
        spark_column = F.expr(spark_sql(node))
    _type(frame, node)
    return spark_column


def _type(frame: DataFrame, node: exp.Expr) -> str:
    from pyspark.sql import functions as F  # noqa: N812

    with _locate_spark_errors(node):
        type_name: str = frame.select(F.expr(spark_sql(node))).schema.fields[0].dataType.typeName()
        return type_name


def _is_number(name: str) -> bool:
    return name in ("byte", "short", "integer", "long", "float", "double", "decimal")


@contextmanager
def _locate_spark_errors(node: exp.Expr) -> Iterator[None]:
    """Locate errors of Spark in the query."""
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, UnsupportedError) as cause:
        raise LocatedError(node, not_computed(text_of(node), cause, host="by Spark")) from None
