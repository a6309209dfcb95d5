"""The grammar of ``EMIT``."""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from eventide.errors import sql as errors
from eventide.streamsql import nodes
from eventide.streamsql.clauses import EMIT_WORDS, MODES
from eventide.streamsql.reader import Reader


class EmitGrammar(Reader):
    """Reads when panes are emitted."""

    def _parse_emit(self) -> exp.Expr:
        start = self._curr
        self._advance()
        made = nodes.Emit()
        while self._curr and not self._match_set((TokenType.SEMICOLON, TokenType.R_PAREN), advance=False):
            said = self._parse_emit_part()
            if said is None:
                self._unknown_word("EMIT", EMIT_WORDS)
            elif made.args.get(said[0]) is not None:
                self._refuse(errors.said_before("EMIT"))
            else:
                made.set(*said)
        return self.expression(made, start)

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
        if self._match_text_seq("ONLY", "UPDATED"):
            return "only_updated", True
        if self._match_text_seq("MAY", "LOSE", "DATA"):
            return "may_lose_data", True
        if self._match_text_seq("AT") and self._match_texts(("END", "EARLIEST", "LATEST")):
            return "at", self._prev.text.lower()
        return None

    def _parse_lateness(self) -> Any:
        start = self._curr
        length = self._parse_length()
        if length is None:
            number = self._parse_number()
            if number is None or not self._match_text_seq("ROWS"):
                self._refuse(errors.expecting("a length: ALLOWED LATENESS INTERVAL '1' HOUR"))
            return self.expression(nodes.Option(this="rows", value=number), start)
        if length.args.get("unit") is not None and length.args["unit"].name.upper() == "ROWS":
            return self.expression(nodes.Option(this="rows", value=length.this), start)
        return self.expression(nodes.Option(this="time", value=length), start)

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
            self._refuse(
                errors.expecting("EVERY INTERVAL '10' SECOND, ON UPDATE, AFTER 100 ROWS or AFTER INTERVAL '1' MINUTE")
            )
        aligned = bool(kind == "every" and self._match_text_seq("ALIGNED"))
        return self.expression(nodes.When(kind=kind, value=value, aligned=aligned), start)
