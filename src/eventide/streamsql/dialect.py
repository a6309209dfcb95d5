"""The dialect: standard SQL with windows as table functions, ``CREATE STREAM``, ``EMIT`` and ``OVER`` on joined tables.

This module has only the grammar. Each clause is compiled in its own module.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.parser import IsPredicatePrecedence
from sqlglot.parser import Parser as StandardParser
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer as StandardTokenizer

from eventide.errors import PlanError
from eventide.streamsql import syntax as nodes
from eventide.streamsql.create_stream import StreamGrammar
from eventide.streamsql.emit import EmitGrammar
from eventide.streamsql.errors import expecting
from eventide.streamsql.source_positions import LocatedError
from eventide.streamsql.syntax import AGGREGATES, OTHER_DATABASES, PYTHON_AGGREGATES, WINDOW_FUNCTIONS

# A type of token that no table or column can have as its name, and that only another dialect uses.
_EMIT = TokenType.PREWHERE


# EXPLAIN is followed by SQL rather than any text, SESSION is a function, and a column may be called "window".
_PLAIN = ("EXPLAIN", "SESSION", "WINDOW")


# Aggregates keep the names that users gave them; the catalogue knows what they are.
_AS_CALLED = {*AGGREGATES, *PYTHON_AGGREGATES, *OTHER_DATABASES}


class Tokenizer(StandardTokenizer):
    """Keywords of the dialect."""

    KEYWORDS: ClassVar[dict[str, TokenType]] = {
        **{word: kind for word, kind in StandardTokenizer.KEYWORDS.items() if word not in _PLAIN},
        "EMIT": _EMIT,
    }
    IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]  # the standard's quotes, and Spark's and Flink's


class Parser(StreamGrammar, EmitGrammar):
    """The additions to the grammar."""

    # As DuckDB, PostgreSQL and Spark read it: a = b IS NULL is (a = b) IS NULL.
    IS_PREDICATE_PRECEDENCE = IsPredicatePrecedence.LOW

    FUNCTIONS: ClassVar[Any] = {
        **{name: build for name, build in StandardParser.FUNCTIONS.items() if name.lower() not in _AS_CALLED},
        "NOW": lambda _: exp.CurrentTimestamp(),
        "OCTET_LENGTH": exp.ByteLength.from_arg_list,
    }
    FUNCTION_PARSERS: ClassVar[Any] = {
        **{name: parse for name, parse in StandardParser.FUNCTION_PARSERS.items() if name.lower() not in _AS_CALLED},
        **{name: lambda self, kind=name: self._parse_window_table(kind) for name in WINDOW_FUNCTIONS},
    }
    QUERY_MODIFIER_PARSERS: ClassVar[Any] = {
        **StandardParser.QUERY_MODIFIER_PARSERS,
        _EMIT: lambda self: ("emit", self._parse_emit()),
    }

    def _parse_statement(self) -> exp.Expr | None:
        if self._match_text_seq("EXPLAIN"):
            return self.expression(nodes.Explain(this=self._parse_statement()))
        return super()._parse_statement()

    def _parse_window_table(self, kind: str) -> exp.Expr:
        token = self._tokens[self._index - 2]
        table = nodes.WindowTable(kind=kind, arguments=[])
        self._parse_window_part(table)
        while self._match(TokenType.COMMA):
            self._parse_window_part(table)
        if self._match(TokenType.PARTITION_BY, advance=False):
            self._reject(f"PARTITION BY in {kind} is not supported. Leave it out: the key is what the query groups by.")
        if not self._match(TokenType.R_PAREN, advance=False):
            self._reject(expecting(", or )"))
        if table.this is None:
            raise LocatedError((token.start, token.end + 1), expecting(f"a table: {kind}(orders, DESCRIPTOR(ts), …)"))
        return self.expression(table, token)

    def _parse_window_part(self, table: nodes.WindowTable) -> None:
        """Parse the table, its time or another argument, by position or by name."""
        named = self._next is not None and self._next.token_type in (TokenType.FARROW, TokenType.EQ)
        name = self._curr.text.upper() if named and self._curr else ""
        if table.this is None and (name == "DATA" or not (named or table.args["arguments"])):
            self._advance(2 if named else 0)
            table.set("this", self._parse_windowed())
            return
        if name == "TIMECOL":
            self._advance(2)
        start = self._curr
        if not self._match_text_seq("DESCRIPTOR"):
            if name == "TIMECOL":
                self._reject(expecting("DESCRIPTOR(column)"))
            table.append("arguments", self._parse_window_argument())
            return
        if table.args.get("time") is not None:
            raise LocatedError((start.start, start.end + 1), _descriptor_twice(table.args["kind"]))
        self._match_l_paren()
        table.set("time", self._parse_time())
        if self._match(TokenType.COMMA, advance=False):
            self._reject(_descriptor_twice(table.args["kind"]))
        self._match_r_paren()

    def _parse_windowed(self) -> exp.Expr | None:
        self._match(TokenType.TABLE)
        if not self._match(TokenType.L_PAREN):
            return self._parse_table_parts()
        relation: exp.Expr | None = self._parse_select()
        self._match_r_paren()
        return relation

    def _parse_window_argument(self) -> exp.Expr | None:
        if self._next and self._next.token_type in (TokenType.FARROW, TokenType.EQ):
            name = self._parse_id_var(any_token=True)
            self._advance()
            return self.expression(exp.Kwarg(this=name, expression=self._parse_window_argument()))
        start = self._index
        length = self._parse_length()
        if length is not None and self._match_set((TokenType.COMMA, TokenType.R_PAREN), advance=False):
            return length
        self._retreat(start)
        return self._parse_disjunction()

    def _parse_table_alias(self, alias_tokens: Any = None) -> exp.TableAlias | None:
        if self._match(TokenType.OVER, advance=False):
            return None
        return super()._parse_table_alias(alias_tokens)

    def _parse_table(self, *args: Any, **options: Any) -> exp.Expr | None:
        # What follows OVER belongs to this table, so joins are read behind it.
        joins = options.pop("joins", False)
        table = super()._parse_table(*args, **options)
        if table is None:
            return None
        if self._match(TokenType.OVER):
            table.set("over", self._parse_preceding(self._prev))
            if not table.args.get("alias"):
                table.set("alias", self._parse_table_alias())
        if joins:
            for join in self._parse_joins():
                table.append("joins", join)
        return table

    def _parse_preceding(self, token: Token) -> exp.Expr:
        self._match_l_paren()
        time = self._parse_plain_column() if self._match(TokenType.ORDER_BY) else None
        unit = "rows" if self._match_text_seq("ROWS") else "range" if self._match_text_seq("RANGE") else None
        if unit is None:
            self._reject(expecting("ROWS or RANGE: OVER (ROWS 3 PRECEDING)"))
        between = self._match(TokenType.BETWEEN)
        length = self._parse_number() if unit == "rows" else self._parse_preceding_length()
        if length is None:
            self._reject(expecting("a number of rows" if unit == "rows" else "a length, INTERVAL '2' MINUTE,"))
        if not self._match_text_seq("PRECEDING"):
            self._reject(expecting("PRECEDING"))
        if between and not (self._match(TokenType.AND) and self._match_text_seq("CURRENT", "ROW")):
            self._reject(expecting("AND CURRENT ROW"))
        self._match_r_paren()
        return self.expression(nodes.Preceding(unit=unit, length=length, time=time), token)

    def _parse_preceding_length(self) -> exp.Expr | None:
        """Parse a length. A plain number would take PRECEDING as its unit."""
        bare = self._next is not None and self._next.text.upper() == "PRECEDING"
        return None if bare else self._parse_length()


class Eventide(Dialect):
    """Standard SQL and the additions."""

    Tokenizer = Tokenizer
    Parser = Parser


def _descriptor_twice(kind: str) -> PlanError:
    """A second column of time."""
    return PlanError(
        f"{kind} has one time: DESCRIPTOR names one column. The key is what the query groups by; name it in GROUP BY."
    )
