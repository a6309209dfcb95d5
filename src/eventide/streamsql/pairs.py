"""The columns of pairs: the key once, then those of the left row, then those of the right one.

An outer join tells rows that met none, beside nulls. Their pairs have the key of the row that is there; so a key that
the query asks of a side by name is one only where that side has a row.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from eventide.errors import sql as errors
from eventide.errors import sql_joins as join_errors
from eventide.panes import RESERVED
from eventide.streamsql.conditions import LEFT, RIGHT, Side, Sides
from eventide.streamsql.expressions import column, refuse_unsupported, text_of
from eventide.streamsql.places import At
from eventide.streamsql.projecting import DIFF, INSIDE, OF_PANES
from eventide.streamsql.selects import Item, items, refuse_reserved, refuse_taken
from eventide.streamsql.streams import Time

SUFFIX = "_right"
_PADDED = {"inner": (), "left": (RIGHT,), "right": (LEFT,), "full": (LEFT, RIGHT)}


@dataclass(frozen=True)
class Pairs:
    """What a query selects of pairs. ``times`` are the event times of both sides, which no row lacks."""

    sides: Sides
    windowed: bool
    times: tuple[Time, ...]
    how: str

    def columns(self, select: exp.Select) -> dict[str, exp.Expr] | None:
        """The columns of SELECT; None: all that pairs have."""
        found = items(select)
        if len(found) == 1 and isinstance(found[0].expression, exp.Star) and not self._splits_keys():
            return None
        chosen: dict[str, exp.Expr] = {}
        for item in found:
            refuse_unsupported(item.expression)
            for name, expression in self._made(item).items():
                refuse_taken(name, chosen, item.expression)
                refuse_reserved(name, expression, item.expression)
                chosen[name] = expression
        return chosen

    def placed(self, node: exp.Expr) -> exp.Expr:
        """An expression over the two sides as one over pairs."""
        made: exp.Expr = node.transform(lambda one: self._column(one) if isinstance(one, exp.Column) else one)
        return made

    def _made(self, item: Item) -> dict[str, exp.Expr]:
        if not item.star:
            return {item.name or text_of(item.expression): self.placed(item.expression)}
        if any(side.names.columns is None for side in self._sides):
            raise At(item.expression, errors.not_here("* of columns that are not known", "Name the columns."))
        table = item.expression if isinstance(item.expression, exp.Column) and item.expression.table else None
        return self._every(item.expression) if table is None else self._of_side(table)

    def _column(self, node: exp.Column) -> exp.Expr:
        name = node.name.lower()
        if is_of_panes(node) and (self.windowed or name == DIFF):
            made = column(OF_PANES.get(name) or (f"__{node.table.lower()}_{name}" if node.table else name))
            of_side = name in OF_PANES and bool(node.table)
            return self._where_there(self.sides.qualified(node), made, node) if of_side else made
        if self.sides.is_unknown(node):
            return column(node.name)
        side, own = self.sides.find(node)
        return column(own) if self.sides.is_shared(node) else self._own(side, own, node)

    def _own(self, side: int, name: str, at: exp.Expr) -> exp.Expr:
        """A column of one side's row, which is null where that side has none."""
        made = column(self.sides.output_name(side, name, SUFFIX))
        return self._where_there(side, made, at) if self.sides.is_key(side, name) else made

    def _where_there(self, side: int, value: exp.Expr, at: exp.Expr) -> exp.Expr:
        """A value that a pair always has, only where a side has a row."""
        if side not in _PADDED[self.how]:
            return value
        time = self.times[side]
        if not isinstance(time, str) or self.sides.is_key(side, time):
            raise At(at, join_errors.key_of_missing_row(self._sides[side].called))
        present = column(self.sides.output_name(side, time, SUFFIX)).is_(exp.null()).not_()
        return exp.Case(ifs=[exp.If(this=present, true=value)])

    def _of_side(self, node: exp.Column) -> dict[str, exp.Expr]:
        """``a.*``: the columns of one side."""
        side = self.sides.qualified(node)
        names = self._sides[side].names.columns or ()
        return {self._label(side, name): self._own(side, name, node) for name in names}

    def _every(self, at: exp.Expr) -> dict[str, exp.Expr]:
        """``*``: a key that both sides call alike stands once."""
        made: dict[str, exp.Expr] = {}
        for i, side in enumerate(self._sides):
            for name in side.names.columns or ():
                paired = self.sides.output_name(i, name, SUFFIX)
                if self.sides.is_key(i, name) and self._splits_names(i, name):
                    made[self._label(i, name)] = self._own(i, name, at)
                else:
                    made[paired] = column(paired)
        return made | ({name: column(name) for name in ("window", "pane")} if self.windowed else {})

    def _label(self, side: int, name: str) -> str:
        """What a column of one side is called: a key as its side calls it."""
        if not self.sides.is_key(side, name):
            return self.sides.output_name(side, name, SUFFIX)
        taken = self.sides.left.names.columns or ()
        return f"{name}{SUFFIX}" if side == RIGHT and self._splits_names(side, name) and name in taken else name

    def _splits_keys(self) -> bool:
        """Whether ``*`` has a key of each side, because they are called differently."""
        known = all(side.names.columns is not None for side in self._sides)
        return known and any(ours != theirs for ours, theirs in self.sides.equal)

    def _splits_names(self, side: int, name: str) -> bool:
        return any(name == pair[side] and pair[0] != pair[1] for pair in self.sides.equal)

    @property
    def _sides(self) -> tuple[Side, Side]:
        return self.sides.left, self.sides.right


def is_of_panes(node: exp.Column) -> bool:
    """Whether a column is one of every pane, and of neither side."""
    name, table = node.name.lower(), node.table.lower()
    return name in OF_PANES or (name in RESERVED if not table else f"__{table}_{name}" in INSIDE)
