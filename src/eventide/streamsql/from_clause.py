"""``FROM``: rows of one stream, of several, or the result of another query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from eventide.errors import PlanError
from eventide.panes import DIFF, PANE
from eventide.streamsql.compiled_query import CompiledQuery, Scope, StreamRows
from eventide.streamsql.errors import no_such_function, not_in_retractions, nothing_to_do, unsupported
from eventide.streamsql.expressions import column, has_aggregate, reject_unsupported, text_of
from eventide.streamsql.select_clause import (
    WINDOW_COLUMNS,
    Projection,
    SelectItem,
    TableColumns,
    alias_of,
    conjunction,
    is_grouped,
    reject_aggregates,
    reject_duplicate,
    reject_reserved,
    result_name,
    select_items,
    table_of,
)
from eventide.streamsql.source_positions import LocatedError, MissingColumnsError
from eventide.streamsql.syntax import WINDOW_FUNCTIONS


@dataclass(frozen=True)
class UnionRows:
    """The rows of several streams, from the ``UNION ALL`` at ``at``."""

    parts: Mapping[str, StreamRows]
    at: exp.Expr

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns of the first part."""
        return next(iter(self.parts.values())).columns


Relation = StreamRows | UnionRows | CompiledQuery


def compile_relation(node: exp.Expr, scope: Scope) -> Relation:
    """Compile a table, a subquery or a query."""
    if isinstance(node, exp.Subquery):
        return compile_relation(node.this, scope)
    if isinstance(node, exp.Table):
        return _table(node, scope)
    if isinstance(node, exp.Union):
        return _union(node, scope)
    if isinstance(node, exp.Select):
        return _select(node, scope)
    if isinstance(node, exp.SetOperation):
        raise LocatedError(node, unsupported(type(node).__name__.upper(), "Join the streams instead."))
    if isinstance(node, exp.Values):
        raise LocatedError(node, unsupported("VALUES", "Give the rows as a table."))
    raise LocatedError(node, unsupported(f"{node.sql()} in FROM", "Name a stream, or write a subquery."))


def _table(node: exp.Table, scope: Scope) -> Relation:
    if isinstance(node.this, exp.Func):
        raise LocatedError(node.this, no_such_function(node.this.name or node.this.sql_name(), WINDOW_FUNCTIONS))
    query = scope.query(node.name)
    if query is not None:
        return compile_relation(query.node, query.scope)
    return scope.rows(node)


def _union(node: exp.Union, scope: Scope) -> Relation:
    if node.args.get("distinct"):
        raise LocatedError(
            node, unsupported("UNION", "Write UNION ALL: rows of streams are not compared with each other.")
        )
    scope = with_queries(node, scope)
    parts: dict[str, StreamRows] = {}
    for side in (node.this, node.expression):
        source = compile_relation(side, scope)
        if isinstance(source, CompiledQuery):
            raise LocatedError(side, unsupported("UNION ALL of results", "Unite the rows before they are grouped."))
        for rows in [source] if isinstance(source, StreamRows) else source.parts.values():
            if parts:
                rows = _renamed_like(rows, next(iter(parts.values())), side, by_name=bool(node.args.get("by_name")))
            name, again = rows.stream.name, 2
            while name in parts:
                name, again = f"{rows.stream.name}_{again}", again + 1
            parts[name] = rows
    return UnionRows(parts, node)


def _renamed_like(rows: StreamRows, first: StreamRows, at: exp.Expr, *, by_name: bool) -> StreamRows:
    """Return rows with the column names of the first part. SQL matches columns by position, or BY NAME."""
    ours, theirs = first.selected, rows.selected
    if ours is None or theirs is None or ours == theirs:
        return rows
    if by_name:
        if set(ours) != set(theirs):
            raise LocatedError(
                at,
                "UNION ALL BY NAME: not all parts have "
                f"{', '.join(map(repr, sorted(set(ours) ^ set(theirs))))}. Name the same columns in all of them; "
                "NULL AS name, if need be.",
            )
        return rows
    if len(ours) != len(theirs):
        raise LocatedError(
            at,
            f"UNION ALL matches columns by position, and the first part has {len(ours)} of them, this one "
            f"{len(theirs)}. Name the same number of columns in both.",
        )
    return rows.chosen({name: column(other) for name, other in zip(ours, theirs, strict=True)}, at)


def _select(select: exp.Select, scope: Scope) -> Relation:
    from eventide.streamsql.group_by import compile_grouped
    from eventide.streamsql.join import compile_join

    scope = with_queries(select, scope)
    if select.args.get("joins"):
        if select.args.get("group") or select.args.get("having") or any(map(has_aggregate, select.expressions)):
            raise LocatedError(
                select.args.get("group") or select,
                unsupported(
                    "GROUP BY with JOIN",
                    "Group the result: FROM TUMBLE((SELECT … FROM a JOIN b ON …), DESCRIPTOR(ts), …) GROUP BY ….",
                ),
            )
        return compile_join(select, scope)
    if is_grouped(select):
        return compile_grouped(select, scope)
    table = table_of(select)
    if select.args.get("emit"):
        inner = compile_relation(table, scope)
        fault = (
            PlanError("EMIT belongs to the SELECT that groups by windows, or joins them. Move it there.")
            if isinstance(inner, CompiledQuery)
            else nothing_to_do()
        )
        raise LocatedError(select.args["emit"], fault)
    source = compile_relation(table, scope)
    if isinstance(source, CompiledQuery):
        return _select_results(select, source, *alias_of(table))
    if select.args.get("distinct"):
        raise LocatedError(
            select.args["distinct"],
            unsupported("SELECT DISTINCT of rows", "Group by a window, or say CREATE STREAM … DEDUPLICATE."),
        )
    if isinstance(source, UnionRows):
        parts = {name: _select_rows(select, rows, *alias_of(table)) for name, rows in source.parts.items()}
        return UnionRows(parts, source.at)
    return _select_rows(select, source, *alias_of(table))


