"""Columns by name, or as an expression of Spark's that the host evaluates before the pipeline sees the rows."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

T = TypeVar("T")

_ALIAS = re.compile(r" AS `?([^`]+?)`?$")
_SHOWN = re.compile(r"^Column<'(.*)'>$", re.DOTALL)


class SparkColumn(str):
    """The name of a column that a Spark expression gives. It is a name like any other wherever no Spark is."""

    expression: Any

    def __new__(cls, name: str, expression: Any) -> SparkColumn:
        """A name that knows its expression."""
        named_ = super().__new__(cls, name)
        named_.expression = expression
        return named_

    def __reduce__(self) -> tuple[Any, ...]:
        # On its way to a task the expression has been evaluated.
        return (str, (str(self),))


def named(value: Any) -> Any:
    """A Spark ``Column`` as the name of what it gives; anything else as it is."""
    kind = type(value)
    if kind.__name__ != "Column" or not kind.__module__.startswith("pyspark.sql"):
        return value
    shown = _SHOWN.match(str(value))
    text = shown.group(1) if shown else str(value)
    if text.isidentifier():
        return text
    alias = _ALIAS.search(text)
    return SparkColumn(alias.group(1) if alias else text, value)


def with_names(part: T) -> T:
    """A frozen description in which Spark columns have become names, at any depth."""
    if is_dataclass(part) and not isinstance(part, type):
        own = {field.name: getattr(part, field.name) for field in fields(part) if field.init}
        changed = {name: new for name, value in own.items() if (new := with_names(value)) is not value}
        return replace(part, **changed) if changed else part
    if isinstance(part, dict):
        found = {name: with_names(value) for name, value in part.items()}
        return found if any(found[name] is not part[name] for name in part) else part  # type: ignore[return-value]
    if isinstance(part, (list, tuple)) and type(part) in (list, tuple):
        parts = [with_names(value) for value in part]
        same = all(new is old for new, old in zip(parts, part, strict=True))
        return part if same else type(part)(parts)
    return named(part)  # type: ignore[no-any-return]


def expressions(part: Any) -> dict[str, Any]:
    """The Spark expressions of a description, by the name of what they give."""
    if isinstance(part, SparkColumn):
        return {str(part): part.expression}
    inner: list[Any] = []
    if is_dataclass(part) and not isinstance(part, type):
        inner = [getattr(part, field.name) for field in fields(part)]
    elif isinstance(part, dict):
        inner = list(part.values())
    elif isinstance(part, (list, tuple)):
        inner = list(part)
    found: dict[str, Any] = {}
    for one in inner:
        found |= expressions(one)
    return found
