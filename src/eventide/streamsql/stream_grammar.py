"""The grammar of ``CREATE STREAM``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from eventide.errors import sql as errors
from eventide.errors import sql_names as name_errors
from eventide.streamsql import nodes
from eventide.streamsql.clauses import STREAM_WORDS, WATERMARK_OPTIONS
from eventide.streamsql.places import At
from eventide.streamsql.reader import Reader


class StreamGrammar(Reader):
    """Reads what is declared of a stream."""

    def _parse_create(self) -> exp.Create | exp.Command:
        if self._match_text_seq("STREAM"):
            return self._parse_stream_declared()  # type: ignore[return-value]
        return super()._parse_create()

    def _parse_stream_declared(self) -> exp.Expr:
        name = self._parse_id_var()
        made = nodes.CreateStream(this=name, watermarks=[])
        if self._match(TokenType.L_PAREN, advance=False):
            made.set("columns", self._parse_wrapped_csv(self._parse_declared_column))
        while self._curr and not self._match(TokenType.SEMICOLON, advance=False):
            start = self._curr
            if self._match_text_seq("WATERMARK", "FOR"):
                made.append("watermarks", self._parse_watermark(start))
            elif self._match_text_seq("RETAIN"):
                if made.args.get("retain"):
                    self._refuse(errors.said_before("CREATE STREAM"))
                made.set("retain", self._parse_bounds())
            elif self._match_text_seq("DEDUPLICATE"):
                made.set("deduplicate", True)
            else:
                self._unknown_word("CREATE STREAM", STREAM_WORDS)
        return self.expression(made)

    def _parse_declared_column(self) -> exp.Identifier:
        """The name of a column; its type, if it is said, is read and not used. What would change rows is refused."""
        start = self._index
        if self._match_text_seq("WATERMARK", "FOR"):
            self._retreat(start)
            self._refuse(errors.watermark_in_brackets())
        found = self._parse_field_def()
        if found is not None and found.args.get("constraints"):
            raise At(found, name_errors.column_computed())
        name = found.this if isinstance(found, exp.ColumnDef) else found
        if not isinstance(name, exp.Identifier):
            self._retreat(start)
            self._refuse(errors.expecting("a column with its type, such as (ts TIMESTAMP, shop STRING),"))
        return name

    def _parse_bounds(self) -> list[exp.Expr]:
        bounds: dict[str, exp.Expr] = {}
        while True:
            bound = self._parse_bound()
            if bound.this in bounds:
                self._retreat(self._index - 1)
                self._refuse(errors.said_before("RETAIN"))
            bounds[bound.this] = bound
            if not self._match(TokenType.COMMA):
                return list(bounds.values())

    def _parse_bound(self) -> exp.Expr:
        start = self._curr
        length = self._parse_length()
        if length is None:
            return self.expression(
                nodes.Option(this=self._unit_of(number := self._parse_number()), value=number), start
            )
        # A number and ROWS or BYTES reads like a length.
        unit = length.args.get("unit")
        if unit is not None and unit.name.upper() in ("ROWS", "BYTES"):
            return self.expression(nodes.Option(this=unit.name.lower(), value=length.this), start)
        return self.expression(nodes.Option(this="time", value=length), start)

    def _unit_of(self, number: Any) -> str:
        if number is None or not self._match_texts(("ROWS", "BYTES")):
            self._refuse(errors.expecting("a length, or a number of ROWS or BYTES (RETAIN INTERVAL '1' HOUR, 9 ROWS)"))
        return self._prev.text.lower()

    def _parse_watermark(self, start: Token) -> exp.Expr:
        time = self._parse_time()
        rule, value = "default", None
        if self._match(TokenType.ALIAS):
            if self._match_text_seq("NOTED", "BY"):
                rule, value = "noted", self._parse_string()
            elif self._match_text_seq("PUNCTUATED", "BY"):
                rule, value = "punctuated", self._parse_plain_column()
            elif self._match_text_seq("NONE"):
                rule = "none"
            else:
                rule, value = "as", self._parse_term()
        elif self._match_text_seq("PUNCTUATED", "BY"):
            rule, value = "punctuated", self._parse_plain_column()
        options: dict[str, exp.Expr] = {}
        while option := self._parse_option():
            if option.this in options:
                self._refuse(errors.said_before("WATERMARK FOR"))
            options[option.this] = option
        made = nodes.WatermarkFor(this=time, rule=rule, value=value, options=list(options.values()))
        return self.expression(made, start)

    def _parse_option(self) -> exp.Expr | None:
        start = self._curr
        for words, name, kind in WATERMARK_OPTIONS:
            if self._match_text_seq(*words.split()):
                value: Any = self._values[kind](self)
                if value is None:
                    self._refuse(errors.expecting(f"a {kind} behind {words}"))
                return self.expression(nodes.Option(this=name, value=value), start)
        return None

    def _parse_origins(self) -> Any:
        if self._match(TokenType.L_PAREN):
            names = self._parse_csv(self._parse_primary)
            self._match_r_paren()
            found: Any = self.expression(exp.Tuple(expressions=names))
        else:
            found = self._parse_number()
        self._match_text_seq("ORIGINS")
        return found

    def _parse_on_return(self) -> Any:
        if self._match_text_seq("HOLD"):
            return exp.Literal.string("hold")
        return exp.Literal.string("catch_up") if self._match_text_seq("CATCH", "UP") else None

    _values: ClassVar[dict[str, Callable[[StreamGrammar], Any]]] = {
        "column": lambda self: self._parse_plain_column(),
        "length": lambda self: self._parse_length(),
        "length or NONE": lambda self: (
            self.expression(exp.Null()) if self._match_text_seq("NONE") else self._parse_length()
        ),
        "number": lambda self: self._parse_number(),
        "origins": lambda self: self._parse_origins(),
        "HOLD or CATCH UP": lambda self: self._parse_on_return(),
    }
