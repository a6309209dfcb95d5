"""What stands in FROM: rows of one stream, of several, or the result of another query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from eventide.errors import sql as errors
from eventide.errors import sql_names as name_errors
from eventide.streamsql.catalogue import WINDOW_FUNCTIONS
from eventide.streamsql.compiled import Compiled
from eventide.streamsql.expressions import column, has_aggregate, refuse_unsupported, text_of
from eventide.streamsql.names import Names, together
from eventide.streamsql.places import At
from eventide.streamsql.projecting import OF_PANES, Projection
from eventide.streamsql.rows import Rows
from eventide.streamsql.scope import Scope
from eventide.streamsql.selects import (
    Item,
    alias_of,
    is_grouped,
    items,
    refuse_aggregates,
    refuse_reserved,
    refuse_taken,
    table_of,
)


@dataclass(frozen=True)
class Several:
    """The rows of several streams as one: ``UNION ALL``, which stands ``at`` a place of the query."""

    parts: Mapping[str, Rows]
    at: exp.Expr

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns, which are those of the first."""
        return next(iter(self.parts.values())).columns


Relation = Rows | Several | Compiled


def relation(node: exp.Expr, scope: Scope) -> Relation:
    """The relation that a table, a subquery or a query is."""
    if isinstance(node, exp.Subquery):
        return relation(node.this, scope)
    if isinstance(node, exp.Table):
        return _table(node, scope)
    if isinstance(node, exp.Union):
        return _union(node, scope)
    if isinstance(node, exp.Select):
        return _select(node, scope)
    if isinstance(node, exp.SetOperation):
        raise At(node, errors.not_here(type(node).__name__.upper(), "Join the streams instead."))
    if isinstance(node, exp.Values):
        raise At(node, errors.not_here("VALUES", "Give the rows as a table."))
    raise At(node, errors.not_here(f"{node.sql()} in FROM", "Name a stream, or write a subquery."))


def _table(node: exp.Table, scope: Scope) -> Relation:
    if isinstance(node.this, exp.Func):
        raise At(node.this, errors.no_such_function(node.this.name or node.this.sql_name(), WINDOW_FUNCTIONS))
    query = scope.query(node.name)
    if query is not None:
        return relation(query.node, query.scope)
    return scope.rows(node)


def _union(node: exp.Union, scope: Scope) -> Relation:
    if node.args.get("distinct"):
        raise At(node, errors.not_here("UNION", "Write UNION ALL: rows of streams are not compared with each other."))
    scope = with_queries(node, scope)
    parts: dict[str, Rows] = {}
    for side in (node.this, node.expression):
        found = relation(side, scope)
        if isinstance(found, Compiled):
            raise At(side, errors.not_here("UNION ALL of results", "Unite the rows before they are grouped."))
        for rows in [found] if isinstance(found, Rows) else found.parts.values():
            if parts:
                rows = _like_the_first(rows, next(iter(parts.values())), side, by_name=bool(node.args.get("by_name")))
            name, again = rows.stream.name, 2
            while name in parts:
                name, again = f"{rows.stream.name}_{again}", again + 1
            parts[name] = rows
    return Several(parts, node)


def _like_the_first(rows: Rows, first: Rows, at: exp.Expr, *, by_name: bool) -> Rows:
    """Rows of a union with the names of the first: SQL pairs columns by their place, unless it says BY NAME."""
    ours, theirs = first.asked, rows.asked
    if ours is None or theirs is None or ours == theirs:
        return rows
    if by_name:
        if set(ours) != set(theirs):
            raise At(at, name_errors.union_of_names(sorted(set(ours) ^ set(theirs))))
        return rows
    if len(ours) != len(theirs):
        raise At(at, name_errors.union_of_columns(len(ours), len(theirs)))
    return rows.chosen({name: column(own) for name, own in zip(ours, theirs, strict=True)}, at)


def _select(select: exp.Select, scope: Scope) -> Relation:
    from eventide.streamsql.grouping import grouped
    from eventide.streamsql.joining import joined

    scope = with_queries(select, scope)
    if select.args.get("joins"):
        if select.args.get("group") or select.args.get("having") or any(map(has_aggregate, select.expressions)):
            raise At(
                select.args.get("group") or select,
                errors.not_here(
                    "GROUP BY beside JOIN",
                    "Group the result: FROM TUMBLE((SELECT … FROM a JOIN b ON …), DESCRIPTOR(ts), …) GROUP BY ….",
                ),
            )
        return joined(select, scope)
    if is_grouped(select):
        return grouped(select, scope)
    table = table_of(select)
    if select.args.get("emit"):
        inner = relation(table, scope)
        fault = errors.emit_inside() if isinstance(inner, Compiled) else errors.nothing_to_do()
        raise At(select.args["emit"], fault)
    source = relation(table, scope)
    if isinstance(source, Compiled):
        return _behind(select, source, *alias_of(table))
    if select.args.get("distinct"):
        raise At(
            select.args["distinct"],
            errors.not_here("SELECT DISTINCT of rows", "Group by a window, or say CREATE STREAM … DEDUPLICATE."),
        )
    if isinstance(source, Several):
        parts = {name: _before(select, one, *alias_of(table)) for name, one in source.parts.items()}
        return Several(parts, source.at)
    return _before(select, source, *alias_of(table))


