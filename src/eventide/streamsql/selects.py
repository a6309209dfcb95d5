"""The parts of a ``SELECT``: its columns with their names, and what of it no stream can do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlglot import exp

from eventide.errors import sql as errors
from eventide.errors import sql_joins as join_errors
from eventide.errors import sql_names as name_errors
from eventide.panes import RESERVED
from eventide.streamsql.expressions import column, has_aggregate, refuse_unsupported
from eventide.streamsql.nodes import Preceding, WindowTable
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
    "joins": ("A join in brackets", "Write SELECT in front of it: (SELECT … FROM a JOIN b ON …)."),
    "locks": ("FOR UPDATE", "Leave it out."),
}
# What is understood of each kind of node. All else is refused by its name: nothing is passed over in silence.
_KNOWN: dict[type[exp.Expr], set[str]] = {
    exp.Select: {"expressions", "from_", "where", "group", "having", "joins", "distinct", "with_", "emit"},
    exp.Group: {"expressions"},
    exp.Distinct: {"expressions"},
    exp.Star: set(),
    exp.Table: {"this", "alias", "over", "db"},
    exp.Subquery: {"this", "alias", "over"},
    exp.TableAlias: {"this"},
    exp.Join: {"this", "on", "using", "side", "kind", "method"},
    exp.Union: {"this", "expression", "distinct", "by_name", "with_"},
    exp.Cube: set(),
    exp.Rollup: set(),
    exp.GroupingSets: set(),
}
_NAMES: dict[tuple[type[exp.Expr], str], str] = {
    (exp.Distinct, "on"): "DISTINCT ON",
    (exp.Star, "except_"): "* EXCEPT",
    (exp.Star, "replace"): "* REPLACE",
    (exp.Group, "rollup"): "ROLLUP",
    (exp.Group, "cube"): "CUBE",
    (exp.Group, "all"): "GROUP BY ALL",
    (exp.TableAlias, "columns"): "An alias with columns",
    (exp.Table, "version"): "A table as of some time",
}


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


def refuse_taken(name: str, others: Iterable[str], at: exp.Expr) -> None:
    """Names of columns differ, and not in upper and lower case only: not every engine would tell them apart."""
    for other in others:
        if other.lower() == name.lower():
            raise At(at, name_errors.name_twice(name) if other == name else name_errors.names_alike(other, name))


def refuse_reserved(name: str, expression: exp.Expr, at: exp.Expr) -> None:
    """Columns that every result has keep their names, and no others get them."""
    if name.lower() in RESERVED and (name not in RESERVED or expression != column(name)):
        raise At(at, name_errors.name_is_ours(name))


def refuse_clauses(query: exp.Expr) -> None:
    """Name the clauses, anywhere in a query, that streams cannot have."""
    for node in query.walk():
        for clause in [name for name, said in node.args.items() if said and _is_unknown(node, name)]:
            said = node.args[clause]
            part = said[0] if isinstance(said, list) else said
            what, mend = _REFUSED.get(
                clause, (_NAMES.get((type(node), clause)) or _spelt(node, clause), "Leave it out.")
            )
            raise At(part if isinstance(part, exp.Expr) else node, errors.not_here(what, mend))
        _refuse_misplaced(node)
        if isinstance(node, exp.Select) and node.args.get("from_") is None:
            raise At(node, errors.not_here("SELECT without FROM", "Name the stream whose rows are read."))


def refuse_aggregates(condition: exp.Expr) -> None:
    """Name what a condition on rows cannot ask for: an aggregate of others."""
    refuse_unsupported(condition)
    for one in condition.find_all(exp.Anonymous):
        if has_aggregate(one):
            raise At(one, errors.aggregate_in_where(one.name.upper()))


def _refuse_misplaced(node: exp.Expr) -> None:
    """What is read anywhere, and means something in one place only."""
    over = node.args.get("over")
    if isinstance(over, Preceding) and not isinstance(node.parent, exp.Join):
        raise At(over, join_errors.over_preceding_side())
    if isinstance(node, exp.Window) and isinstance(node.this, WindowTable):
        raise At(node, join_errors.over_windows(node.this.args["kind"]))
    if isinstance(node, WindowTable) and isinstance(node.parent, exp.Table):
        around = node.parent.parent
        if isinstance(around, WindowTable):
            mend = "Group by the inner windows in a subquery, and give that its windows."
            raise At(node, errors.not_here(f"{node.args['kind']} inside {around.args['kind']}", mend))
        if isinstance(around, exp.Subquery):
            raise At(node, errors.not_here(f"{node.args['kind']} in brackets", "Leave the brackets out."))


def _is_unknown(node: exp.Expr, clause: str) -> bool:
    known = _KNOWN.get(type(node))
    return known is not None and clause not in known


def _spelt(node: exp.Expr, clause: str) -> str:
    if isinstance(node, exp.Cube | exp.Rollup | exp.GroupingSets):
        return "GROUPING SETS" if isinstance(node, exp.GroupingSets) else type(node).__name__.upper()
    return clause.strip("_").replace("_", " ").upper()


def table_of(select: exp.Select) -> exp.Expr:
    """What FROM reads, without the wrapping of ``TABLE(…)``."""
    found: exp.Expr = select.args["from_"].this
    return unwrapped(found)


def unwrapped(table: exp.Expr) -> exp.Expr:
    """A table, without the wrapping of ``TABLE(…)``."""
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
