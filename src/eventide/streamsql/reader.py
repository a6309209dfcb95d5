"""What the parts of the grammar share: lengths of time, and refusals that point at a word."""

from __future__ import annotations

import difflib
from typing import NoReturn

from sqlglot import exp
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import TokenType

from eventide.errors import PlanError
from eventide.errors import sql as errors
from eventide.streamsql.places import At


class Reader(Parser):
    """A parser of standard SQL that can read lengths and refuse words."""

    def _parse_unary(self) -> exp.Expr | None:
        """An operand, with its place also where the standard parser keeps none: NULL, CAST(…), CASE … END."""
        start = self._curr
        found = super()._parse_unary()
        if found is not None and start and not isinstance(found, exp.Column) and "start" not in found.meta:
            found.meta.update(start=start.start, end=self._prev.end)
        return found

    def _parse_time(self) -> exp.Expr | None:
        """A column, or ``INGESTION_TIME()``."""
        return self._parse_function(any_token=True) or self._parse_plain_column()

    def _parse_plain_column(self) -> exp.Column:
        """A column, and nothing else."""
        start = self._index
        found = self._parse_column()
        if not isinstance(found, exp.Column) or isinstance(found.this, exp.Star):
            self._retreat(start)
            self._refuse(errors.expecting("a column"))
        return found

    def _parse_length(self) -> exp.Expr | None:
        """``INTERVAL '5' SECOND``, and also ``'5' SECOND`` and ``5 seconds``; several are added with ``+``."""
        found = self._parse_one_length()
        while found is not None and self._match(TokenType.PLUS):
            other = self._parse_one_length()
            if other is None:
                self._refuse(errors.expecting("a length, such as INTERVAL '30' SECOND,"))
            found = self.expression(exp.Add(this=found, expression=other))
        return found

    def _parse_one_length(self) -> exp.Expr | None:
        if self._match(TokenType.INTERVAL, advance=False):
            return self._parse_interval()
        before = self._next and self._next.token_type == TokenType.INTERVAL
        if before and self._match(TokenType.DASH):
            return self.expression(exp.Neg(this=self._parse_interval()), self._prev)
        numeric = self._match_set((TokenType.STRING, TokenType.NUMBER), advance=False)
        if numeric and self._next and self._next.token_type == TokenType.VAR:
            start = self._curr
            return self.expression(self._parse_interval_span(self._parse_primary()), start)  # type: ignore[arg-type]
        return None

    def _unknown_word(self, clause: str, known: tuple[str, ...]) -> NoReturn:
        """Whatever stands here begins no part of the clause; perhaps as many words nearly do."""
        words = {phrase: " ".join(self._following(len(phrase.split()))).upper() for phrase in known}
        near = [phrase for phrase, said in words.items() if difflib.SequenceMatcher(None, phrase, said).ratio() > 0.75]
        self._refuse(errors.unknown_word(clause, self._curr.text, near[0] if near else None, known))

    def _following(self, count: int) -> list[str]:
        return [token.text for token in self._tokens[self._index : self._index + count]]

    def _refuse(self, error: PlanError) -> NoReturn:
        token = self._curr or self._prev
        raise At((token.start, token.end + 1), error)

    def _warn_unsupported(self) -> None:
        """Commands are refused by name; nothing is logged."""
