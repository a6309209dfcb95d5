"""The columns of a grouping ``SELECT``: keys, aggregates, and what is computed before and behind them."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from eventide.aggregates import Aggregate
from eventide.errors import sql as errors
from eventide.streamsql.aggregates import Caller, name_of
from eventide.streamsql.ambiguous import near_aggregate
from eventide.streamsql.catalogue import AGGREGATES
from eventide.streamsql.expressions import column, has_aggregate, is_aggregate, refuse_unsupported, text_of
from eventide.streamsql.names import Names
from eventide.streamsql.places import At, in_place_of
from eventide.streamsql.projecting import DIFF, INSIDE, OF_PANES, Projection
from eventide.streamsql.selects import Item, items, refuse_reserved, refuse_taken


@dataclass
class Grouping:
    """Reads the columns of a grouping SELECT, one after the other."""

    names: Names
    has_windows: bool
    keys: dict[str, exp.Expr] = field(default_factory=dict)
    aggregates: dict[str, Aggregate] = field(default_factory=dict)
    computed: dict[str, exp.Expr] = field(default_factory=dict)
    by_window: bool = False
    projection: Projection = field(default_factory=Projection)
    _called: dict[str, Aggregate] = field(default_factory=dict)
    _chosen: dict[str, exp.Expr] = field(default_factory=dict)

    def read(self, select: exp.Select) -> None:
        """All of it."""
        found = items(select)
        for item in found:
            if item.star:
                what = "SELECT * with GROUP BY" if select.args.get("group") else "SELECT * of windows"
                raise At(item.expression, errors.not_here(what, "Name the columns."))
            refuse_unsupported(item.expression)
        self._read_keys(select, found)
        for item in found:  # what users name comes first, so that the pipeline calls it by that name
            if item.name is not None and self._whole(item.expression):
                self._result(item.expression, item.name)
        for item in found:
            self._choose(item)
        having = select.args.get("having")
        where = None if having is None else self._paned(having.this, aliases=True)
        if not self.aggregates:
            self._named(self._caller().call(exp.Anonymous(this="COUNT", expressions=[exp.Star()])), None)
        self.projection = Projection(self._chosen, where)

    def _read_keys(self, select: exp.Select, found: list[Item]) -> None:
        group = select.args.get("group")
        if select.args.get("distinct"):
            if group is not None or any(has_aggregate(item.expression) for item in found):
                raise At(
                    select.args["distinct"],
                    errors.not_here("DISTINCT with GROUP BY", "A group has one row; leave DISTINCT out."),
                )
            expressions = [item.expression for item in found]
        else:
            expressions = [self._meant(one, found) for one in _grouped_by(group)]
        for expression in expressions:
            if isinstance(expression, exp.Column) and (expression.name.lower() in (*OF_PANES, "window")):
                self._check_windows(expression)
                self.by_window = True
                continue
            if has_aggregate(expression):
                raise At(expression, errors.aggregate_in_where(text_of(expression)))
            spelt = self.names.spelt(expression)
            name = spelt.name if isinstance(spelt, exp.Column) else self._alias(expression, found)
            if not isinstance(spelt, exp.Column):
                self.computed[name] = spelt
            self.keys[name] = spelt

    def _meant(self, node: exp.Expr, found: list[Item]) -> exp.Expr:
        """An ordinal, or the name of a column of SELECT, as what it stands for."""
        if isinstance(node, exp.Literal) and not node.is_string:
            place = int(node.name) if node.name.isdigit() else 0
            if not 1 <= place <= len(found):
                raise At(node, errors.bad_ordinal(node.name, len(found)))
            return found[place - 1].expression
        if (
            isinstance(node, exp.Column)
            and not node.table
            and (self.names.columns is None or self.names.find(node.name) is None)
        ):
            for item in found:
                if item.name == node.name:
                    return item.expression
        return node

    def _alias(self, expression: exp.Expr, found: list[Item]) -> str:
        """What a computed key is called: as the user calls it, unless rows have a column of that name."""
        spelt = self._spelt(expression)
        named = next((item.name for item in found if item.name and self._spelt(item.expression) == spelt), None)
        return named if named is not None and not self._taken(named, found) else text_of(expression)

    def _taken(self, name: str, found: list[Item]) -> bool:
        if self.names.columns is not None:
            return self.names.find(name) is not None
        used = (one.name for item in found for one in item.expression.find_all(exp.Column))
        return name.lower() in {one.lower() for one in used}

    def _choose(self, item: Item) -> None:
        expression = item.expression
        if item.name is not None and self._whole(expression):
            made = self._result(expression, item.name)
        else:
            made = self._paned(expression)
        name = item.name or (made.name if isinstance(made, exp.Column) else text_of(expression))
        if item.name is None and self._whole(expression):
            name = next(made.find_all(exp.Column)).name
        whole = self._whole(expression)
        refuse_taken(name, [*self._chosen, *(self.keys if whole else ())], expression)
        refuse_reserved(name, exp.null() if whole else made, expression)
        self._chosen[name] = made

    def _whole(self, node: exp.Expr) -> bool:
        """Whether the whole column is one aggregate."""
        while isinstance(node, exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup):
            node = node.this
        return is_aggregate(node)

    def _paned(self, node: exp.Expr, *, aliases: bool = False) -> exp.Expr:
        """An expression over rows and groups as one over the columns of panes."""

        def placed(one: exp.Expr) -> exp.Expr:
            name = self._as_key(one)
            if name is not None:
                return in_place_of(column(name), one)
            if self._whole(one):
                return in_place_of(self._result(one, None), one)
            return in_place_of(self._column(one, aliases), one) if isinstance(one, exp.Column) else one

        refuse_unsupported(node)
        made: exp.Expr = node.transform(placed)
        return made

    def _column(self, node: exp.Column, aliases: bool) -> exp.Expr:
        name = node.name
        if node.table.lower() in ("window", "pane") and f"__{node.table.lower()}_{name.lower()}" in INSIDE:
            self._check_windows(node)
            return column(f"__{node.table.lower()}_{name.lower()}")
        if name.lower() in OF_PANES:
            self._check_windows(node)
            return column(OF_PANES[name.lower()])
        if not node.table and name in (DIFF, "window", "pane"):
            return column(name)
        key = self._key(name)
        if key is not None and (not node.table or self.names.knows_table(node.table)):
            return column(key)
        alias = next((one for one in self._chosen if one.lower() == name.lower()), None)
        if aliases and not node.table and alias is not None:
            meant = self._chosen[alias].copy()
            return meant if isinstance(meant, exp.Column) else exp.paren(meant)
        if node.table.lower() in ("window", "pane") and not self.names.knows_table(node.table):
            fields = [".".join(one) for one in INSIDE.values()]
            raise At(node, errors.no_such_column(f"{node.table}.{name}", "the panes", fields))
        if self.names.columns is not None and self.names.find(name) is None and self.has_windows and not node.table:
            raise At(node, errors.no_such_column(name, self.names.table, [*self.names.columns, *OF_PANES]))
        if self.names.columns is not None:
            self.names.name(node)
        call = near_aggregate(node)
        if call is not None:
            raise At(call, errors.no_such_function(call.name, AGGREGATES))
        raise At(node, errors.not_grouped(text_of(node)))

    def _as_key(self, node: exp.Expr) -> str | None:
        """The key that an expression is, if it is one."""
        spelt = self._spelt(node) if self.keys else None
        return next((name for name, key in self.keys.items() if key == spelt), None)

    def _spelt(self, node: exp.Expr) -> exp.Expr | None:
        """An expression over rows; nothing, if it is of groups or windows."""
        try:
            return None if has_aggregate(node) else self.names.spelt(node)
        except At:
            return None

    def _key(self, name: str) -> str | None:
        found = self.names.stored_as(name)
        return found if found in self.keys else next((one for one in self.keys if one.lower() == name.lower()), None)

    def _check_windows(self, node: exp.Column) -> None:
        if not self.has_windows:
            raise At(node, errors.no_windows_here(node.name))

    def _caller(self) -> Caller:
        def computed(expression: exp.Expr) -> str:
            name = text_of(expression).replace("`", "")
            self.computed[name] = expression
            return name

        return Caller(self.names, computed)

    def _result(self, node: exp.Expr, name: str | None) -> exp.Expr:
        return column(self._named(self._caller().call(node), name))

    def _named(self, called: Aggregate, name: str | None) -> str:
        """The name of an aggregate in the pipeline: the user's, or a readable one."""
        if name is None:
            known = (one for one, other in self._called.items() if other == called)
            name = next(known, None) or name_of(called)
            again = name
            while self._is_of_others(again, called):
                again += "_"
            name = again
        self.aggregates[name] = called
        self._called[name] = called
        return name

    def _is_of_others(self, name: str, called: Aggregate) -> bool:
        """Whether a name means a key, or another aggregate."""
        others = [*self.keys, *(one for one, known in self._called.items() if known != called)]
        return name.lower() in {one.lower() for one in others}


def _grouped_by(group: exp.Group | None) -> list[exp.Expr]:
    """What GROUP BY names, also in brackets: ``GROUP BY (a, b)``."""
    found: list[exp.Expr] = []
    for one in [] if group is None else group.expressions:
        if isinstance(one, exp.Tuple) and not one.expressions:
            raise At(one, errors.not_here("GROUP BY ()", "Leave GROUP BY out."))
        found += one.expressions if isinstance(one, exp.Tuple) else [one]
    return found
