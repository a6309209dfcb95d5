"""The parts of a ``SELECT``: its columns with their names, and what of it no stream can do."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from eventide.errors import sql as errors
from eventide.streamsql.expressions import has_aggregate
from eventide.streamsql.nodes import WindowTable
from eventide.streamsql.places import At

_REFUSED = {
    "order": ("ORDER BY", "A stream has no last row to wait for. Sort what you read from the sink."),
    "limit": ("LIMIT", "A stream goes on. For the greatest values use TOP_N(column, n)."),
    "offset": ("OFFSET", "A stream goes on. Leave it out."),
    "qualify": ("QUALIFY", "Use HAVING."),
    "windows": ("WINDOW", "Use a window function in FROM: TUMBLE(…), HOP(…), SESSION(…)."),
    "laterals": ("LATERAL", "Explode rows before they are given to the query."),
    "sample": ("TABLESAMPLE", "Use WHERE."),
    "pivots": ("PIVOT", "Use COUNT(*) FILTER (WHERE …) for each column."),
    "connect": ("CONNECT BY", "Leave it out."),
    "match": ("MATCH_RECOGNIZE", "Write an operator of your own: ev.Processor."),
    "into": ("INTO", "Name the sink where the query is run."),
    "cluster": ("CLUSTER BY", "Leave it out."),
    "distribute": ("DISTRIBUTE BY", "Leave it out."),
    "sort": ("SORT BY", "Leave it out."),
    "locks": ("FOR UPDATE", "Leave it out."),
    "prewhere": ("PREWHERE", "Use WHERE."),
}
_GROUPINGS = {"rollup": "ROLLUP", "cube": "CUBE", "grouping_sets": "GROUPING SETS", "totals": "WITH TOTALS"}
_TABLE = ("alias", "over", "this", "db", "catalog", "joins")


@dataclass(frozen=True)
class Item:
    """A column of SELECT. ``name`` is what the user called it, if they did."""

    name: str | None
    expression: exp.Expr

    @property
    def star(self) -> bool:
        """Whether it means all columns."""
        inner = self.expression
        return isinstance(inner, exp.Star) or (isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star))


def items(select: exp.Select) -> list[Item]:
    """The columns of SELECT."""
    found = []
    for one in select.expressions:
        if isinstance(one, exp.Alias):
            found.append(Item(one.alias, one.this))
        else:
            found.append(Item(one.name if isinstance(one, exp.Column) else None, one))
    return found


def refuse_clauses(select: exp.Select) -> None:
    """Name the clauses that streams cannot have."""
    for clause, (what, mend) in _REFUSED.items():
        said = select.args.get(clause)
        if said:
            raise At(said[0] if isinstance(said, list) else said, errors.not_here(what, mend))
    group = select.args.get("group")
    for clause, what in _GROUPINGS.items():
        if group is not None and group.args.get(clause):
            raise At(group, errors.not_here(what, "Give each grouping a query of its own."))
    if select.args.get("from_") is None:
        raise At(select, errors.not_here("SELECT without FROM", "Name the stream whose rows are read."))


def table_of(select: exp.Select) -> exp.Expr:
    """What FROM reads, without the wrapping of ``TABLE(…)``."""
    found: exp.Expr = select.args["from_"].this
    return unwrapped(found)


def unwrapped(table: exp.Expr) -> exp.Expr:
    """A table, without the wrapping of ``TABLE(…)``; refused, if it has what no stream has."""
    for clause, said in table.args.items():
        if said and clause in ("pivots", "sample", "laterals"):
            raise At(table, errors.not_here(*_REFUSED[clause]))
    inner = table.this
    if isinstance(inner, exp.Anonymous) and inner.name.lower() == "table" and len(inner.expressions) == 1:
        table.set("this", inner.expressions[0])
    return table


def alias_of(table: exp.Expr) -> tuple[str, ...]:
    """What the query calls a table, beside its name."""
    return (table.alias,) if table.alias else ()


def is_grouped(select: exp.Select) -> bool:
    """Whether rows are brought together."""
    table = table_of(select)
    if select.args.get("group") or select.args.get("having") or isinstance(table.this, WindowTable):
        return True
    return any(has_aggregate(one) for one in select.expressions)
