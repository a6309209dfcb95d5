"""Expressions of a query: evaluated by Polars, and rejected if databases disagree about their meaning."""

from __future__ import annotations

import difflib
from typing import Any

import polars as pl
from sqlglot import exp
from sqlglot.errors import ErrorLevel, UnsupportedError

from eventide.errors import PlanError
from eventide.streamsql.errors import not_a_condition, not_computed, number_as_instant, unsupported
from eventide.streamsql.polars_expressions import is_instant, parse_instant, polars_sql, whole_number
from eventide.streamsql.source_positions import LocatedError
from eventide.streamsql.spark_windows import SPARK_WINDOWS, spark_window
from eventide.streamsql.syntax import (
    AGGREGATES,
    ENGINE_AGGREGATES,
    OTHER_DATABASES,
    PYTHON_AGGREGATES,
    WINDOW_FUNCTIONS,
    WindowTable,
)

_PARTS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOY", "DOW", "ISODOW", "HOUR", "MINUTE", "SECOND", "EPOCH")
_DAY_FUNCTIONS = (exp.DateAdd, exp.DateSub, exp.DatetimeAdd, exp.DatetimeSub, exp.TimestampAdd, exp.TimestampSub)
_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_CHAINED = (*_COMPARED, exp.Between, exp.In, exp.Like, exp.ILike, exp.Not)
_AGGREGATE_EXAMPLES = (
    "There are COUNT, SUM, AVG, MIN, MAX, VARIANCE, STDDEV, MEDIAN, QUANTILE, FIRST, LAST, ARRAY_AGG and others."
)
_RANDOM = (exp.Rand, exp.Randn, exp.Uuid)
_NOW = (exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime, exp.CurrentDatetime)


def reject_ambiguous(node: exp.Expr) -> None:
    """Reject a part of an expression that databases interpret differently."""
    fault = _ambiguity(node)
    if fault is not None:
        raise LocatedError(node, fault)


def reject_changing(node: exp.Expr) -> None:
    """Reject expressions over panes whose value would differ in a retraction."""
    for part in node.walk():
        if isinstance(part, _NOW) or (isinstance(part, exp.Anonymous) and part.name.lower() in ("now", "getdate")):
            raise LocatedError(
                part,
                f"{part.sql().removesuffix('()')} of a pane is not supported: its value "
                "would change when the pane is retracted. Use emitted_at, or compute it when you read the result.",
            )