def with_queries(select: exp.Expr, scope: Scope) -> Scope:
    """The scope with the queries of WITH."""
    ctes = select.args.get("with_")
    if ctes is None:
        return scope
    if ctes.args.get("recursive"):
        raise At(ctes, errors.not_here("WITH RECURSIVE", "A stream has no fixed point. Leave it out."))
    named: list[exp.Expr] = ctes.expressions
    for place, one in enumerate(named):
        if one.alias.lower() in {other.alias.lower() for other in named[:place]}:
            raise At(one.args["alias"], name_errors.query_twice(one.alias))
        behind = [*named[place + 1 :], *(part for part in select.iter_expressions() if part is not ctes)]
        if not any(_reads(part, one.alias) for part in behind):
            raise At(one.args["alias"], name_errors.query_not_read(one.alias))
        scope = scope.beside(one.alias, one.this)
    return scope


def _reads(node: exp.Expr, name: str) -> bool:
    """Whether a table of this name stands somewhere in it."""
    return any(table.name.lower() == name.lower() for table in node.find_all(exp.Table))


def condition(select: exp.Select, names: Names) -> exp.Expr | None:
    """WHERE over the rows of a table."""
    where = select.args.get("where")
    if where is None:
        return None
    refuse_aggregates(where)
    for one in where.find_all(exp.Column):
        if one.name.lower() in OF_PANES and (names.columns is None or names.find(one.name) is None):
            raise At(one, errors.window_in_where(one.name))
    return names.spelt(where.this)


def _before(select: exp.Select, rows: Rows, *aliases: str) -> Rows:
    """A select of rows, before there are windows."""
    names = rows.names(*aliases)
    rows = rows.filtered(condition(select, names), select.args.get("where"))
    chosen: dict[str, exp.Expr] = {}
    found = items(select)
    if len(found) == 1 and found[0].star:
        return rows
    for item in found:
        for name, expression in _columns(item, names).items():
            refuse_taken(name, chosen, item.expression)
            chosen[name] = expression
    return rows.chosen(chosen, select)


def _columns(item: Item, names: Names) -> dict[str, exp.Expr]:
    if item.star:
        if names.columns is None:
            raise At(item.expression, errors.not_here("* beside other columns", "Name the columns."))
        return {name: column(name) for name in names.columns}
    expression = names.spelt(item.expression)
    return {item.name or text_of(expression): expression}


def _behind(select: exp.Select, inner: Compiled, *aliases: str) -> Compiled:
    """A select of another query's result: its expressions over those of the panes."""
    if select.args.get("distinct"):
        raise At(select.args["distinct"], errors.not_here("SELECT DISTINCT of results", "Group by what must differ."))
    known = inner.selectable
    names = Names("the subquery", None if known is None else tuple(known), frozenset(aliases))

    def placed(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return node
        name = names.name(node)
        meant = column(name) if known is None else known[name].copy()
        return meant if isinstance(meant, exp.Column) else exp.paren(meant)

    where = select.args.get("where")
    if where is not None:
        refuse_aggregates(where)
    conditions = [inner.projection.where, None if where is None else where.this.transform(placed)]
    projection = Projection(_selected(select, inner, placed), together(one for one in conditions if one is not None))
    untold = projection.untold()
    if untold is not None and inner.pipelines[-1].plan.mode == "retracting":
        raise At(where, errors.not_repeated(untold))
    return replace(inner, projection=projection)


def _selected(
    select: exp.Select, inner: Compiled, placed: Callable[[exp.Expr], exp.Expr]
) -> Mapping[str, exp.Expr] | None:
    """The columns of a select of a result; None: all that there are."""
    every = inner.projection.columns
    if len(select.expressions) == 1 and isinstance(select.expressions[0], exp.Star):
        return every
    chosen: dict[str, exp.Expr] = {}
    for item in items(select):
        refuse_unsupported(item.expression)
        if item.star:
            if every is None:
                raise At(item.expression, errors.not_here("* beside other columns", "Name the columns."))
            made = dict(every)
        else:
            made = {item.name or text_of(item.expression): item.expression.transform(placed).unnest()}
        for name, expression in made.items():
            refuse_taken(name, chosen, item.expression)
            refuse_reserved(name, expression, item.expression)
            chosen[name] = expression
    return chosen


def names_of(source: Relation, *aliases: str) -> Names:
    """The columns that a query of a relation can name."""
    if isinstance(source, Rows):
        return source.names(*aliases)
    if isinstance(source, Several):
        return Names(" and ".join(source.parts), source.columns, frozenset({*source.parts, *aliases}))
    return Names("the subquery", source.names, frozenset(aliases), source.renamed)
