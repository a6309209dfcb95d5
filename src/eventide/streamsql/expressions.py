"""Expressions of a query: rebuilt with the names that rows really have, and written for the engine that computes them.

Spark gets them in its own dialect, Polars in one that it reads; neither sees a word of Eventide's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
from sqlglot import exp

from eventide.errors import sql as errors
from eventide.errors import sql_tables as table_errors
from eventide.streamsql.catalogue import AGGREGATES, IN_PYTHON, OF_ENGINES
from eventide.streamsql.places import At

if TYPE_CHECKING:
    from pyspark.sql import Column

_OF_ONE_ROW = ("A function that gives several rows", "Explode rows before they are given to the query.")

_REFUSED: dict[type[exp.Expr], tuple[str, str]] = {
    exp.Window: (
        "A window function (… OVER …)",
        "Group by a window: FROM TUMBLE(…) GROUP BY window_start, window_end.",
    ),
    exp.Subquery: ("A subquery in an expression", "Join the streams instead."),
    exp.Select: ("A subquery in an expression", "Join the streams instead."),
    **dict.fromkeys((exp.UDTF, exp.Explode, exp.Posexplode, exp.GenerateSeries), _OF_ONE_ROW),
    exp.Exists: ("EXISTS", "Join the streams instead."),
    exp.Parameter: ("A parameter", "Write the value into the query."),
    exp.Placeholder: ("A parameter", "Write the value into the query."),
}

_IN_POLARS: dict[type[exp.Expr], str] = {
    exp.ArraySize: "ARRAY_LENGTH",
    exp.RegexpLike: "REGEXP_LIKE",
    exp.Initcap: "INITCAP",
}


def column(name: str) -> exp.Column:
    """A column by its exact name."""
    return exp.column(exp.to_identifier(name, quoted=True))


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a call is one of the aggregates."""
    return isinstance(node, exp.Anonymous) and node.name.lower() in (*AGGREGATES, *IN_PYTHON)


def has_aggregate(node: exp.Expr | None) -> bool:
    """Whether something in it is aggregated."""
    return node is not None and any(is_aggregate(one) for one in node.walk())


def refuse_unsupported(node: exp.Expr) -> None:
    """Name what expressions of a stream cannot have."""
    for one in node.walk():
        for kind, (what, mend) in _REFUSED.items():
            if isinstance(one, kind):
                raise At(one, errors.not_here(what, mend))
        # An engine would compute it over the rows that happen to come together.
        if isinstance(one, exp.AggFunc | exp.RowNumber) or (
            isinstance(one, exp.Anonymous) and one.name.lower() in OF_ENGINES
        ):
            name = one.name.upper() if isinstance(one, exp.Anonymous) else one.sql_name()
            raise At(one, errors.not_here(name, "The guide to SQL has a table of aggregates."))


def text_of(node: exp.Expr) -> str:
    """An expression as users would write it; the name of the column that holds it."""
    return node.transform(_unquoted).sql()


def _unquoted(node: exp.Expr) -> exp.Expr:
    plain = isinstance(node, exp.Identifier) and node.name.isidentifier()
    return exp.Identifier(this=node.name, quoted=False) if plain else node


def of_rows(frame: pl.DataFrame, node: exp.Expr) -> pl.Series:
    """The expression for each row of a frame."""
    try:
        # In a context Polars knows the types of columns, which some functions need.
        found = pl.SQLContext({"rows": frame}).execute(f'SELECT {_for_polars(node)} AS "value" FROM rows', eager=True)
    except pl.exceptions.PolarsError as cause:
        raise At(node, table_errors.not_computed(text_of(node), cause)) from None
    return found["value"]


def in_polars(node: exp.Expr) -> pl.Expr:
    """The expression as one of Polars'."""
    try:
        made: pl.Expr = pl.sql_expr(_for_polars(node))
    except pl.exceptions.PolarsError as cause:
        raise At(node, table_errors.not_computed(text_of(node), cause)) from None
    return made


def _for_polars(node: exp.Expr) -> str:
    text: str = node.transform(_renamed).sql(dialect="duckdb", identify=True)
    return text


def _renamed(node: Any) -> Any:
    """Functions that Polars calls differently."""
    for kind, name in _IN_POLARS.items():
        if isinstance(node, kind):
            given = [node.this, *([node.expression] if kind is exp.RegexpLike else [])]
            return exp.Anonymous(this=name, expressions=given)
    return node


def in_spark(node: exp.Expr) -> Column:
    """The expression for Spark."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.expr(node.sql(dialect="spark", identify=True))