def _ambiguity(node: exp.Expr) -> PlanError | None:
    if isinstance(node, WindowTable):
        kind = node.args["kind"]
        fix = f"Write FROM {kind}(orders, DESCRIPTOR(ts), …) and GROUP BY window_start, window_end."
        return unsupported(f"{kind} outside FROM", fix)
    if isinstance(node, exp.AggFunc):
        return PlanError(f"{_name(node)} is not supported. {_AGGREGATE_EXAMPLES}")
    if isinstance(node, exp.Anonymous):
        return _unknown_call(node)
    if isinstance(node, exp.Log) and node.args.get("expression") is None:
        return unsupported("LOG with one argument", "Write LN(x), LOG10(x) or LOG(base, x).")
    if isinstance(node, exp.Initcap):
        return unsupported("INITCAP", "What begins a word is not the same everywhere. Use UPPER or LOWER.")
    if isinstance(node, exp.ToChar):
        return unsupported("TO_CHAR", "Formats are not the same everywhere. Use CAST(ts AS STRING), or EXTRACT.")
    if isinstance(node, exp.SimilarTo):
        return unsupported("SIMILAR TO", "Use REGEXP_LIKE(text, '…'), or LIKE.")
    if isinstance(node, exp.Substring):
        return _substring_ambiguity(node)
    if isinstance(node, exp.StrPosition) and (node.args.get("position") or node.args.get("occurrence")):
        return unsupported("A position from a place on", "Write POSITION(x IN SUBSTRING(text, place)).")
    if isinstance(node, exp.Round):
        digits = node.args.get("decimals")
        if digits is not None and (whole_number(digits) is None or int(whole_number(digits) or 0) < 0):
            return unsupported("ROUND to anything but a number of digits", "Write ROUND(x) or ROUND(x, 2).")
    if isinstance(node, exp.Ceil | exp.Floor | exp.Trunc) and (node.args.get("decimals") or node.args.get("to")):
        return unsupported(f"{node.sql_name()} with a second argument", "Use ROUND(x, 2), or DATE_TRUNC for times.")
    if isinstance(node, exp.Extract) and node.this.name.upper() not in _PARTS:
        return unsupported(f"EXTRACT({node.this.name.upper()} …)", f"There are: {', '.join(_PARTS)}.")
    if isinstance(node, _DAY_FUNCTIONS):
        return unsupported(_name(node), "Write ts + INTERVAL '1' DAY; CAST(ts AS DATE) makes it a date.")
    if isinstance(node, exp.DateDiff | exp.TimestampDiff | exp.DatetimeDiff):
        return unsupported(_name(node), "Subtract the times: EXTRACT(EPOCH FROM a) - EXTRACT(EPOCH FROM b).")
    if isinstance(node, _RANDOM):
        return unsupported(_name(node), "A step that is repeated after a fault must give the same.")
    if isinstance(node, exp.Bracket):
        return _index_ambiguity(node)
    if isinstance(node, exp.Escape):
        return _escape_ambiguity(node)
    if isinstance(node, exp.BitwiseXor):
        return unsupported("The operator ^", "It is a power here and an exclusive OR there. Write POWER(x, y).")
    if isinstance(node, _COMPARED) and any(isinstance(part, _CHAINED) for part in node.iter_expressions()):
        return PlanError(
            f"{node.sql()}: databases order comparisons without brackets differently. Write (a = b) = c, or "
            "a = (b = c)."
        )
    return _instant_ambiguity(node) if is_instant(node) else None


def _unknown_call(node: exp.Anonymous) -> PlanError | None:
    """Return the error for a call that looks like an aggregate. Other unknown functions are left to the engine."""
    name = node.name.lower()
    if name in AGGREGATES or name in PYTHON_AGGREGATES or name == "table":
        return None
    if name in OTHER_DATABASES:
        return unsupported(name.upper(), OTHER_DATABASES[name])
    if name.rpartition("_")[0].upper() in WINDOW_FUNCTIONS and name.rpartition("_")[2] in ("start", "end", "rowtime"):
        fix = "Write window_start, window_end or window_time, of FROM TUMBLE(orders, DESCRIPTOR(ts), …)."
        return unsupported(name.upper(), fix)
    of_aggregates = (exp.Star, exp.Distinct, exp.Order, exp.IgnoreNulls, exp.RespectNulls)
    if any(isinstance(argument, of_aggregates) for argument in node.expressions) or isinstance(
        node.parent, _AGGREGATE_SUFFIXES
    ):
        near = _nearest(name)
        hint = f"Did you mean {near}?" if near else _AGGREGATE_EXAMPLES
        return PlanError(f"There is no aggregate {node.name.upper()}. {hint}")
    return None


_AGGREGATE_SUFFIXES = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)


def misspelt_aggregate(node: exp.Expr) -> exp.Anonymous | None:
    """Return the enclosing call that may be a misspelt aggregate."""
    inner: exp.Expr | None = node
    while inner is not None and not isinstance(inner, exp.Select):
        if isinstance(inner, exp.Anonymous) and _nearest(inner.name) is not None:
            return inner
        inner = inner.parent
    return None


def _nearest(name: str) -> str | None:
    near = difflib.get_close_matches(name.lower(), AGGREGATES, n=1, cutoff=0.75)
    return near[0].upper() if near else None


