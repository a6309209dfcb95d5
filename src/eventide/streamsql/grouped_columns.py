"""The columns of a grouping ``SELECT``: keys, aggregates, and expressions before and after them."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field

from sqlglot import exp

from eventide.aggregates import Aggregate
from eventide.panes import DIFF, PANE, WINDOW
from eventide.streamsql.aggregates import AggregateCalls, aggregate_name
from eventide.streamsql.errors import (
    aggregate_in_where,
    no_such_column,
    no_such_function,
    no_windows_here,
    unsupported,
)
from eventide.streamsql.expressions import (
    column,
    has_aggregate,
    is_aggregate,
    misspelt_aggregate,
    reject_unsupported,
    text_of,
)
from eventide.streamsql.select_clause import (
    WINDOW_COLUMNS,
    Projection,
    SelectItem,
    TableColumns,
    reject_duplicate,
    reject_reserved,
    result_name,
    select_items,
)
from eventide.streamsql.source_positions import LocatedError, at_position_of
from eventide.streamsql.syntax import AGGREGATES


@dataclass
class GroupedColumns:
    """Reads the columns of a grouping SELECT, one after the other."""

    names: TableColumns
    has_windows: bool
    keys: dict[str, exp.Expr] = field(default_factory=dict)
    aggregates: dict[str, Aggregate] = field(default_factory=dict)
    computed: dict[str, exp.Expr] = field(default_factory=dict)
    by_window: bool = False
    projection: Projection = field(default_factory=Projection)
    _called: dict[str, Aggregate] = field(default_factory=dict)
    _chosen: dict[str, exp.Expr] = field(default_factory=dict)

    def read(self, select: exp.Select) -> None:
        """Read all clauses of a grouping SELECT."""
        columns = select_items(select)
        for item in columns:
            if item.star:
                what = "SELECT * with GROUP BY" if select.args.get("group") else "SELECT * of windows"
                raise LocatedError(item.expression, unsupported(what, "Name the columns."))
            reject_unsupported(item.expression)
        self._read_keys(select, columns)
        for item in columns:  # named columns first, so that the pipeline calls it by that name
            if item.name is not None and self._whole(item.expression):
                self._result(item.expression, item.name)
        for item in columns:
            self._choose(item)
        having = select.args.get("having")
        where = None if having is None else self._over_panes(having.this, aliases=True)
        if not self.aggregates:
            self._named(self._caller().call(exp.Anonymous(this="COUNT", expressions=[exp.Star()])), None)
        self.projection = Projection(self._chosen, where)

    def _read_keys(self, select: exp.Select, items: list[SelectItem]) -> None:
        group = select.args.get("group")
        if select.args.get("distinct"):
            if group is not None or any(has_aggregate(item.expression) for item in items):
                raise LocatedError(
                    select.args["distinct"],
                    unsupported("DISTINCT with GROUP BY", "A group has one row; leave DISTINCT out."),
                )
            expressions = [item.expression for item in items]
        else:
            expressions = [self._referenced(node, items) for node in _group_expressions(group)]
        for expression in expressions:
            if isinstance(expression, exp.Column) and expression.name.lower() in WINDOW_COLUMNS:
                self._check_windows(expression)
                self.by_window = True
                continue
            if has_aggregate(expression):
                raise LocatedError(expression, aggregate_in_where(text_of(expression)))
            spelt = self.names.resolve(expression)
            name = spelt.name if isinstance(spelt, exp.Column) else self._alias(expression, items)
            if not isinstance(spelt, exp.Column):
                self.computed[name] = spelt
            self.keys[name] = spelt

    def _referenced(self, node: exp.Expr, items: list[SelectItem]) -> exp.Expr:
        """Return the expression of an ordinal, or of the name of a column of SELECT."""
        if isinstance(node, exp.Literal) and not node.is_string:
            place = int(node.name) if node.name.isdigit() else 0
            if not 1 <= place <= len(items):
                raise LocatedError(
                    node,
                    f"GROUP BY {node.name}: SELECT has {len(items)} columns. Name one of them, or give "
                    "its number from 1.",
                )
            return items[place - 1].expression
        if (
            isinstance(node, exp.Column)
            and not node.table
            and (self.names.columns is None or self.names.find(node.name) is None)
        ):
            for item in items:
                if item.name == node.name:
                    return item.expression
        return node

    def _alias(self, expression: exp.Expr, items: list[SelectItem]) -> str:
        """Return the name of a computed key: its alias, unless rows have a column of that name."""
        spelt = self._resolved(expression)
        named = next((item.name for item in items if item.name and self._resolved(item.expression) == spelt), None)
        return named if named is not None and not self._taken(named, items) else text_of(expression)

    def _taken(self, name: str, items: list[SelectItem]) -> bool:
        if self.names.columns is not None:
            return self.names.find(name) is not None
        used = (node.name for item in items for node in item.expression.find_all(exp.Column))
        return name.lower() in {node.lower() for node in used}

    def _choose(self, item: SelectItem) -> None:
        expression = item.expression
        if item.name is not None and self._whole(expression):
            pane_expression = self._result(expression, item.name)
        else:
            pane_expression = self._over_panes(expression)
        name = item.name or (pane_expression.name if isinstance(pane_expression, exp.Column) else text_of(expression))
        if item.name is None and self._whole(expression):
            name = next(pane_expression.find_all(exp.Column)).name
        name, whole = result_name(name, pane_expression), self._whole(expression)
        reject_duplicate(name, [*self._chosen, *(self.keys if whole else ())], expression)
        reject_reserved(name, exp.null() if whole else pane_expression, expression)
        self._chosen[name] = pane_expression

    def _whole(self, node: exp.Expr) -> bool:
        """Whether an expression is a single aggregate."""
        while isinstance(node, exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup):
            node = node.this
        return is_aggregate(node)

    def _over_panes(self, node: exp.Expr, *, aliases: bool = False) -> exp.Expr:
        """Return an expression over rows and groups as an expression over panes."""

        def replaced(part: exp.Expr) -> exp.Expr:
            name = self._as_key(part)
            if name is not None:
                return at_position_of(column(name), part)
            if self._whole(part):
                return at_position_of(self._result(part, None), part)
            return at_position_of(self._column(part, aliases), part) if isinstance(part, exp.Column) else part

        reject_unsupported(node)
        pane_expression: exp.Expr = node.transform(replaced)
        return pane_expression

    def _column(self, node: exp.Column, aliases: bool) -> exp.Expr:
        name = node.name
        if name.lower() in (WINDOW_COLUMNS if node.table else (*WINDOW, *PANE)):
            self._check_windows(node)
            return column(name.lower())
        if not node.table and name == DIFF:
            return column(name)
        key = self._key(name)
        if key is not None and (not node.table or self.names.has_table(node.table)):
            return column(key)
        alias = next((selected for selected in self._chosen if selected.lower() == name.lower()), None)
        if aliases and not node.table and alias is not None:
            expression = self._chosen[alias].copy()
            return expression if isinstance(expression, exp.Column) else exp.paren(expression)
        if self.names.columns is not None and self.names.find(name) is None and self.has_windows and not node.table:
            raise LocatedError(node, no_such_column(name, self.names.table, [*self.names.columns, *WINDOW, *PANE]))
        if self.names.columns is not None:
            self.names.name(node)
        call = misspelt_aggregate(node)
        if call is not None:
            raise LocatedError(call, no_such_function(call.name, AGGREGATES))
        text = text_of(node)
        near = difflib.get_close_matches(text, (*WINDOW, *PANE), n=1, cutoff=0.8) if self.has_windows else []
        hint = f"Did you mean {near[0]!r}?" if near else f"Add it to GROUP BY, or use LAST({text})."
        raise LocatedError(node, f"{text} is neither in GROUP BY nor inside an aggregate. {hint}")

    def _as_key(self, node: exp.Expr) -> str | None:
        """Return the key that is equal to an expression; None: there is none."""
        spelt = self._resolved(node) if self.keys else None
        return next((name for name, key in self.keys.items() if key == spelt), None)

    def _resolved(self, node: exp.Expr) -> exp.Expr | None:
        """Return an expression over rows; None: it refers to groups or windows."""
        try:
            return None if has_aggregate(node) else self.names.resolve(node)
        except LocatedError:
            return None

    def _key(self, name: str) -> str | None:
        column_name = self.names.stored_name(name)
        return (
            column_name
            if column_name in self.keys
            else next((key for key in self.keys if key.lower() == name.lower()), None)
        )

    def _check_windows(self, node: exp.Column) -> None:
        if not self.has_windows:
            raise LocatedError(node, no_windows_here(node.name))

    def _caller(self) -> AggregateCalls:
        def computed(expression: exp.Expr) -> str:
            name = text_of(expression).replace("`", "")
            self.computed[name] = expression
            return name

        return AggregateCalls(self.names, computed)

    def _result(self, node: exp.Expr, name: str | None) -> exp.Expr:
        return column(self._named(self._caller().call(node), name))

    def _named(self, aggregate: Aggregate, name: str | None) -> str:
        """Return the name of an aggregate in the pipeline: its alias, or a readable name."""
        if name is None:
            names = (other_name for other_name, other in self._called.items() if other == aggregate)
            name = next(names, None) or aggregate_name(aggregate)
            again = name
            while self._is_of_others(again, aggregate):
                again += "_"
            name = again
        self.aggregates[name] = aggregate
        self._called[name] = aggregate
        return name

    def _is_of_others(self, name: str, aggregate: Aggregate) -> bool:
        """Whether a name is that of a key or of another aggregate."""
        others = [*self.keys, *(other_name for other_name, other in self._called.items() if other != aggregate)]
        return name.lower() in {other_name.lower() for other_name in others}


def _group_expressions(group: exp.Group | None) -> list[exp.Expr]:
    """Return the expressions of GROUP BY, also in brackets: ``GROUP BY (a, b)``."""
    expressions: list[exp.Expr] = []
    for node in [] if group is None else group.expressions:
        if isinstance(node, exp.Tuple) and not node.expressions:
            raise LocatedError(node, unsupported("GROUP BY ()", "Leave GROUP BY out."))
        expressions += node.expressions if isinstance(node, exp.Tuple) else [node]
    return expressions
