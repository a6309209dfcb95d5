"""What databases read in different ways: refused by name, with how to say what is meant."""

from __future__ import annotations

import difflib

from sqlglot import exp

from eventide.errors import PlanError
from eventide.errors import sql as errors
from eventide.errors import sql_expressions as expression_errors
from eventide.streamsql.catalogue import AGGREGATES, ELSEWHERE, IN_PYTHON, WINDOW_FUNCTIONS
from eventide.streamsql.for_polars import is_instant, written_instant
from eventide.streamsql.nodes import WindowTable
from eventide.streamsql.places import At
from eventide.streamsql.rewriting import whole_number

_PARTS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOY", "DOW", "ISODOW", "HOUR", "MINUTE", "SECOND", "EPOCH")
_OF_DAYS = (exp.DateAdd, exp.DateSub, exp.DatetimeAdd, exp.DatetimeSub, exp.TimestampAdd, exp.TimestampSub)
_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_CHAINED = (*_COMPARED, exp.Between, exp.In, exp.Like, exp.ILike, exp.Not)
_OF_CHANCE = (exp.Rand, exp.Randn, exp.Uuid)
_NOW = (exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime, exp.CurrentDatetime)


def refuse_ambiguous(node: exp.Expr) -> None:
    """Refuse one part of an expression, if it would not mean the same everywhere."""
    fault = _fault(node)
    if fault is not None:
        raise At(node, fault)


def refuse_changing(node: exp.Expr) -> None:
    """Of panes: refuse what is another value when a pane is taken back."""
    for one in node.walk():
        if isinstance(one, _NOW) or (isinstance(one, exp.Anonymous) and one.name.lower() in ("now", "getdate")):
            raise At(one, expression_errors.not_repeated_value(one.sql().removesuffix("()")))


def _fault(node: exp.Expr) -> PlanError | None:
    if isinstance(node, WindowTable):
        kind = node.args["kind"]
        mend = f"Write FROM {kind}(orders, DESCRIPTOR(ts), …) and GROUP BY window_start, window_end."
        return errors.not_here(f"{kind} outside FROM", mend)
    if isinstance(node, exp.AggFunc):
        return expression_errors.other_aggregate(_said(node))
    if isinstance(node, exp.Anonymous):
        return _unknown_call(node)
    if isinstance(node, exp.Log) and node.args.get("expression") is None:
        return errors.not_here("LOG with one argument", "Write LN(x), LOG10(x) or LOG(base, x).")
    if isinstance(node, exp.Initcap):
        return errors.not_here("INITCAP", "What begins a word is not the same everywhere. Use UPPER or LOWER.")
    if isinstance(node, exp.ToChar):
        return errors.not_here("TO_CHAR", "Formats are not the same everywhere. Use CAST(ts AS STRING), or EXTRACT.")
    if isinstance(node, exp.SimilarTo):
        return errors.not_here("SIMILAR TO", "Use REGEXP_LIKE(text, '…'), or LIKE.")
    if isinstance(node, exp.Substring):
        return _of_substring(node)
    if isinstance(node, exp.StrPosition) and (node.args.get("position") or node.args.get("occurrence")):
        return errors.not_here("A position from a place on", "Write POSITION(x IN SUBSTRING(text, place)).")
    if isinstance(node, exp.Round):
        digits = node.args.get("decimals")
        if digits is not None and (whole_number(digits) is None or int(whole_number(digits) or 0) < 0):
            return errors.not_here("ROUND to anything but a number of digits", "Write ROUND(x) or ROUND(x, 2).")
    if isinstance(node, exp.Ceil | exp.Floor | exp.Trunc) and (node.args.get("decimals") or node.args.get("to")):
        return errors.not_here(f"{node.sql_name()} with a second argument", "Use ROUND(x, 2), or DATE_TRUNC for times.")
    if isinstance(node, exp.Extract) and node.this.name.upper() not in _PARTS:
        return errors.not_here(f"EXTRACT({node.this.name.upper()} …)", f"There are: {', '.join(_PARTS)}.")
    if isinstance(node, _OF_DAYS):
        return errors.not_here(_said(node), "Write ts + INTERVAL '1' DAY; CAST(ts AS DATE) makes it a date.")
    if isinstance(node, exp.DateDiff | exp.TimestampDiff | exp.DatetimeDiff):
        return errors.not_here(_said(node), "Subtract the times: EXTRACT(EPOCH FROM a) - EXTRACT(EPOCH FROM b).")
    if isinstance(node, _OF_CHANCE):
        return errors.not_here(_said(node), "A step that is repeated after a fault must give the same.")
    if isinstance(node, exp.Bracket):
        return _of_index(node)
    if isinstance(node, exp.Escape):
        return _of_escape(node)
    if isinstance(node, exp.BitwiseXor):
        return errors.not_here("The operator ^", "It is a power here and an exclusive OR there. Write POWER(x, y).")
    if isinstance(node, _COMPARED) and any(isinstance(one, _CHAINED) for one in node.iter_expressions()):
        return expression_errors.chained_comparison(node.sql())
    return _of_instant(node) if is_instant(node) else None


