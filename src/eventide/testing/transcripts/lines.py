"""Rows and panes as lines of text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from eventide.testing.expectations import ExpectedPane
from eventide.testing.transcripts.document import read_value

_WINDOW = re.compile(r"\[\s*([^,]+?)\s*,\s*([^,]+?)\s*\)")
_TIMING = re.compile(r"(EARLY|ON_TIME|LATE)(?:#([0-9]+))?")
_NAMED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_FLAGS = {"first": "is_first", "last": "is_last"}


def words(line: str) -> list[str]:
    """A line cut at spaces, but not inside quotes or brackets.

    >>> words("+ a [12:00, 12:02) words=[x, y] note='two words'")
    ['+', 'a', '[12:00, 12:02)', 'words=[x, y]', "note='two words'"]
    """
    found, word, depth, quote = [], "", 0, ""
    for letter in line:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'" and (not word or word.endswith("=") or depth):
            quote = letter
        elif letter in "[{(":
            depth += 1
        elif letter in "]})":
            depth -= 1
        elif letter.isspace() and depth <= 0:
            if word:
                found.append(word)
            word = ""
            continue
        word += letter
    return [*found, word] if word else found


def read_row(line: str, columns: Sequence[str], *, more: bool = False) -> dict[str, Any]:
    """A row from its values, in the order of the columns; with ``more``, further fields may follow by name.

    >>> read_row("12:00:30 a null", ["ts", "user", "score"])
    {'ts': '12:00:30', 'user': 'a', 'score': None}
    >>> read_row("12:00:30 watermark=12:05", ["ts"], more=True)
    {'ts': '12:00:30', 'watermark': '12:05'}
    """
    found = words(line)
    values = [_window(word) or read_value(word) for word in found[: len(columns)]]
    named = [_NAMED.fullmatch(word) for word in found[len(columns) :]] if more else [None] * (len(found) - len(columns))
    if len(values) != len(columns) or not all(named):
        raise ValueError(
            f"{line.strip()!r} has {len(found)} values, but there are {len(columns)} columns: {' '.join(columns)}."
        )
    row = dict(zip(columns, values, strict=True))
    return row | {match[1]: read_value(match[2]) for match in named if match}


def read_joined(line: str) -> ExpectedPane:
    """A row of a join from ``+ column=…``, because it has no window.

    >>> read_joined("+ user=a t=12:00")
    ExpectedPane(fields={'user': 'a', 't': '12:00'}, diff=1)
    """
    sign, *rest = words(line) or [""]
    named = [_NAMED.fullmatch(word) for word in rest]
    if sign not in ("+", "-") or not all(named):
        raise ValueError(f"{line.strip()!r}: a row of a join is written '+ column=value …'.")
    return ExpectedPane({match[1]: read_value(match[2]) for match in named if match}, 1 if sign == "+" else -1)


def read_pane(line: str, key: Sequence[str]) -> ExpectedPane:
    """A pane from ``+ key [start, end) result=… TIMING#index last field=…``; ``-`` takes one back.

    >>> read_pane("- a [12:00, 12:02) total=5 EARLY#0", ["user"])
    ExpectedPane(fields={'user': 'a', 'window': ('12:00', '12:02'), 'total': 5, 'timing': 'EARLY', 'index': 0}, diff=-1)
    """
    sign, *rest = words(line) or [""]
    if sign not in ("+", "-"):
        raise ValueError(f"{line.strip()!r}: a pane begins with '+ ', a retraction with '- '.")
    if len(rest) <= len(key) or _window(rest[len(key)]) is None:
        form = " ".join([*key, "[start, end)"])
        raise ValueError(f"{line.strip()!r}: after the sign, write {form!r}.")
    fields: dict[str, Any] = {name: read_value(word) for name, word in zip(key, rest, strict=False)}
    fields["window"] = _window(rest[len(key)])
    for word in rest[len(key) + 1 :]:
        fields |= _field(word, line)
    return ExpectedPane(fields, 1 if sign == "+" else -1)


def _field(word: str, line: str) -> Mapping[str, Any]:
    named, timing = _NAMED.fullmatch(word), _TIMING.fullmatch(word)
    if timing:
        index = {} if timing[2] is None else {"index": int(timing[2])}
        return {"timing": timing[1], **index}
    if named:
        return {named[1]: _window(named[2]) or read_value(named[2])}
    if word in _FLAGS:
        return {_FLAGS[word]: True}
    raise ValueError(
        f"{line.strip()!r}: {word!r} is not understood. After the window come results (total=5), "
        "EARLY, ON_TIME or LATE with the pane's index (EARLY#0), 'first' or 'last', and other fields (at=12:05)."
    )


def _window(word: str) -> tuple[Any, Any] | None:
    match = _WINDOW.fullmatch(word)
    return None if match is None else (read_value(match[1]), read_value(match[2]))
