"""``CREATE STREAM``: its grammar, and the event times, watermarks and limits that it declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from eventide import watermarks
from eventide.errors import PlanError
from eventide.plan import IngestionTime, Stream, ingestion_time, stream
from eventide.streamsql import syntax as nodes
from eventide.streamsql.errors import duplicate_part, expecting
from eventide.streamsql.select_clause import TableColumns
from eventide.streamsql.source_positions import LocatedError, locate
from eventide.streamsql.syntax import STREAM_WORDS, WATERMARK_OPTIONS, ClauseParser, column, constant, length, number
from eventide.watermarks import Strategy

_LIMIT = "a number of ROWS or BYTES (LIMIT STATE 1000 ROWS; how long windows are kept is ALLOWED LATENESS in EMIT)"


class StreamGrammar(ClauseParser):
    """Parses ``CREATE STREAM``."""

    def _parse_create(self) -> exp.Create | exp.Command:
        if self._match_text_seq("STREAM"):
            return self._parse_stream_statement()  # type: ignore[return-value]  # a node of Eventide
        return super()._parse_create()

    def _parse_stream_statement(self) -> exp.Expr:
        name = self._parse_id_var()
        statement = nodes.CreateStream(this=name, watermarks=[])
        if self._match(TokenType.L_PAREN, advance=False):
            statement.set("columns", self._parse_wrapped_csv(self._parse_declared_column))
        while self._curr and not self._match(TokenType.SEMICOLON, advance=False):
            start = self._curr
            if self._match_text_seq("WATERMARK", "FOR"):
                statement.append("watermarks", self._parse_watermark(start))
            elif self._match_text_seq("LIMIT", "STATE"):
                if statement.args.get("limits"):
                    self._reject(duplicate_part("CREATE STREAM"))
                statement.set("limits", self._parse_state_limits())
            elif self._match_text_seq("KEEP"):
                if statement.args.get("keep"):
                    self._reject(duplicate_part("CREATE STREAM"))
                statement.set("keep", self._parse_keep())
            elif self._match_text_seq("DEDUPLICATE"):
                statement.set("deduplicate", self._parse_deduplicated_by())
            else:
                self._unknown_word("CREATE STREAM", STREAM_WORDS)
        return self.expression(statement)

    def _parse_declared_column(self) -> exp.Identifier:
        """Parse the name of a column. A type is ignored; constraints are rejected."""
        start = self._index
        if self._match_text_seq("WATERMARK", "FOR"):
            self._retreat(start)
            self._reject(
                "WATERMARK FOR follows the columns: CREATE STREAM orders (ts TIMESTAMP) WATERMARK FOR ts AS …."
            )
        definition = self._parse_field_def()
        if definition is not None and definition.args.get("constraints"):
            raise LocatedError(
                definition,
                "A column of CREATE STREAM has a name and optionally a type; nothing else is checked. Compute "
                "columns in a subquery: FROM TUMBLE((SELECT …, CAST(t AS TIMESTAMP) AS ts FROM orders), "
                "DESCRIPTOR(ts), …).",
            )
        name = definition.this if isinstance(definition, exp.ColumnDef) else definition
        if not isinstance(name, exp.Identifier):
            self._retreat(start)
            self._reject(expecting("a column with its type, such as (ts TIMESTAMP, shop STRING),"))
        return name

    def _parse_deduplicated_by(self) -> Any:
        """Parse ``DEDUPLICATE``, by sequence numbers, or ``BY id WITHIN INTERVAL '1' HOUR``."""
        if not self._match_text_seq("BY"):
            return True
        ids = self._parse_csv(self._parse_plain_column)
        length = self._parse_length() if self._match_text_seq("WITHIN") else None
        if length is None:
            self._reject(expecting("WITHIN and a length (DEDUPLICATE BY id WITHIN INTERVAL '1' HOUR)"))
        return self.expression(exp.Tuple(expressions=[*ids, length]))

    def _parse_keep(self) -> exp.Expr:
        length = self._parse_length()
        if length is None:
            self._reject(expecting("a length behind KEEP (KEEP INTERVAL '1' HOUR)"))
        return length

    def _parse_state_limits(self) -> list[exp.Expr]:
        limits: dict[str, exp.Expr] = {}
        while True:
            limit = self._parse_state_limit()
            if limit.this in limits:
                self._retreat(self._index - 1)
                self._reject(duplicate_part("LIMIT STATE"))
            limits[limit.this] = limit
            if not self._match(TokenType.COMMA):
                return list(limits.values())

    def _parse_state_limit(self) -> exp.Expr:
        start = self._curr
        length = self._parse_length()
        if length is None:
            number = self._parse_number()
            return self.expression(nodes.Option(this=self._unit_of(number), value=number), start)
        # A number and ROWS or BYTES reads like a length.
        unit = length.args.get("unit")
        if unit is None or unit.name.upper() not in ("ROWS", "BYTES"):
            self._retreat(self._index - 1)
            self._reject(expecting(_LIMIT))
        return self.expression(nodes.Option(this=unit.name.lower(), value=length.this), start)

    def _unit_of(self, number: Any) -> str:
        if number is None or not self._match_texts(("ROWS", "BYTES")):
            self._reject(expecting(_LIMIT))
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
                self._reject(duplicate_part("WATERMARK FOR"))
            options[option.this] = option
        clause = nodes.WatermarkFor(this=time, rule=rule, value=value, options=list(options.values()))
        return self.expression(clause, start)

    def _parse_option(self) -> exp.Expr | None:
        start = self._curr
        for words, name, kind in WATERMARK_OPTIONS:
            if self._match_text_seq(*words.split()):
                value: Any = self._values[kind](self)
                if value is None:
                    self._reject(expecting(f"a {kind} behind {words}"))
                return self.expression(nodes.Option(this=name, value=value), start)
        return None

    def _parse_origins(self) -> Any:
        if self._match(TokenType.L_PAREN):
            names = self._parse_csv(self._parse_primary)
            self._match_r_paren()
            origins: Any = self.expression(exp.Tuple(expressions=names))
        else:
            origins = self._parse_number()
        self._match_text_seq("ORIGINS")
        return origins

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
        "ALLOWED or WAIT": lambda self: (
            exp.Literal.string(self._prev.text.lower()) if self._match_texts(("ALLOWED", "WAIT")) else None
        ),
    }


Time = str | IngestionTime


@dataclass(frozen=True)
class StreamDeclaration:
    """The declaration of a stream. Without a statement it has no times, and the columns of its rows."""

    name: str
    columns: tuple[str, ...] | None = None
    watermarks: Mapping[Time, Strategy | None] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)  # of rows and bytes in state
    keep: str | None = None  # how long rows wait in a join that has no bound of time
    deduplicate: bool = False
    ids: tuple[str, ...] = ()  # by which rows are deduplicated
    within: str | None = None

    def columns_of_watermarks(self) -> set[str]:
        """Return the columns that watermarks need, in addition to times."""
        return {
            *self.ids,
            *(name for strategy in self.watermarks.values() if strategy is not None for name in strategy.columns()),
        }

    def counted_column(self) -> str | None:
        """Return what the watermark counts, so that no row may be missing; None: it does not count."""
        for strategy in self.watermarks.values():
            if strategy is not None and strategy.options.sequence is not None:
                return "SEQUENCE"
            if strategy is not None and strategy.generator.name == "noted":
                return "position"
        return None

    def stream(self, time: Time, key: tuple[str, ...]) -> Stream:
        """Return the stream of a pipeline."""
        source = stream(time=time, key=list(key) or None, watermark=self.watermarks.get(time))
        return source.deduplicate(*self.ids, within=self.within) if self.deduplicate else source


def stream_declaration(node: nodes.CreateStream, columns: tuple[str, ...] | None = None) -> StreamDeclaration:
    """Return the declaration of a stream, for the ``columns`` of its rows if they are known."""
    identifiers = node.args.get("columns")
    declared_columns = None if identifiers is None else tuple(part.name for part in identifiers)
    names = TableColumns(node.this.name, declared_columns if columns is None else columns)
    for part in identifiers or ():
        names.name(exp.column(part.copy()))
    strategies: dict[Time, Strategy | None] = {}
    for part in node.args["watermarks"]:
        time = _resolved(time_of(part.this), names)
        if time in strategies:
            raise LocatedError(part, f"WATERMARK FOR {time!s} is repeated. A column has one watermark.")
        strategies[time] = _watermark(part, time, names)
    return StreamDeclaration(
        node.this.name,
        declared_columns,
        strategies,
        {part.this: number(part.args["value"]) for part in node.args.get("limits") or []},
        length(node.args["keep"]) if node.args.get("keep") else None,
        bool(node.args.get("deduplicate")),
        *_ids(node.args.get("deduplicate"), names),
    )


def _ids(node: Any, names: TableColumns) -> tuple[tuple[str, ...], str | None]:
    if not isinstance(node, exp.Tuple):
        return (), None
    *ids, within = node.expressions
    return tuple(names.name(each) for each in ids), length(within)


def time_of(node: Any) -> Time:
    """Return the column of the event time, or the ingestion time."""
    if isinstance(node, exp.Anonymous) and node.name.lower() == "ingestion_time":
        return ingestion_time()
    return column(node, "event time")


def _resolved(time: Time, names: TableColumns) -> Time:
    """Return the time as rows spell it. A subquery may compute it, so rows need not have it."""
    return (names.find(time) or time) if isinstance(time, str) else time


def _same(time: Time, other: Time) -> bool:
    """Whether two times are the same, ignoring case."""
    if isinstance(time, str) and isinstance(other, str):
        return time.lower() == other.lower()
    return time == other


def _watermark(node: nodes.WatermarkFor, time: Time, names: TableColumns) -> Strategy | None:
    options = {option.this: _option(option, names) for option in node.args["options"]}
    rule: str = node.args["rule"]
    value: Any = node.args.get("value")
    with locate(node):
        if rule == "noted":
            return watermarks.noted(constant(value, "NOTED BY"), **options)
        if rule == "punctuated":
            return watermarks.punctuated(names.name(value), **options)
        if rule == "none":
            return watermarks.no_watermark(**options)
        if rule == "default" or isinstance(value, exp.Column | exp.Anonymous):
            if rule == "default" and not options:
                return None
            if rule == "as" and not _same(_resolved(time_of(value), names), time):
                raise LocatedError(value, _watermark_form(node.this.sql()))
            return watermarks.ascending(**options)
        if isinstance(value, exp.Sub):
            if isinstance(value.this, exp.CurrentTimestamp):
                return watermarks.processing_time(length(value.expression), **options)
            if isinstance(value.this, exp.Column) and _same(_resolved(time_of(value.this), names), time):
                return watermarks.bounded_delay(length(value.expression), **options)
    raise LocatedError(value, _watermark_form(node.this.sql()))


def _option(node: nodes.Option, names: TableColumns) -> Any:
    value = node.args["value"]
    if isinstance(value, exp.Column):
        return names.name(value)
    if isinstance(value, exp.Null):
        return None
    if isinstance(value, exp.Interval | exp.Add | exp.Neg):
        return length(value)
    if isinstance(value, exp.Tuple):
        return [constant(literal, "EXPECT") for literal in value.expressions]
    return value.name if value.is_string else number(value)


def _watermark_form(time: str) -> PlanError:
    """WATERMARK FOR … AS something else."""
    return PlanError(
        f"A watermark is one of: WATERMARK FOR {time} AS {time} - INTERVAL '30' SECOND; AS {time} (rows are in order); "
        "AS CURRENT_TIMESTAMP - INTERVAL '30' SECOND; AS PUNCTUATED BY column; AS NOTED BY 'sqlite:///shop.db#orders'; "
        "AS NONE."
    )
