"""Literals of a query as the values that the Python API takes."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from eventide.errors import sql as errors
from eventide.streamsql.places import At


def length(node: Any) -> str:
    """An interval as the text of a duration.

    >>> from sqlglot import parse_one
    >>> length(parse_one("INTERVAL '5' MINUTE")), length(parse_one("INTERVAL '1 hour 30 minutes'"))
    ('5 minute', '1 hour 30 minutes')
    """
    if isinstance(node, exp.Add):
        parts = length(node.this), length(node.expression)
        if any(one.startswith("-") for one in parts):  # a sign before a duration is that of all its parts
            raise At(node, errors.not_a_length(node.sql()))
        return " ".join(parts)
    if isinstance(node, exp.Neg) and not (said := length(node.this)).startswith("-"):
        return f"-{said}"
    if not isinstance(node, exp.Interval) or not isinstance(node.this, exp.Literal):
        raise At(node, errors.not_a_length(node.sql()))
    unit = node.args.get("unit")
    if unit is not None and not isinstance(unit, exp.Var):
        raise At(node, errors.not_a_length(node.sql()))
    return node.this.name if unit is None else f"{node.this.name} {unit.name.lower()}"


def number(node: Any) -> int:
    """A whole number."""
    text = node.name if isinstance(node, exp.Literal) else ""
    if not text.isdigit():
        raise At(node, errors.not_a_number(node.sql()))
    return int(text)


def constant(node: Any, function: str) -> Any:
    """A number, a text or a truth value."""
    if isinstance(node, exp.Literal):
        return node.name if node.is_string else float(node.name) if "." in node.name else int(node.name)
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    raise At(node, errors.not_a_constant(node.sql(), function))


def column(node: Any, what: str) -> str:
    """The name of a plain column."""
    if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
        return ".".join(part.name for part in node.parts)
    if isinstance(node, exp.Identifier):
        return node.name
    raise At(node, errors.not_a_plain_column(node.sql(), what))
