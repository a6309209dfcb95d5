"""Expressions of a query: rebuilt with the names that rows really have, and written for the engine that computes them.

Spark gets them in its own dialect, Polars in one that it reads; neither sees a word of Eventide's.
"""

from __future__ import annotations

from typing import Any

import polars as pl
from sqlglot import exp
from sqlglot.errors import ErrorLevel, UnsupportedError

from eventide.errors import sql as errors
from eventide.errors import sql_expressions as expression_errors
from eventide.errors import sql_tables as table_errors
from eventide.streamsql.ambiguous import refuse_ambiguous
from eventide.streamsql.catalogue import AGGREGATES, IN_PYTHON, OF_ENGINES
from eventide.streamsql.for_polars import for_polars, is_instant
from eventide.streamsql.places import At

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
        refuse_ambiguous(one)
        # An engine would compute it over the rows that happen to come together.
        if isinstance(one, exp.RowNumber) or (isinstance(one, exp.Anonymous) and one.name.lower() in OF_ENGINES):
            name = one.name.upper() if isinstance(one, exp.Anonymous) else one.sql_name()
            raise At(one, errors.not_here(name, "The guide to SQL has a table of aggregates."))


def text_of(node: exp.Expr) -> str:
    """An expression as users would write it; the name of the column that holds it."""
    return node.transform(_unquoted).sql(unsupported_level=ErrorLevel.IGNORE)


def _unquoted(node: exp.Expr) -> exp.Expr:
    plain = isinstance(node, exp.Identifier) and node.name.isidentifier()
    return exp.Identifier(this=node.name, quoted=False) if plain else node


def of_rows(frame: pl.DataFrame, node: exp.Expr) -> pl.Series:
    """The expression for each row of a frame."""
    frame = frame if isinstance(node, exp.Column) else _zoned(_widened(frame, node), node)
    try:
        # In a context Polars knows the types of columns, which some functions need.
        rows = pl.SQLContext({"rows": frame})
        text = for_polars(node, lambda part: _typed(frame, part))
        # A column beside it fixes the number of rows, which Polars loses of some expressions over constants.
        beside = "".join(f', {column(name).sql(identify=True)} AS "beside"' for name in frame.columns[:1])
        found = rows.execute(f'SELECT {text} AS "value"{beside} FROM rows', eager=True)
    except (pl.exceptions.PolarsError, UnsupportedError) as cause:
        raise At(node, table_errors.not_computed(text_of(node), cause)) from None
    return found["value"]


def holding(frame: pl.DataFrame, node: exp.Expr) -> pl.DataFrame:
    """The rows of a frame for which a condition holds."""
    found = of_rows(frame, node)
    if found.dtype != pl.Boolean:
        raise At(node, expression_errors.not_a_condition(text_of(node)))
    return frame.filter(found)


def _widened(frame: pl.DataFrame, node: exp.Expr) -> pl.DataFrame:
    """Numbers that computing would run over: unsigned ones below zero, and very short ones."""
    named = {one.name for one in node.find_all(exp.Column)} & set(frame.columns)
    wider = [pl.col(name).cast(_WIDER[frame.schema[name]]) for name in named if frame.schema[name] in _WIDER]
    return frame.with_columns(wider) if wider else frame


_WIDER: dict[Any, Any] = {
    **dict.fromkeys((pl.UInt8, pl.UInt16, pl.UInt32, pl.Int8, pl.Int16), pl.Int64),
    pl.UInt64: pl.Int128,
}


def _zoned(frame: pl.DataFrame, node: exp.Expr) -> pl.DataFrame:
    """Times without a zone as those of UTC, where they meet others that have one."""
    if not any(is_instant(one) for one in node.walk()):
        return frame
    named = {one.name for one in node.find_all(exp.Column)}
    plain = [name for name in named & set(frame.columns) if frame.schema[name] == pl.Datetime("us", None)]
    return frame.with_columns(pl.col(plain).dt.replace_time_zone("UTC")) if plain else frame


def _typed(frame: pl.DataFrame, text: str) -> pl.DataType:
    return (
        pl.SQLContext({"rows": frame.head(0)}).execute(f'SELECT {text} AS "value" FROM rows').collect_schema()["value"]
    )


def in_polars(node: exp.Expr) -> pl.Expr:
    """The expression as one of Polars'."""
    try:
        made: pl.Expr = pl.sql_expr(for_polars(node, lambda _: None))
    except (pl.exceptions.PolarsError, UnsupportedError) as cause:
        raise At(node, table_errors.not_computed(text_of(node), cause)) from None
    return made
