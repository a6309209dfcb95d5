"""Where in the text of a query something stands, so that a message can point at it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from eventide.errors import PlanError
from eventide.errors import sql as errors
from eventide.errors.sql_words import in_words_of_sql


class At(Exception):  # noqa: N818 - it is an error that looks for its place
    """An error about a part of the query. ``pointing`` finds the part in the text."""

    def __init__(self, part: exp.Expr | tuple[int, int] | None, error: PlanError) -> None:
        super().__init__(in_words_of_sql(str(error)))
        self.place = part if isinstance(part, tuple) else span(part)


@contextmanager
def said_at(node: exp.Expr | None) -> Iterator[None]:
    """What the core refuses in here was said by this part of the query."""
    try:
        yield
    except PlanError as refused:
        raise At(node, refused) from refused


@contextmanager
def pointing(text: str) -> Iterator[None]:
    """Errors from in here show their line of ``text``, with a caret."""
    try:
        yield
    except At as found:
        raise errors.in_query(str(found), excerpt(text, found.place)) from found.__cause__
    except ParseError as unread:
        fault = unread.errors[0] if unread.errors else {}
        word = str(fault.get("highlight") or "")
        end = _offset(text, int(fault.get("line") or 1), int(fault.get("col") or 1))
        start = max(0, end - len(word))
        before = (text[:start].split() or [""])[-1]
        described = str(fault.get("description") or unread)
        raise errors.unreadable(described, word, excerpt(text, (start, end)), before) from None
    except TokenError:
        last = max(0, len(text.rstrip()) - 1)
        unclosed = "a text in quotation marks, a quoted name or a comment is not closed"
        raise errors.unreadable(unclosed, "", excerpt(text, (last, last + 1))) from None


def span(node: exp.Expr | None) -> tuple[int, int]:
    """The first and the end offset of a part; of what is around it, where it has no place of its own."""
    while node is not None:
        own = node.meta
        places = [own] if "start" in own and not isinstance(node, exp.Column) else [n.meta for n in node.walk()]
        known = [(place["start"], place["end"] + 1) for place in places if place.get("start") is not None]
        if known:
            return min(start for start, _ in known), max(end for _, end in known)
        node = node.parent
    return 0, 1


def in_place_of(made: exp.Expr, node: exp.Expr) -> exp.Expr:
    """A part of an expression that stands for a part of the query, and so has its place."""
    start, end = span(node)
    made.meta.update(start=start, end=end - 1)
    return made


def excerpt(text: str, place: tuple[int, int]) -> str:
    r"""The line of a place, with carets under it.

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
    return sum(len(one) for one in lines[: line - 1]) + column
