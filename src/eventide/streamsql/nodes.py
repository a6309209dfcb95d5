"""What Eventide's SQL has that other SQL has not, as nodes of the syntax tree."""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp


class Explain(exp.Expression):
    """``EXPLAIN query``."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class CreateStream(exp.Expression):
    """``CREATE STREAM name (columns) WATERMARK FOR … RETAIN … DEDUPLICATE``."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "columns": False,
        "watermarks": False,
        "retain": False,
        "deduplicate": False,
    }


class WatermarkFor(exp.Expression):
    """``WATERMARK FOR this AS …``: a rule (``as``, ``punctuated``, ``noted``) and options."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "rule": True, "value": False, "options": False}


class Option(exp.Expression):
    """One word of a clause with what it is set to: a column, a length, a number, names, or nothing."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "value": False}


class WindowTable(exp.Expression):
    """``TUMBLE(TABLE this, DESCRIPTOR(time), …)``: a table whose rows have windows."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "kind": True, "time": False, "arguments": False}


class Preceding(exp.Expression):
    """``OVER (ORDER BY time ROWS|RANGE … PRECEDING)`` of a table that is joined."""

    arg_types: ClassVar[dict[str, bool]] = {"unit": True, "length": True, "time": False}


class Emit(exp.Expression):
    """``EMIT …``: when panes are emitted, how long windows are kept, and how the panes of a window relate."""

    arg_types: ClassVar[dict[str, bool]] = {
        "close": False,
        "early": False,
        "late": False,
        "when": False,
        "lateness": False,
        "mode": False,
        "only_updated": False,
        "at": False,
        "may_lose_data": False,
    }


class When(exp.Expression):
    """A trigger: ``every``, ``on_update``, ``count``, ``after``, ``never``, or a call of the algebra of triggers."""

    arg_types: ClassVar[dict[str, bool]] = {"kind": True, "value": False, "aligned": False}
