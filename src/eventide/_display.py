"""How values show themselves: short in a terminal, as a small table in a notebook."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import MISSING, Field, fields
from datetime import datetime
from html import escape
from typing import Any, TypeVar

T = TypeVar("T")

# Styles are inline, because some notebooks drop <style>. Colours are those of the surroundings, light or dark,
# but for what must be seen.
_TABLE = "border-collapse:collapse;margin:.3em 0;border:1px solid rgba(128,128,128,.35)"
_CELL = "padding:.25em .8em;text-align:left;vertical-align:top;border-top:1px solid rgba(128,128,128,.2)"
_NAME = f"{_CELL};font-weight:normal;white-space:nowrap;opacity:.65"
_FACT = f"{_CELL};white-space:normal"
_ALARM = f"{_FACT};font-weight:bold;color:#c4620a"
_TITLE = "padding:.35em .8em;text-align:left;font-weight:bold;caption-side:top;color:inherit"


def short_repr(value: Any) -> str:
    """The name of a dataclass and those of its fields that differ from their defaults.

    >>> from eventide.metrics import Metrics
    >>> short_repr(Metrics(rows=2, kept=2))
    'Metrics(rows=2, kept=2)'
    """
    shown = (f"{field.name}={_text(getattr(value, field.name))}" for field in fields(value) if _differs(value, field))
    return f"{type(value).__name__}({', '.join(shown)})"


def described(kind: type[T]) -> type[T]:
    """Give a class a ``repr`` that shows its description instead of its fields.

    >>> from eventide.windows import tumbling
    >>> tumbling("10 minutes")
    <tumbling 10m>
    """

    def __repr__(self: Any) -> str:  # noqa: N807
        return f"<{self.describe()}>"

    kind.__repr__ = __repr__  # type: ignore[method-assign]  # in place of the generated one
    return kind


def facts_html(title: str, facts: Iterable[tuple[str, str]], alarms: Collection[str] = ()) -> str:
    """Names and lines in a table of HTML, escaped. Without a name, a line belongs to the one above.

    >>> html = facts_html("Metrics", [("rows", "2"), ("late", "<none>")], alarms=["late"])
    >>> "<caption" in html, ">&lt;none&gt;</td>" in html
    (True, True)
    """
    gathered: list[tuple[str, list[str]]] = []
    for name, line in facts:
        if name:
            gathered.append((name, [line]))
        else:
            gathered[-1][1].append(line)
    rows = "".join(_row(name, lines, _ALARM if name in alarms else _FACT) for name, lines in gathered)
    return f'<table style="{_TABLE}"><caption style="{_TITLE}">{escape(title)}</caption><tbody>{rows}</tbody></table>'


def _row(name: str, lines: list[str], style: str) -> str:
    text = "<br>".join(escape(line) for line in lines)
    return f'<tr style="background:none"><th style="{_NAME}">{escape(name)}</th><td style="{style}">{text}</td></tr>'


def _differs(value: Any, field: Field[Any]) -> bool:
    default = field.default if field.default_factory is MISSING else field.default_factory()
    return field.repr and (default is MISSING or getattr(value, field.name) != default)


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))}{',' * (len(value) == 1)})"
    return value.isoformat() if isinstance(value, datetime) else repr(value)
