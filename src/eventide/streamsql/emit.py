"""``EMIT``: its grammar, and the triggers, allowed lateness and mode that it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from eventide import triggers
from eventide.plan import Stream, WindowedStream
from eventide.plan.plan import Window
from eventide.streamsql.errors import duplicate_part, expecting, no_such_function, window_arguments
from eventide.streamsql.source_positions import LocatedError, locate
from eventide.streamsql.syntax import ClauseParser, Option, constant, length, number
from eventide.triggers import Trigger

MODES = ("ACCUMULATING", "DISCARDING", "RETRACTING")

EMIT_WORDS = (
    *("ON WINDOW CLOSE", "EARLY", "LATE", "WHEN", "ALLOWED LATENESS", *MODES),
    *("SKIP UNCHANGED", "OUTPUT TIME END | EARLIEST | LATEST", "MAY LOSE DATA"),
)
_OTHER_WORDS = {"ONLY": "SKIP UNCHANGED", "AT": "OUTPUT TIME END, EARLIEST or LATEST"}
TRIGGERS = (
    *("after_watermark", "after_count", "after_processing_time", "every", "on_update", "never"),
    *("repeatedly", "any_of", "all_of", "in_order", "or_finally"),
)
"""The algebra of triggers, under Python's names."""


class Emit(exp.Expression):
    """``EMIT …``: when panes are emitted, how long windows are kept, and how the panes of a window relate."""

    arg_types: ClassVar[dict[str, bool]] = {
        "close": False,
        "early": False,
        "late": False,
        "when": False,
        "lateness": False,
        "mode": False,
        "skip_unchanged": False,
        "output_time": False,
        "may_lose_data": False,
    }


class When(exp.Expression):
    """A trigger: ``every``, ``on_update``, ``count``, ``after``, ``never``, or a call of the algebra of triggers."""

    arg_types: ClassVar[dict[str, bool]] = {"kind": True, "value": False, "aligned": False}


class EmitGrammar(ClauseParser):
    """Parses ``EMIT``."""

    def _parse_emit(self) -> exp.Expr:
        start = self._curr
        self._advance()
        clause = Emit()
        while self._curr and not self._match_set((TokenType.SEMICOLON, TokenType.R_PAREN), advance=False):
            part = self._parse_emit_part()
            if part is None:
                if instead := _OTHER_WORDS.get(self._curr.text.upper()):
                    self._reject(f"{self._curr.text!r} is no part of EMIT. Write {instead}.")
                self._unknown_word("EMIT", EMIT_WORDS)
            elif clause.args.get(part[0]) is not None:
                self._reject(duplicate_part("EMIT"))
            else:
                clause.set(*part)
        return self.expression(clause, start)

    def _parse_emit_part(self) -> tuple[str, Any] | None:
        if self._match_text_seq("ON", "WINDOW", "CLOSE"):
            return "close", True
        for word in ("EARLY", "LATE", "WHEN"):
            if self._match_text_seq(word):
                return word.lower(), self._parse_when()
        if self._match_text_seq("ALLOWED", "LATENESS"):
            return "lateness", self._parse_lateness()
        if self._match_texts(MODES):
            return "mode", self._prev.text.lower()
        if self._match_text_seq("SKIP", "UNCHANGED"):
            return "skip_unchanged", True
        if self._match_text_seq("MAY", "LOSE", "DATA"):
            return "may_lose_data", True
        if self._match_text_seq("OUTPUT", "TIME"):
            if not self._match_texts(("END", "EARLIEST", "LATEST")):
                self._reject(expecting("OUTPUT TIME END, EARLIEST or LATEST"))
            return "output_time", self._prev.text.lower()
        return None

    def _parse_lateness(self) -> Any:
        start = self._curr
        length = self._parse_length()
        if length is None:
            number = self._parse_number()
            if number is None or not self._match_text_seq("ROWS"):
                self._reject(expecting("a length: ALLOWED LATENESS INTERVAL '1' HOUR"))
            return self.expression(Option(this="rows", value=number), start)
        if length.args.get("unit") is not None and length.args["unit"].name.upper() == "ROWS":
            return self.expression(Option(this="rows", value=length.this), start)
        return self.expression(Option(this="time", value=length), start)

    def _parse_when(self) -> exp.Expr:
        start = self._curr
        kind, value = "", None
        if self._match_text_seq("EVERY"):
            kind, value = "every", self._parse_length()
        elif self._match_text_seq("ON", "UPDATE"):
            kind = "on_update"
        elif self._match_text_seq("AFTER"):
            value = self._parse_length()
            kind = "after"
            if value is None:
                kind, value = "count", self._parse_number()
                self._match_texts(("ROW", "ROWS"))
            elif value.args.get("unit") is not None and value.args["unit"].name.upper() in ("ROW", "ROWS"):
                kind, value = "count", value.this
        elif self._match_text_seq("NEVER"):
            kind = "never"
        else:
            kind, value = "call", self._parse_function()
        if not kind or (value is None and kind not in ("on_update", "never")):
            self._reject(
                expecting("EVERY INTERVAL '10' SECOND, ON UPDATE, AFTER 100 ROWS or AFTER INTERVAL '1' MINUTE")
            )
        aligned = bool(kind == "every" and self._match_text_seq("ALIGNED"))
        return self.expression(When(kind=kind, value=value, aligned=aligned), start)