def _unknown_call(node: exp.Anonymous) -> PlanError | None:
    """A function that nobody knows is the engine's, unless it has what only aggregates have."""
    name = node.name.lower()
    if name in AGGREGATES or name in IN_PYTHON or name == "table":
        return None
    if name in ELSEWHERE:
        return errors.not_here(name.upper(), ELSEWHERE[name])
    if name.rpartition("_")[0].upper() in WINDOW_FUNCTIONS and name.rpartition("_")[2] in ("start", "end", "rowtime"):
        mend = "Write window_start, window_end or window_time, of FROM TUMBLE(orders, DESCRIPTOR(ts), …)."
        return errors.not_here(name.upper(), mend)
    of_aggregates = (exp.Star, exp.Distinct, exp.Order, exp.IgnoreNulls, exp.RespectNulls)
    if any(isinstance(one, of_aggregates) for one in node.expressions) or isinstance(node.parent, _BEHIND):
        return expression_errors.no_such_aggregate(node.name.upper(), _nearest(name))
    return None


_BEHIND = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)


def near_aggregate(node: exp.Expr) -> exp.Anonymous | None:
    """The call around a part that may be an aggregate misspelt."""
    inner: exp.Expr | None = node
    while inner is not None and not isinstance(inner, exp.Select):
        if isinstance(inner, exp.Anonymous) and _nearest(inner.name) is not None:
            return inner
        inner = inner.parent
    return None


def _nearest(name: str) -> str | None:
    near = difflib.get_close_matches(name.lower(), AGGREGATES, n=1, cutoff=0.75)
    return near[0].upper() if near else None


def _said(node: exp.Expr) -> str:
    return str(node.meta.get("name") or (node.sql_name() if isinstance(node, exp.Func) else node.sql())).upper()


def _of_substring(node: exp.Substring) -> PlanError | None:
    start, size = whole_number(node.args.get("start")), whole_number(node.args.get("length"))
    if start is not None and start < 1:
        return errors.not_here(f"SUBSTRING from {start}", "Places begin with 1. Use RIGHT(text, 2) for the end.")
    if size is not None and size < 0:
        return errors.not_here(f"SUBSTRING of {size} letters", "Give a length from 0.")
    return None


def _of_index(node: exp.Bracket) -> PlanError | None:
    index = node.expressions[0] if len(node.expressions) == 1 else None
    if isinstance(index, exp.Literal) and index.is_string:
        return None
    number = whole_number(index)
    if number is None or number < 0:
        return errors.not_here("This index", "Write a number from 0, the first: list[0].")
    return None


def _of_escape(node: exp.Escape) -> PlanError | None:
    """Spark rejects an escape before any other character; other databases ignore it, or do not."""
    sign, pattern = node.expression, node.this.expression
    if not (sign.is_string and len(sign.name) == 1 and pattern.is_string):
        return errors.not_here("ESCAPE of anything but one character", "Write x LIKE '10!%' ESCAPE '!'.")
    letters = iter(pattern.name)
    wrong = any(letter == sign.name and next(letters, "") not in ("%", "_", sign.name) for letter in letters)
    return expression_errors.wrong_escape(sign.name) if wrong else None


def _of_instant(node: exp.Expr) -> PlanError | None:
    if not isinstance(node, exp.Cast) or not isinstance(node.this, exp.Literal):
        return None
    if not node.this.is_string:
        return expression_errors.number_as_instant(node.sql())
    try:
        written_instant(node.this.name)
    except ValueError:
        return expression_errors.not_an_instant(node.this.name)
    return None
