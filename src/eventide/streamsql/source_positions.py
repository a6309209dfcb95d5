"""Positions of errors in the text of a query."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from eventide.errors import PlanError
from eventide.streamsql.errors import ColumnsNotKnownError


class LocatedError(Exception):
    """An error about a part of the query. ``with_excerpt`` finds the part in the text."""

    def __init__(self, part: exp.Expr | tuple[int, int] | None, error: PlanError | str) -> None:
        super().__init__(_in_sql_terms(str(error)))
        self.place = part if isinstance(part, tuple) else span(part)


class MissingColumnsError(LocatedError):
    """An error about a part whose meaning depends on the columns of its tables."""


@contextmanager
def locate(node: exp.Expr | None) -> Iterator[None]:
    """Locate errors of pipelines at this part of the query."""
    try:
        yield
    except PlanError as error:
        raise LocatedError(node, error) from error


@contextmanager
def with_excerpt(text: str) -> Iterator[None]:
    """Show the line of ``text`` that errors refer to, with a caret."""
    try:
        yield
    except LocatedError as error:
        kind = ColumnsNotKnownError if isinstance(error, MissingColumnsError) else PlanError
        raise kind(f"{error}\n{excerpt(text, error.place)}") from error.__cause__
    except ParseError as unread:
        fault = unread.errors[0] if unread.errors else {}
        word = str(fault.get("highlight") or "")
        end = _offset(text, int(fault.get("line") or 1), int(fault.get("col") or 1))
        start = max(0, end - len(word))
        before = (text[:start].split() or [""])[-1]
        described = str(fault.get("description") or unread)
        raise _unreadable(described, word, excerpt(text, (start, end)), before) from None
    except TokenError:
        last = max(0, len(text.rstrip()) - 1)
        unclosed = "a text in quotation marks, a quoted name or a comment is not closed"
        raise _unreadable(unclosed, "", excerpt(text, (last, last + 1))) from None


def span(node: exp.Expr | None) -> tuple[int, int]:
    """Return the start and end offset of a part, or of the nearest part around it that has a position."""
    while node is not None:
        meta = node.meta
        places = [meta] if "start" in meta and not isinstance(node, exp.Column) else [n.meta for n in node.walk()]
        spans = [(place["start"], place["end"] + 1) for place in places if place.get("start") is not None]
        if spans:
            return min(start for start, _ in spans), max(end for _, end in spans)
        node = node.parent
    return 0, 1


def at_position_of(expression: exp.Expr, node: exp.Expr) -> exp.Expr:
    """Return an expression with the position of the part of the query that it replaces."""
    start, end = span(node)
    expression.meta.update(start=start, end=end - 1)
    return expression


def excerpt(text: str, place: tuple[int, int]) -> str:
    r"""Return the line of a position, with carets under it.

    >>> print(excerpt("SELECT a\nFORM b", (9, 13)))
    line 2, column 1:
        FORM b
        ^^^^
    """
    start, end = place
    before = text[:start]
    line, column = before.count("\n"), start - (before.rfind("\n") + 1)
    shown = text.split("\n")[line]
    width = max(1, min(end - start, len(shown) - column))
    under = "".join("\t" if letter == "\t" else " " for letter in shown[:column])
    return f"line {line + 1}, column {column + 1}:\n    {shown}\n    {under}{'^' * width}"


def _offset(text: str, line: int, column: int) -> int:
    lines = text.splitlines(keepends=True)
    return sum(len(text_line) for text_line in lines[: line - 1]) + column


_KEYWORDS = (
    *("SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "EMIT", "JOIN", "ON", "OVER", "WITH", "AS", "DESCRIPTOR"),
    *("CREATE STREAM", "WATERMARK FOR", "INTERVAL", "EXPLAIN", "UNION ALL", "PRECEDING", "BETWEEN"),
)


_SQL_TERMS: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"\.trigger\(…, may_lose_data=True\)", "MAY LOSE DATA in EMIT"),
    (
        r"Wrap it in ev\.repeatedly\(…\), or use it as early= of ev\.after_watermark\(\)",
        "Write REPEATEDLY(…), or EARLY …",
    ),
    (r"late=ev\.on_update\(\) to after_watermark\(\)", "LATE ON UPDATE to EMIT"),
    (r"allowed_lateness='1 hour'", "ALLOWED LATENESS INTERVAL '1' HOUR"),
    (r"allowed_lateness=100, a number of rows", "ALLOWED LATENESS 100 ROWS"),
    (r"allowed_lateness=", "ALLOWED LATENESS"),
    (r"(\.emit|window_join)\(\): late=…", "LATE"),
    (r"remove late=", "remove LATE"),
    (r"mode='(accumulating|discarding|retracting)'", lambda mode: mode[1].upper()),
    (r"window by offset: ev\.rows\(…, offset='offset'\)", "count by a column: ROWS_WINDOW(…, by => column)"),
    (r"keep=\{'(left|right)': '1 hour'\}", r"CREATE STREAM … KEEP INTERVAL '1' HOUR, for the \1 stream"),
    (r"within= or last= already determines", "The condition in ON, or OVER, already determines"),
    (r"Remove keep=", "Remove KEEP"),
    (r"\.limit_state\(…\)", "LIMIT STATE"),
    (r"join: within=\(.*\) is empty", "The interval of the bounds in ON is empty"),
    (r"join: where gives", "The condition in ON gives"),
    (r"ev\.collect_list\('(\w+)'\)", r"ARRAY_AGG(\1)"),
    (r"IngestionTime\(\)", "INGESTION_TIME()"),
    (r"\.deduplicate\(\)", "DEDUPLICATE"),
)


def _unreadable(description: str, word: str, where: str, before: str = "") -> PlanError:
    """Return the error for text that cannot be parsed. The previous word may be misspelt."""
    words = [word.upper(), before.upper(), f"{before} {word}".upper()]
    near = [other for candidate in words for other in difflib.get_close_matches(candidate, _KEYWORDS, n=1, cutoff=0.7)]
    hint = f" Did you mean {near[0]}?" if near and not set(words) & set(near) else ""
    description = re.sub(r"but got <Token.*?text: (.*?), line.*>", r"but found \1", description)
    problem = description.replace("Invalid expression / Unexpected token", f"{word!r} has no place here")
    if problem.startswith("Required keyword"):  # the parser's own words for a part of its tree
        problem = f"something is missing at {word!r}"
    return PlanError(f"The query cannot be read: {problem.rstrip('.')}.{hint}\n{where}")


def _in_sql_terms(message: str) -> str:
    """Return a message about a pipeline in terms of SQL.

    >>> _in_sql_terms("The allowed lateness is given in rows. Use allowed_lateness='1 hour'.")
    "The allowed lateness is given in rows. Use ALLOWED LATENESS INTERVAL '1' HOUR."
    """
    for python, sql in _SQL_TERMS:
        message = re.sub(python, sql, message)
    return message