@dataclass(frozen=True)
class EmitClause:
    """An ``EMIT`` clause as options of the builder. The defaults are those of a query without the clause."""

    trigger: Trigger | None = None  # of WHEN
    early: Trigger | None = None
    late: Trigger | None = None
    lateness: str | int | None = None
    mode: Any = None
    skip_unchanged: bool = False
    output_time: Any = "end"
    may_lose_data: bool = False

    def window(self, stream: Stream, window: Window, limits: Mapping[str, int] | None = None) -> WindowedStream:
        """Return the windows of a stream with these options."""
        windows = stream.window(window, output_time=self.output_time)
        windows = windows.limit_state(**limits) if limits else windows
        options: dict[str, Any] = {
            "allowed_lateness": self.lateness,
            "mode": self.mode,
            "skip_unchanged": self.skip_unchanged,
        }
        if self.trigger is not None:
            return windows.trigger(self.trigger, may_lose_data=self.may_lose_data, **options)
        return windows.emit(early=self.early, late=self.late, **options)

    def join_options(self) -> dict[str, Any] | None:
        """Return the options of a window join; None: the clause has some that a join does not support."""
        if self.skip_unchanged or self.output_time != "end" or self.may_lose_data or isinstance(self.lateness, int):
            return None
        options = {"early": self.early, "late": self.late, "trigger": self.trigger}
        return options | {"allowed_lateness": self.lateness, "mode": self.mode}


def emit_clause(node: Emit | None) -> EmitClause:
    """Return the options of an ``EMIT`` clause."""
    if node is None:
        return EmitClause()
    parts = node.args
    early, late, when = parts.get("early"), parts.get("late"), parts.get("when")
    if when is not None and (early is not None or late is not None or parts.get("close")):
        raise LocatedError(
            when, "EMIT WHEN … is the whole trigger. Leave out EARLY, LATE and ON WINDOW CLOSE, or leave out WHEN."
        )
    lateness = parts.get("lateness")
    trigger, first, last = (None if when_node is None else _trigger(when_node) for when_node in (when, early, late))
    return EmitClause(
        trigger,
        first,
        last,
        None if lateness is None else _lateness(lateness),
        parts.get("mode"),
        bool(parts.get("skip_unchanged")),
        parts.get("output_time") or "end",
        bool(parts.get("may_lose_data")),
    )


def _lateness(option: Option) -> Any:
    value = option.args["value"]
    return length(value) if option.this == "time" else number(value)


def _trigger(node: When) -> Trigger:
    value = node.args.get("value")
    with locate(node):
        match node.args["kind"]:
            case "every":
                return triggers.every(length(value), aligned=bool(node.args.get("aligned")))
            case "on_update":
                return triggers.on_update()
            case "never":
                return triggers.never()
            case "count":
                return triggers.after_count(number(value))
            case "after":
                return triggers.after_processing_time(length(value))
            case _:
                return _trigger_call(value)


def _trigger_call(node: Any) -> Trigger:
    """Return the trigger of a call such as ``REPEATEDLY(…)``. Functions have the names of the Python API."""
    if not isinstance(node, exp.Anonymous) or node.name.lower() not in TRIGGERS:
        raise LocatedError(node, no_such_function(node.name or node.sql(), TRIGGERS))
    positional = [_argument(argument) for argument in node.expressions if not isinstance(argument, exp.Kwarg)]
    by_name = {
        argument.this.name.lower(): _argument(argument.expression)
        for argument in node.expressions
        if isinstance(argument, exp.Kwarg)
    }
    build: Any = getattr(triggers, node.name.lower())
    try:
        trigger: Trigger = build(*positional, **by_name)
    except TypeError as cause:
        raise LocatedError(node, window_arguments(node.name.upper(), f"it as in Python ({cause})")) from None
    return trigger


def _argument(node: Any) -> Any:
    if isinstance(node, exp.Interval | exp.Add):
        return length(node)
    return constant(node, "EMIT") if isinstance(node, exp.Literal | exp.Boolean) else _trigger_call(node)
