"""Filters and columns of a query as Spark's own, and what Spark says of them, with its place in the query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.errors import UnsupportedError

from eventide.errors import sql_expressions as expression_errors
from eventide.errors import sql_tables as table_errors
from eventide.streamsql.expressions import text_of
from eventide.streamsql.for_polars import is_instant
from eventide.streamsql.for_spark import for_spark
from eventide.streamsql.places import At

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def held(frame: DataFrame, node: exp.Expr) -> DataFrame:
    """The rows for which a condition holds."""
    if _type(frame, node) != "boolean":
        raise At(node, expression_errors.not_a_condition(text_of(node)))
    return frame.where(in_spark(frame, node))


def selected(frame: DataFrame, columns: Mapping[str, exp.Expr]) -> DataFrame:
    """Only these columns."""
    return frame.select(*[in_spark(frame, node).alias(name) for name, node in columns.items()])


def beside(frame: DataFrame, columns: Mapping[str, exp.Expr]) -> DataFrame:
    """With these columns, too."""
    return frame.withColumns({name: in_spark(frame, node) for name, node in columns.items()})


def in_spark(frame: DataFrame, node: exp.Expr) -> Column:
    """The expression over the columns of a DataFrame, which Spark has understood."""
    from pyspark.sql import functions as F  # noqa: N812

    for one in node.walk():
        if is_instant(one) and isinstance(one, exp.Cast) and _is_number(_type(frame, one.this)):
            raise At(one, expression_errors.number_as_instant(text_of(one)))
    with _told(node):
        made = F.expr(for_spark(node))
    _type(frame, node)
    return made


def _type(frame: DataFrame, node: exp.Expr) -> str:
    from pyspark.sql import functions as F  # noqa: N812

    with _told(node):
        found: str = frame.select(F.expr(for_spark(node))).schema.fields[0].dataType.typeName()
        return found


def _is_number(name: str) -> bool:
    return name in ("byte", "short", "integer", "long", "float", "double", "decimal")


@contextmanager
def _told(node: exp.Expr) -> Iterator[None]:
    """What Spark refuses, where it stands in the query."""
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, UnsupportedError) as cause:
        raise At(node, table_errors.not_computed(text_of(node), cause, host="by Spark")) from None