def with_queries(select: exp.Expr, scope: Scope) -> Scope:
    """Return the scope with the queries of WITH."""
    ctes = select.args.get("with_")
    if ctes is None:
        return scope
    if ctes.args.get("recursive"):
        raise LocatedError(ctes, unsupported("WITH RECURSIVE", "A stream has no fixed point. Leave it out."))
    named: list[exp.Expr] = ctes.expressions
    for number, query in enumerate(named):
        if query.alias.lower() in {other.alias.lower() for other in named[:number]}:
            raise LocatedError(
                query.args["alias"], f"WITH has two queries named {query.alias!r}. Give one of them another name."
            )
        readers = [*named[number + 1 :], *(part for part in select.iter_expressions() if part is not ctes)]
        if not any(_reads(part, query.alias) for part in readers):
            raise LocatedError(
                query.args["alias"],
                f"No later query reads {query.alias!r}, a query of WITH. Leave it out, or move it before its reader.",
            )
        scope = scope.with_query(query.alias, query.this)
    return scope


def _reads(node: exp.Expr, name: str) -> bool:
    """Whether a query reads a table of this name."""
    return any(table.name.lower() == name.lower() for table in node.find_all(exp.Table))


def where_condition(select: exp.Select, names: TableColumns) -> exp.Expr | None:
    """Return the condition of WHERE over the rows of a table."""
    where = select.args.get("where")
    if where is None:
        return None
    reject_aggregates(where)
    for node in where.find_all(exp.Column):
        if node.name.lower() in WINDOW_COLUMNS and (names.columns is None or names.find(node.name) is None):
            raise LocatedError(node, f"{node.name} in WHERE: rows are filtered before they have windows. Use HAVING.")
    return names.resolve(where.this)


def _select_rows(select: exp.Select, rows: StreamRows, *aliases: str) -> StreamRows:
    """Apply a SELECT to rows, before windows."""
    names = rows.names(*aliases)
    rows = rows.filtered(where_condition(select, names), select.args.get("where"))
    chosen: dict[str, exp.Expr] = {}
    columns = select_items(select)
    if len(columns) == 1 and columns[0].star:
        return rows
    for item in columns:
        for name, expression in _columns(item, names).items():
            reject_duplicate(name, chosen, item.expression)
            chosen[name] = expression
    return rows.chosen(chosen, select)


def _columns(item: SelectItem, names: TableColumns) -> dict[str, exp.Expr]:
    if item.star:
        if names.columns is None:
            raise MissingColumnsError(item.expression, unsupported("* with other columns", "Name the columns."))
        return {name: column(name) for name in names.columns}
    expression = names.resolve(item.expression)
    return {item.name or text_of(expression): expression}


def _select_results(select: exp.Select, inner: CompiledQuery, *aliases: str) -> CompiledQuery:
    """Apply a SELECT to the result of another query, as expressions over its panes."""
    if select.args.get("distinct"):
        raise LocatedError(
            select.args["distinct"], unsupported("SELECT DISTINCT of results", "Group by what must differ.")
        )
    expressions = inner.selectable
    names = TableColumns("the subquery", None if expressions is None else tuple(expressions), frozenset(aliases))

    def placed(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return node
        name = names.name(node)
        meant = column(name) if expressions is None else expressions[name].copy()
        return meant if isinstance(meant, exp.Column) else exp.paren(meant)

    where = select.args.get("where")
    if where is not None:
        reject_aggregates(where)
    conditions = [inner.projection.where, None if where is None else where.this.transform(placed)]
    projection = Projection(
        _selected(select, inner, placed),
        conjunction(part for part in conditions if part is not None),
    )
    unrepeated = projection.unrepeated_column()
    if unrepeated is not None and inner.pipelines[-1].plan.mode == "retracting":
        raise LocatedError(where, not_in_retractions(unrepeated))
    return replace(inner, projection=projection)


def _selected(
    select: exp.Select, inner: CompiledQuery, placed: Callable[[exp.Expr], exp.Expr]
) -> Mapping[str, exp.Expr] | None:
    """Return the selected columns of a result; None: all of them."""
    every = inner.projection.columns
    if len(select.expressions) == 1 and isinstance(select.expressions[0], exp.Star):
        return every
    chosen: dict[str, exp.Expr] = {}
    for item in select_items(select):
        reject_unsupported(item.expression)
        if item.star:
            if every is None:
                raise MissingColumnsError(item.expression, unsupported("* with other columns", "Name the columns."))
            columns = dict(every)
        else:
            value = item.expression.transform(placed).unnest()
            columns = {result_name(item.name or text_of(item.expression), value): value}
        for name, expression in columns.items():
            reject_duplicate(name, chosen, item.expression)
            reject_reserved(name, expression, item.expression, (*PANE, DIFF))
            chosen[name] = expression
    return chosen


def relation_names(source: Relation, *aliases: str) -> TableColumns:
    """Return the column names of a relation."""
    if isinstance(source, StreamRows):
        return source.names(*aliases)
    if isinstance(source, UnionRows):
        return TableColumns(" and ".join(source.parts), source.columns, frozenset({*source.parts, *aliases}))
    return TableColumns("the subquery", source.names, frozenset(aliases), source.renamed)
