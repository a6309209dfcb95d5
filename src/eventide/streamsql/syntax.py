"""Syntax that Eventide adds to SQL: nodes, words of clauses, known functions, literals, and the base of the parsers."""

from __future__ import annotations

import difflib
from typing import Any, ClassVar, NoReturn

from sqlglot import exp
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import TokenType

from eventide.errors import PlanError
from eventide.streamsql.errors import expecting
from eventide.streamsql.source_positions import LocatedError


class Explain(exp.Expression):
    """``EXPLAIN query``."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class CreateStream(exp.Expression):
    """``CREATE STREAM name (columns) WATERMARK FOR … LIMIT STATE … KEEP … DEDUPLICATE``."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "columns": False,
        "watermarks": False,
        "limits": False,
        "keep": False,
        "deduplicate": False,
    }


class WatermarkFor(exp.Expression):
    """``WATERMARK FOR this AS …``: a rule (``as``, ``punctuated``, ``noted``) and options."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "rule": True, "value": False, "options": False}


class Option(exp.Expression):
    """A word of a clause with its value: a column, a length, a number, names, or nothing."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "value": False}


class WindowTable(exp.Expression):
    """``TUMBLE(TABLE this, DESCRIPTOR(time), …)``: a table whose rows have windows."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "kind": True, "time": False, "arguments": False}


class Preceding(exp.Expression):
    """``OVER (ORDER BY time ROWS|RANGE … PRECEDING)`` of a table that is joined."""

    arg_types: ClassVar[dict[str, bool]] = {"unit": True, "length": True, "time": False}


# How it is written, the option of ev.bounded_delay() and its like, and what follows.
WATERMARK_OPTIONS = (
    ("PER", "origin", "column"),
    ("SEQUENCE", "sequence", "column"),
    ("FIRST SEQUENCE", "first_sequence", "number"),
    ("GAPS", "gaps", "ALLOWED or WAIT"),
    ("AT LATEST", "at_latest", "length"),
    ("CHUNK", "chunk", "column"),
    ("LAST CHUNK", "last_chunk", "column"),
    ("FIRST CHUNK", "first_chunk", "number"),
    ("GAP TIMEOUT", "gap_timeout", "length"),
    ("IDLE TIMEOUT", "idle_timeout", "length"),
    ("FORGET AFTER", "forget_after", "length"),
    ("ON RETURN", "on_return", "HOLD or CATCH UP"),
    ("EXPECT", "expect_origins", "origins"),
    ("TIMEOUT", "origins_timeout", "length"),
    ("MAX FUTURE SKEW", "max_future_skew", "length or NONE"),
    ("WATERMARK KEY", "watermark_key", "number"),
)

STREAM_WORDS = ("WATERMARK FOR", *(words for words, _, _ in WATERMARK_OPTIONS), "LIMIT STATE", "KEEP", "DEDUPLICATE")


WINDOW_FUNCTIONS = ("TUMBLE", "HOP", "SESSION", "CUMULATE", "CALENDAR", "ROWS_WINDOW", "ROW_SESSION")
"""Windows as table functions."""

# What SQL calls it, and what Python calls it.
AGGREGATES = {
    "count": "count",
    "sum": "sum",
    "avg": "mean",
    "mean": "mean",
    "min": "min",
    "max": "max",
    "var": "var",
    "variance": "var",
    "var_samp": "var",
    "std": "std",
    "stddev": "std",
    "stddev_samp": "std",
    "first": "first",
    "first_value": "first",
    "last": "last",
    "last_value": "last",
    "min_by": "min_by",
    "max_by": "max_by",
    "arg_min": "min_by",
    "arg_max": "max_by",
    "top_n": "top_n",
    "top_n_by_key": "top_n_by_key",
    "collect": "collect_list",
    "collect_list": "collect_list",
    "array_agg": "collect_list",
    "collect_set": "collect_set",
    "count_distinct": "count_distinct",
    "sort": "collect_sorted",
    "median": "median",
    "quantile": "quantile",
    "percentile": "quantile",
    "percentile_cont": "quantile",
    "mode": "mode",
    "approx_distinct": "approx_distinct",
    "approx_count_distinct": "approx_distinct",
    "approx_quantile": "approx_quantile",
    "approx_percentile": "approx_quantile",
    "composite": "composite",
}
"""Aggregates by their names in SQL, with their names in Python."""

PYTHON_AGGREGATES = ("reduce", "fold")
"""Aggregates that need a Python function."""

OTHER_DATABASES = {
    **dict.fromkeys(("stddev_pop", "stdev", "stddevp"), "STDDEV(x) is that of a sample."),
    **dict.fromkeys(("var_pop", "variance_pop", "varp"), "VARIANCE(x) is that of a sample."),
    **dict.fromkeys(("string_agg", "listagg", "group_concat"), "Use ARRAY_AGG(x), and join the texts outside."),
    **dict.fromkeys(("bool_and", "every", "logical_and"), "Use COUNT(*) FILTER (WHERE NOT x) = 0."),
    **dict.fromkeys(("bool_or", "some", "logical_or"), "Use COUNT(*) FILTER (WHERE x) > 0."),
    **dict.fromkeys(("count_if", "countif"), "Use COUNT(*) FILTER (WHERE x)."),
    **dict.fromkeys(("sum_if", "sumif"), "Use SUM(x) FILTER (WHERE y)."),
    "any_value": "Use FIRST(x), which is deterministic.",
    "percentile_disc": "PERCENTILE_CONT and QUANTILE give a value between two rows; MEDIAN does, too.",
    **dict.fromkeys(
        ("corr", "covar_pop", "covar_samp", "regr_slope", "skewness", "kurtosis"),
        "Build the pipeline in Python, with ev.fold(…).",
    ),
    **dict.fromkeys(
        ("row_number", "rank", "dense_rank", "ntile", "lag", "lead", "nth_value", "cume_dist", "percent_rank"),
        "A stream has no order of all its rows. Use TOP_N_BY_KEY(value, key, n), FIRST(x) or LAST(x).",
    ),
}
"""Aggregates and window functions that other databases have, and what to do instead."""

ENGINE_AGGREGATES = ("quantile_cont", "quantile_disc", "stdev_samp", "covar", "listagg")
"""Aggregates of Polars that the parser does not recognize as aggregates."""


def length(node: Any) -> str:
    """Return an interval as the text of a duration.

    >>> from sqlglot import parse_one
    >>> length(parse_one("INTERVAL '5' MINUTE")), length(parse_one("INTERVAL '1 hour 30 minutes'"))
    ('5 minute', '1 hour 30 minutes')
    """
    if isinstance(node, exp.Add):
        parts = length(node.this), length(node.expression)
        if any(part.startswith("-") for part in parts):  # a sign before a duration is that of all its parts
            raise LocatedError(node, _not_a_length(node.sql()))
        return " ".join(parts)
    if isinstance(node, exp.Neg) and not (text := length(node.this)).startswith("-"):
        return f"-{text}"
    if not isinstance(node, exp.Interval) or not isinstance(node.this, exp.Literal):
        raise LocatedError(node, _not_a_length(node.sql()))
    unit = node.args.get("unit")
    if unit is not None and not isinstance(unit, exp.Var):
        raise LocatedError(node, _not_a_length(node.sql()))
    return node.this.name if unit is None else f"{node.this.name} {unit.name.lower()}"


def number(node: Any) -> int:
    """Return the value of an integer literal."""
    text = node.name if isinstance(node, exp.Literal) else ""
    if not text.isdigit():
        raise LocatedError(node, f"{node.sql()} is not a whole number.")
    return int(text)


def constant(node: Any, function: str) -> Any:
    """Return the value of a number, text or boolean literal."""
    if isinstance(node, exp.Literal):
        return node.name if node.is_string else float(node.name) if "." in node.name else int(node.name)
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    raise LocatedError(node, f"{function}: {node.sql()} must be a number or a text, not an expression.")


def column(node: Any, what: str) -> str:
    """Return the name of a plain column."""
    if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
        return ".".join(part.name for part in node.parts)
    if isinstance(node, exp.Identifier):
        return node.name
    raise LocatedError(
        node, f"{what}: {node.sql()} is not a column. Name a column; compute one in a subquery, if need be."
    )


class ClauseParser(Parser):
    """A parser of standard SQL with lengths and located errors."""

    def _parse_unary(self) -> exp.Expr | None:
        """Parse an operand, and set its position where the standard parser does not: NULL, CAST(…), CASE … END."""
        start = self._curr
        operand = super()._parse_unary()
        if operand is not None and start and not isinstance(operand, exp.Column) and "start" not in operand.meta:
            operand.meta.update(start=start.start, end=self._prev.end)
        return operand

    def _parse_time(self) -> exp.Expr | None:
        """Parse a column, or ``INGESTION_TIME()``."""
        return self._parse_function(any_token=True) or self._parse_plain_column()

    def _parse_plain_column(self) -> exp.Column:
        """Parse a plain column."""
        start = self._index
        column_node = self._parse_column()
        if not isinstance(column_node, exp.Column) or isinstance(column_node.this, exp.Star):
            self._retreat(start)
            self._reject(expecting("a column"))
        return column_node

    def _parse_length(self) -> exp.Expr | None:
        """Parse ``INTERVAL '5' SECOND``, ``'5' SECOND`` or ``5 seconds``, or a sum of them."""
        total = self._parse_one_length()
        while total is not None and self._match(TokenType.PLUS):
            other = self._parse_one_length()
            if other is None:
                self._reject(expecting("a length, such as INTERVAL '30' SECOND,"))
            total = self.expression(exp.Add(this=total, expression=other))
        return total

    def _parse_one_length(self) -> exp.Expr | None:
        if self._match(TokenType.INTERVAL, advance=False):
            return self._parse_interval()
        before = self._next and self._next.token_type == TokenType.INTERVAL
        if before and self._match(TokenType.DASH):
            return self.expression(exp.Neg(this=self._parse_interval()), self._prev)
        numeric = self._match_set((TokenType.STRING, TokenType.NUMBER), advance=False)
        if numeric and self._next and self._next.token_type == TokenType.VAR:
            start = self._curr
            # sqlglot types every parsed part as optional; a matched number is never None.
            return self.expression(self._parse_interval_span(self._parse_primary()), start)  # type: ignore[arg-type]
        return None

    def _unknown_word(self, clause: str, phrases: tuple[str, ...]) -> NoReturn:
        """Reject a word that begins no part of the clause, with a similar phrase as a hint."""
        words = {phrase: " ".join(self._following(len(phrase.split()))).upper() for phrase in phrases}
        near = [
            phrase
            for phrase, words_here in words.items()
            if difflib.SequenceMatcher(None, phrase, words_here).ratio() > 0.75
        ]
        hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(phrases)}."
        self._reject(f"{self._curr.text!r} is no part of {clause}. {hint}")

    def _following(self, count: int) -> list[str]:
        return [token.text for token in self._tokens[self._index : self._index + count]]

    def _reject(self, error: PlanError | str) -> NoReturn:
        token = self._curr or self._prev
        raise LocatedError((token.start, token.end + 1), error)

    def _warn_unsupported(self) -> None:
        """Log nothing: commands are rejected by name."""


def _not_a_length(text: str) -> PlanError:
    """Return the error for an expression that is not a length of time."""
    return PlanError(f"{text} is not a length of time. Write INTERVAL '30' SECOND.")
