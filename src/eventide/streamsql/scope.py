"""What a query can name: streams that were declared, tables that were given, and queries of its WITH."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from sqlglot import exp

from eventide.errors import sql as errors
from eventide.streamsql.nodes import CreateStream
from eventide.streamsql.places import At
from eventide.streamsql.rows import Rows
from eventide.streamsql.streams import Declared, declared

T = TypeVar("T")


@dataclass(frozen=True)
class Query:
    """A query of WITH, and what it can name itself: what stands before it."""

    node: exp.Expr
    scope: Scope


@dataclass(frozen=True)
class Scope:
    """``given`` has the columns of each table; without it no rows are there yet, and any name may be a table."""

    declared: Mapping[str, CreateStream] = field(default_factory=dict)
    given: Mapping[str, tuple[str, ...]] | None = None
    queries: Mapping[str, Query] = field(default_factory=dict)

    def query(self, name: str) -> Query | None:
        """A query of WITH."""
        return _found(self.queries, name)

    def rows(self, node: exp.Table) -> Rows:
        """The rows of a table by its name."""
        name = node.name
        if node.args.get("db"):
            raise At(node, errors.no_such_table(f"{node.args['db'].name}.{name}", self.given or ()))
        columns = None if self.given is None else _found(self.given, name)
        if self.given is not None and columns is None:
            raise At(node, errors.no_such_table(name, self.given))
        said = _found(self.declared, name)
        stream = Declared(name) if said is None else declared(said, columns)
        return Rows(stream, stream.columns if columns is None else columns)

    def beside(self, name: str, query: exp.Expr) -> Scope:
        """With a further query, which hides others of its name."""
        others = {one: known for one, known in self.queries.items() if one.lower() != name.lower()}
        return replace(self, queries={**others, name: Query(query, self)})


def _found(known: Mapping[str, T], name: str) -> T | None:
    """By its name, spelt so or in other cases."""
    if name in known:
        return known[name]
    return next((one for other, one in known.items() if other.lower() == name.lower()), None)
