"""The columns of joined rows: the key once, then the columns of the left row, then those of the right row.

An outer join emits unmatched rows with nulls. They have the key of the row that exists, so a key that is qualified by a
side is set only where that side has a row.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from eventide.panes import DIFF, PANE, RESERVED, WINDOW
from eventide.streamsql.create_stream import Time
from eventide.streamsql.errors import unsupported
from eventide.streamsql.expressions import column, reject_unsupported, text_of
from eventide.streamsql.join_conditions import LEFT, RIGHT, SUFFIX, JoinTables
from eventide.streamsql.select_clause import (
    WINDOW_COLUMNS,
    SelectItem,
    reject_duplicate,
    reject_reserved,
    result_name,
    select_items,
)
from eventide.streamsql.source_positions import LocatedError, MissingColumnsError

_PADDED = {"inner": (), "left": (RIGHT,), "right": (LEFT,), "full": (LEFT, RIGHT)}


@dataclass(frozen=True)
class JoinedColumns:
    """The columns of a join. ``times`` are the event times of both sides, which are never null."""

    sides: JoinTables
    windowed: bool
    times: tuple[Time, ...]
    how: str

    def columns(self, select: exp.Select) -> dict[str, exp.Expr] | None:
        """Return the columns of SELECT; None: all of them."""
        selected_items = select_items(select)
        if len(selected_items) == 1 and isinstance(selected_items[0].expression, exp.Star) and not self._splits_keys():
            return None
        chosen: dict[str, exp.Expr] = {}
        for item in selected_items:
            reject_unsupported(item.expression)
            for name, expression in self._expressions(item).items():
                reject_duplicate(name, chosen, item.expression)
                # A bound of a side that may have no row is null there.
                reject_reserved(name, expression, item.expression, (*PANE, DIFF))
                chosen[name] = expression
        return chosen

    def placed(self, node: exp.Expr) -> exp.Expr:
        """Return an expression over both sides as an expression over joined rows."""
        pair_expression: exp.Expr = node.transform(
            lambda part: self._column(part) if isinstance(part, exp.Column) else part
        )
        return pair_expression

    def _expressions(self, item: SelectItem) -> dict[str, exp.Expr]:
        if not item.star:
            placed = self.placed(item.expression)
            return {result_name(item.name or text_of(item.expression), placed): placed}
        if any(side.names.columns is None for side in self.sides.both):
            raise MissingColumnsError(item.expression, unsupported("* of columns that are not known", "Name them."))
        table = item.expression if isinstance(item.expression, exp.Column) and item.expression.table else None
        return self._every(item.expression) if table is None else self._of_side(table)

    def _column(self, node: exp.Column) -> exp.Expr:
        name = node.name.lower()
        if is_pane_column(node) and (self.windowed or name == DIFF):
            pane_column = column(name)
            return self._where_there(self.sides.qualified(node), pane_column, node) if node.table else pane_column
        if self.sides.is_unknown(node):
            return column(node.name)
        side, column_name = self.sides.find(node)
        return column(column_name) if self.sides.is_shared(node) else self._side_column(side, column_name, node)

    def _side_column(self, side: int, name: str, at: exp.Expr) -> exp.Expr:
        """Return a column of a side. It is null if the side has no row."""
        value = column(self.sides.output_name(side, name))
        return self._where_there(side, value, at) if self.sides.is_key(side, name) else value

    def _where_there(self, side: int, value: exp.Expr, at: exp.Expr) -> exp.Expr:
        """Return a value that is null where a side has no row."""
        if side not in _PADDED[self.how]:
            return value
        time = self.times[side]
        if not isinstance(time, str) or self.sides.is_key(side, time):
            called = self.sides.both[side].called
            raise LocatedError(
                at,
                f"This cannot be null for pairs without a row of {called!r}, because the event time of {called!r} "
                f"is not a separate column. Write it without {called}., or use the column of the other side.",
            )
        present = column(self.sides.output_name(side, time)).is_(exp.null()).not_()
        return exp.Case(ifs=[exp.If(this=present, true=value)])

    def _of_side(self, node: exp.Column) -> dict[str, exp.Expr]:
        """Return the columns of one side, for ``a.*``."""
        side = self.sides.qualified(node)
        names = self.sides.both[side].names.columns or ()
        return {self._label(side, name): self._side_column(side, name, node) for name in names}

    def _every(self, at: exp.Expr) -> dict[str, exp.Expr]:
        """Return all columns, for ``*``. Keys with the same name on both sides appear once."""
        columns: dict[str, exp.Expr] = {}
        for i, side in enumerate(self.sides.both):
            for name in side.names.columns or ():
                paired = self.sides.output_name(i, name)
                if self.sides.is_key(i, name) and self._splits_names(i, name):
                    columns[self._label(i, name)] = self._side_column(i, name, at)
                else:
                    columns[paired] = column(paired)
        return columns | ({name: column(name) for name in (*WINDOW, *PANE)} if self.windowed else {})

    def _label(self, side: int, name: str) -> str:
        """Return the label of a column: keys have the name of their side."""
        if not self.sides.is_key(side, name):
            return self.sides.output_name(side, name)
        taken = self.sides.left.names.columns or ()
        return f"{name}{SUFFIX}" if side == RIGHT and self._splits_names(side, name) and name in taken else name

    def _splits_keys(self) -> bool:
        """Whether ``*`` has the keys of both sides, because their names differ."""
        are_known = all(side.names.columns is not None for side in self.sides.both)
        return are_known and any(ours != theirs for ours, theirs in self.sides.equal)

    def _splits_names(self, side: int, name: str) -> bool:
        return any(name == pair[side] and pair[0] != pair[1] for pair in self.sides.equal)


def is_pane_column(node: exp.Column) -> bool:
    """Whether a column is one that every pane has."""
    return node.name.lower() in (WINDOW_COLUMNS if node.table else RESERVED)