def _name(node: exp.Expr) -> str:
    return str(node.meta.get("name") or (node.sql_name() if isinstance(node, exp.Func) else node.sql())).upper()


def _substring_ambiguity(node: exp.Substring) -> PlanError | None:
    start, size = whole_number(node.args.get("start")), whole_number(node.args.get("length"))
    if start is not None and start < 1:
        return unsupported(f"SUBSTRING from {start}", "Places begin with 1. Use RIGHT(text, 2) for the end.")
    if size is not None and size < 0:
        return unsupported(f"SUBSTRING of {size} letters", "Give a length from 0.")
    return None


def _index_ambiguity(node: exp.Bracket) -> PlanError | None:
    index = node.expressions[0] if len(node.expressions) == 1 else None
    if isinstance(index, exp.Literal) and index.is_string:
        return None
    number = whole_number(index)
    if number is None or number < 0:
        return unsupported("This index", "Write a number from 0, the first: list[0].")
    return None


def _escape_ambiguity(node: exp.Escape) -> PlanError | None:
    """Spark rejects an escape before any other character; other databases ignore it, or do not."""
    sign, pattern = node.expression, node.this.expression
    if not (sign.is_string and len(sign.name) == 1 and pattern.is_string):
        return unsupported("ESCAPE of anything but one character", "Write x LIKE '10!%' ESCAPE '!'.")
    letters = iter(pattern.name)
    wrong = any(letter == sign.name and next(letters, "") not in ("%", "_", sign.name) for letter in letters)
    return (
        PlanError(
            f"{sign.name!r} escapes %, _ and itself only. Leave it out before other characters, or write it twice."
        )
        if wrong
        else None
    )


def _instant_ambiguity(node: exp.Expr) -> PlanError | None:
    if not isinstance(node, exp.Cast) or not isinstance(node.this, exp.Literal):
        return None
    if not node.this.is_string:
        return number_as_instant(node.sql())
    try:
        parse_instant(node.this.name)
    except ValueError:
        return PlanError(
            f"{node.this.name!r} is no instant. Write TIMESTAMP '2026-03-01 12:00:00', in UTC if it has no zone."
        )
    return None


_TABLE_FUNCTION = ("A function that gives several rows", "Explode rows before they are given to the query.")

_UNSUPPORTED: dict[type[exp.Expr], tuple[str, str]] = {
    exp.Window: (
        "A window function (… OVER …)",
        "Group by a window: FROM TUMBLE(…) GROUP BY window_start, window_end.",
    ),
    exp.Subquery: ("A subquery in an expression", "Join the streams instead."),
    exp.Select: ("A subquery in an expression", "Join the streams instead."),
    **dict.fromkeys((exp.UDTF, exp.Explode, exp.Posexplode, exp.GenerateSeries), _TABLE_FUNCTION),
    exp.Exists: ("EXISTS", "Join the streams instead."),
    exp.Parameter: ("A parameter", "Write the value into the query."),
    exp.Placeholder: ("A parameter", "Write the value into the query."),
}


