"""What the columns of a query mean: which table they are of, and how they are really spelt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from eventide.errors import sql as errors
from eventide.streamsql.expressions import column, refuse_unsupported
from eventide.streamsql.places import At, in_place_of


@dataclass(frozen=True)
class Names:
    """The columns of one table, and what it is called. Without ``columns`` any name is taken as it is written.

    ``renamed`` has the columns that a subquery calls differently, and what its rows really call them.
    """

    table: str
    columns: tuple[str, ...] | None
    aliases: frozenset[str] = frozenset()
    renamed: Mapping[str, str] = field(default_factory=dict)

    def knows_table(self, name: str) -> bool:
        """Whether a qualifier means this table."""
        return name.lower() in {self.table.lower(), *(one.lower() for one in self.aliases)}

    def find(self, name: str) -> str | None:
        """The column that is meant: spelt so, or else the only one that differs in upper and lower case."""
        if self.columns is None or name in self.columns:
            return name
        alike = [one for one in self.columns if one.lower() == name.lower()]
        return alike[0] if len(alike) == 1 else None

    def stored_as(self, name: str) -> str | None:
        """What rows call the column that is meant."""
        found = self.find(name)
        return None if found is None else self.renamed.get(found, found)

    def name(self, node: exp.Column) -> str:
        """The column that is meant, or a refusal."""
        if node.table and not self.knows_table(node.table):
            raise At(node, errors.no_such_alias(node.table, [self.table, *sorted(self.aliases)]))
        return self._named(node, node.name)

    def spelt(self, node: exp.Expr) -> exp.Expr:
        """The expression over the columns as they are really spelt."""
        refuse_unsupported(node)
        spelt: exp.Expr = node.transform(lambda one: self._spelt(one) if _is_column(one) else one)
        return spelt

    def _spelt(self, node: exp.Column) -> exp.Expr:
        """A column, or a field of one that is a struct."""
        first, *fields = node.parts
        if fields and self.knows_table(first.name):
            first, *fields = fields
        if fields and (self.columns is None or self.find(first.name) is None):
            raise At(node, errors.no_such_alias(first.name, [self.table, *sorted(self.aliases)]))
        made = in_place_of(column(self._named(node, first.name)), node)
        for inner in fields:
            made = exp.Dot(this=made, expression=exp.to_identifier(inner.name, quoted=True))
        return made

    def _named(self, node: exp.Column, name: str) -> str:
        found = self.stored_as(name)
        if found is None:
            raise At(node, errors.no_such_column(name, self.table, self.columns or ()))
        return found


def _is_column(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and not isinstance(node.this, exp.Star)


def together(nodes: Iterable[exp.Expr]) -> exp.Expr | None:
    """All conditions as one; none, if there are none."""
    found = list(nodes)
    return exp.and_(*found, copy=True) if found else None


def conjuncts(node: exp.Expr | None) -> list[exp.Expr]:
    """The conditions that must all hold."""
    if node is None:
        return []
    if isinstance(node, exp.Paren):
        return conjuncts(node.this)
    return [*conjuncts(node.this), *conjuncts(node.expression)] if isinstance(node, exp.And) else [node]