def column(name: str) -> exp.Column:
    """Return a column by its exact name."""
    return exp.column(exp.to_identifier(name, quoted=True))


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a call is one of the aggregates."""
    return isinstance(node, exp.Anonymous) and node.name.lower() in (*AGGREGATES, *PYTHON_AGGREGATES)


def has_aggregate(node: exp.Expr | None) -> bool:
    """Whether an expression contains an aggregate."""
    return node is not None and any(is_aggregate(part) for part in node.walk())


def reject_unsupported(node: exp.Expr) -> None:
    """Reject expressions that streams do not support."""
    for part in node.walk():
        for kind, (what, fix) in _UNSUPPORTED.items():
            if isinstance(part, kind):
                raise LocatedError(part, unsupported(what, fix))
        if isinstance(part, exp.Anonymous) and part.name.lower() in SPARK_WINDOWS:
            raise LocatedError(part, spark_window(part))
        reject_ambiguous(part)
        # An engine would compute it over the rows of a bundle.
        if isinstance(part, exp.RowNumber) or (
            isinstance(part, exp.Anonymous) and part.name.lower() in ENGINE_AGGREGATES
        ):
            name = part.name.upper() if isinstance(part, exp.Anonymous) else part.sql_name()
            raise LocatedError(part, unsupported(name, "The guide to SQL has a table of aggregates."))


def text_of(node: exp.Expr) -> str:
    """Return an expression as users write it."""
    return node.transform(_unquoted).sql(unsupported_level=ErrorLevel.IGNORE)


def _unquoted(node: exp.Expr) -> exp.Expr:
    plain = isinstance(node, exp.Identifier) and node.name.isidentifier()
    return exp.Identifier(this=node.name, quoted=False) if plain else node


def evaluate(frame: pl.DataFrame, node: exp.Expr) -> pl.Series:
    """Return the value of an expression for each row of a frame."""
    frame = frame if isinstance(node, exp.Column) else _zoned(_widened(frame, node), node)
    try:
        # In a context Polars knows the types of columns, which some functions need.
        rows = pl.SQLContext({"rows": frame})
        text = polars_sql(node, lambda part: _typed(frame, part))
        # A second column fixes the number of rows: Polars returns one row for some constant expressions.
        first_column = "".join(f', {column(name).sql(identify=True)} AS "first_column"' for name in frame.columns[:1])
        result = rows.execute(f'SELECT {text} AS "value"{first_column} FROM rows', eager=True)
    except (pl.exceptions.PolarsError, UnsupportedError) as cause:
        raise LocatedError(node, not_computed(text_of(node), cause)) from None
    return result["value"]


def filter_rows(frame: pl.DataFrame, node: exp.Expr) -> pl.DataFrame:
    """Return the rows of a frame for which a condition holds."""
    condition = evaluate(frame, node)
    if condition.dtype != pl.Boolean:
        raise LocatedError(node, not_a_condition(text_of(node)))
    return frame.filter(condition)


def _widened(frame: pl.DataFrame, node: exp.Expr) -> pl.DataFrame:
    """Cast columns of unsigned and short integers to wider types, so that arithmetic does not overflow."""
    named = {part.name for part in node.find_all(exp.Column)} & set(frame.columns)
    wider = [pl.col(name).cast(_WIDER[frame.schema[name]]) for name in named if frame.schema[name] in _WIDER]
    return frame.with_columns(wider) if wider else frame


_WIDER: dict[Any, Any] = {
    **dict.fromkeys((pl.UInt8, pl.UInt16, pl.UInt32, pl.Int8, pl.Int16), pl.Int64),
    pl.UInt64: pl.Int128,
}


def _zoned(frame: pl.DataFrame, node: exp.Expr) -> pl.DataFrame:
    """Give times without a zone the zone UTC, if the expression contains instants."""
    if not any(is_instant(part) for part in node.walk()):
        return frame
    named = {part.name for part in node.find_all(exp.Column)}
    plain = [name for name in named & set(frame.columns) if frame.schema[name] == pl.Datetime("us", None)]
    return frame.with_columns(pl.col(plain).dt.replace_time_zone("UTC")) if plain else frame


def _typed(frame: pl.DataFrame, text: str) -> pl.DataType:
    return (
        pl.SQLContext({"rows": frame.head(0)}).execute(f'SELECT {text} AS "value" FROM rows').collect_schema()["value"]
    )


def to_polars(node: exp.Expr) -> pl.Expr:
    """Return the expression as a Polars expression."""
    try:
        expression: pl.Expr = pl.sql_expr(polars_sql(node, lambda _: None))
    except (pl.exceptions.PolarsError, UnsupportedError) as cause:
        raise LocatedError(node, not_computed(text_of(node), cause)) from None
    return expression
