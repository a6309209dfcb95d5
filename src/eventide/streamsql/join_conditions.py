"""``ON``: which columns must be equal, how near in time rows must be, and what else must hold."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from eventide.errors import PlanError
from eventide.streamsql.compiled_query import StreamRows
from eventide.streamsql.create_stream import Time
from eventide.streamsql.errors import no_such_alias, no_such_column, no_windows_here
from eventide.streamsql.expressions import column
from eventide.streamsql.select_clause import WINDOW_COLUMNS, TableColumns, conjunction, conjuncts, reject_aggregates
from eventide.streamsql.source_positions import LocatedError, MissingColumnsError, locate
from eventide.streamsql.syntax import WindowTable, length
from eventide.time import duration

LEFT, RIGHT = 0, 1
SUFFIX = "_right"  # of a right column whose name is taken
_TURNED: dict[type[exp.Expr], type[exp.Expr]] = {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE}


@dataclass(frozen=True)
class JoinTable:
    """One of the two streams of a join."""

    node: exp.Expr
    rows: StreamRows
    names: TableColumns

    @property
    def windowed(self) -> bool:
        """Whether its rows have windows."""
        return isinstance(self.node.this, WindowTable)

    @property
    def called(self) -> str:
        """The alias, or the name of the stream."""
        return self.node.alias or self.rows.stream.name

    def narrowed(self, read: AbstractSet[str]) -> JoinTable:
        """Return the side with the columns that the join or the watermark reads."""
        columns = self.names.columns or ()
        if read >= set(columns):
            return self
        rows = self.rows.chosen({name: column(name) for name in columns if name in read}, self.node)
        return replace(self, rows=rows, names=replace(self.names, columns=rows.columns))


@dataclass(frozen=True)
class JoinConditions:
    """``lower`` and ``upper`` bound ``right.time - left.time`` in microseconds; ``times`` are the columns compared.

    ``bound`` is the first condition with a bound. ``windows`` are the bounds of windows that are the same on both.
    """

    equal: list[tuple[str, str]] = field(default_factory=list)
    lower: int | None = None
    upper: int | None = None
    times: tuple[str, str] | None = None
    windows: frozenset[str] = frozenset()
    further: tuple[exp.Expr, ...] = ()
    bound: exp.Expr | None = None


@dataclass(frozen=True)
class JoinTables:
    """Both streams, and the names of their columns in joined rows."""

    left: JoinTable
    right: JoinTable
    equal: tuple[tuple[str, str], ...] = ()

    @property
    def both(self) -> tuple[JoinTable, JoinTable]:
        """The left and the right stream."""
        return self.left, self.right

    def joined_on(self, equal: Any) -> JoinTables:
        """Return both sides with these key columns."""
        return replace(self, equal=tuple(equal))

    def filtered(self, where: Sequence[Sequence[exp.Expr]], at: exp.Expr | None) -> JoinTables:
        """Return both sides, filtered by conditions."""
        left, right = (
            replace(side, rows=side.rows.filtered(conjunction(parts), at))
            for side, parts in zip(self.both, where, strict=True)
        )
        return replace(self, left=left, right=right)

    def find(self, node: exp.Column) -> tuple[int, str]:
        """Return the side and the name of a column."""
        both = self.both
        if node.table:
            side = self.qualified(node)
            return side, both[side].names.name(exp.column(node.this.copy()))
        if any(table.names.columns is None for table in both):
            left, right = (table.called for table in both)
            raise MissingColumnsError(
                node,
                f"The columns of {left!r} and {right!r} are not known, so {node.name!r} is ambiguous. Write "
                f"{left}.{node.name}, or declare the columns: CREATE STREAM {left} ({node.name} INT, …).",
            )
        matches = [(i, name) for i, table in enumerate(both) if (name := table.names.find(node.name)) is not None]
        if not matches:
            candidates = [*(self.left.names.columns or ()), *(self.right.names.columns or ())]
            raise LocatedError(
                node, no_such_column(node.name, f"{self.left.called} or {self.right.called}", candidates)
            )
        if len(matches) == 2 and (matches[0][1], matches[1][1]) not in self.equal:
            raise LocatedError(node, _ambiguous_column(node.name, [table.called for table in both]))
        return matches[0]

    def qualified(self, node: exp.Column) -> int:
        """Return the side that qualifies a column."""
        both = self.both
        for i, side in enumerate(both):
            # An alias hides the name of the table, so that a stream can be joined with itself.
            if (node.table.lower() == side.called.lower()) or (
                side.names.has_table(node.table) and both[1 - i].called.lower() != node.table.lower()
            ):
                return i
        raise LocatedError(node, no_such_alias(node.table, [other.called for other in both]))

    def side_of(self, node: exp.Column) -> int | None:
        """Return the side of a column; None: not known before the rows."""
        return None if self.is_unknown(node) else self.find(node)[0]

    def is_unknown(self, node: exp.Column) -> bool:
        """Whether the side of a column is not known before the rows."""
        return not node.table and any(side.names.columns is None for side in self.both)

    def is_key(self, side: int, name: str) -> bool:
        """Whether a column of a side is part of the key."""
        return any(name == pair[side] for pair in self.equal)

    def is_shared(self, node: exp.Column) -> bool:
        """Whether an unqualified column is the key of both sides."""
        names = [side.names.find(node.name) for side in self.both]
        return not node.table and (names[LEFT], names[RIGHT]) in self.equal

    def output_name(self, side: int, name: str) -> str:
        """Return the name in joined rows: keys have the left name, right columns a suffix if the name is taken."""
        for ours, theirs in self.equal:
            if name == (ours, theirs)[side]:
                return ours
        if side == LEFT:
            return name
        taken = {*(self.left.names.columns or ()), *(ours for ours, _ in self.equal)}
        return f"{name}{SUFFIX}" if name in taken else name

    def columns(self) -> tuple[str, ...] | None:
        """Return the columns of joined rows; None: not known."""
        left, right = self.left.names.columns, self.right.names.columns
        if left is None or right is None:
            return None
        named = [self.output_name(LEFT, name) for name in left]
        return tuple(dict.fromkeys((*named, *(self.output_name(RIGHT, name) for name in right))))

    def times(self, on: JoinConditions, over: Any) -> tuple[Time, Time]:
        """Return the event time of each side: compared in ON, ordered by in OVER, or declared."""
        if on.times is not None:
            for side, time in zip(self.both, on.times, strict=True):
                side.rows.check_time(time, side.node)
            return on.times
        ordered = None if over is None else over.args.get("time")
        if ordered is None:
            return self.left.rows.only_time(self.left.node), self.right.rows.only_time(self.right.node)
        named = self.right.names.name(ordered)
        times = self.right.rows.stream.watermarks
        if times and named not in times:
            raise LocatedError(
                ordered,
                f"OVER (ORDER BY {named} …): the range is over the event time of the stream, which is another column.",
            )
        return self.left.rows.only_time(self.left.node), named


def join_conditions(join_: exp.Join, sides: JoinTables) -> JoinConditions:
    """Return the conditions of ON or USING."""
    using = join_.args.get("using")
    if using:
        windows = {node.name.lower() for node in using if sides.left.windowed and node.name.lower() in WINDOW_COLUMNS}
        columns = [exp.column(node.copy()) for node in using if node.name.lower() not in windows]
        pairs = [(sides.left.names.name(node), sides.right.names.name(node)) for node in columns]
        return JoinConditions(equal=pairs, windows=frozenset(windows))
    reader = _ConditionReader(sides)
    for node in conjuncts(join_.args.get("on")):
        reject_aggregates(node)
        reader.read(node)
    return reader.conditions()


@dataclass(frozen=True)
class _Bound:
    """A bound of ``right.time - left.time``. ``sure``: a length, or a declaration, shows that the columns are times."""

    node: exp.Expr
    times: tuple[str, str]
    lower: int | None
    upper: int | None
    sure: bool


@dataclass
class _ConditionReader:
    """Classifies the conditions of ON."""

    sides: JoinTables
    equal: list[tuple[str, str]] = field(default_factory=list)
    bounds: list[_Bound] = field(default_factory=list)
    windows: set[str] = field(default_factory=set)
    further: list[exp.Expr] = field(default_factory=list)

    def read(self, node: exp.Expr) -> None:
        if isinstance(node, exp.EQ) and self._equal(node):
            return
        if isinstance(node, exp.Between):
            low = self._bound(node.this, node.args["low"], exp.GTE, node)
            high = self._bound(node.this, node.args["high"], exp.LTE, node)
            if low is not None and high is not None:
                self.bounds += [low, high]
                return
        elif type(node) in _TURNED:
            bound = self._bound(node.this, node.expression, type(node), node)
            if bound is not None:
                self.bounds.append(bound)
                return
        self.further.append(node)

    def conditions(self) -> JoinConditions:
        """Return all conditions. The first pair of columns that are certainly times is the event time of both sides."""
        times = next((time_bound.times for time_bound in self.bounds if time_bound.sure), None)
        near = [time_bound for time_bound in self.bounds if time_bound.times == times]
        others = {id(time_bound.node): time_bound.node for time_bound in self.bounds if time_bound.times != times}
        lower = max((time_bound.lower for time_bound in near if time_bound.lower is not None), default=None)
        upper = min((time_bound.upper for time_bound in near if time_bound.upper is not None), default=None)
        further = (*self.further, *others.values())
        bound = near[0].node if near else None
        return JoinConditions(self.equal, lower, upper, times, frozenset(self.windows), further, bound)

    def _equal(self, node: exp.EQ) -> bool:
        left, right = node.this, node.expression
        if not isinstance(left, exp.Column) or not isinstance(right, exp.Column):
            return False
        if (
            left.name.lower() in WINDOW_COLUMNS
            and right.name.lower() == left.name.lower()
            and self._same_window(left, right)
        ):
            return True
        (side, name), (other_side, other_name) = self.sides.find(left), self.sides.find(right)
        if side == other_side:
            return False
        if self._declared((side, name)) and self._declared((other_side, other_name)):
            times = (name, other_name) if side == LEFT else (other_name, name)
            self.bounds.append(_Bound(node, times, 0, 0, sure=True))
            return True
        self.equal.append((name, other_name) if side == LEFT else (other_name, name))
        return True

    def _same_window(self, left: exp.Column, right: exp.Column) -> bool:
        """Whether a condition compares bounds of windows. Rows without windows may have columns of these names."""
        name, both = left.name.lower(), self.sides.both
        if not both[LEFT].windowed:
            if any(side.names.columns is not None and side.names.find(name) is None for side in both):
                raise LocatedError(left, no_windows_here(name))
            return False
        for node in (left, right):
            if not node.table:
                raise LocatedError(node, _ambiguous_column(name, [side.called for side in both]))
        if self.sides.qualified(left) != self.sides.qualified(right):
            self.windows.add(name)
        return True

    def _bound(self, left: exp.Expr, right: exp.Expr, kind: type[exp.Expr], node: exp.Expr) -> _Bound | None:
        """``one >= other`` as a bound of ``right.time - left.time``; nothing, if it compares no times of both sides."""
        left, right = _without_difference(left, right)
        ours, theirs = self._shifted(left), self._shifted(right)
        if ours is None or theirs is None or ours[0] == theirs[0] or not self._times(ours[:2], theirs[:2]):
            return None
        strict = 1 if kind in (exp.GT, exp.LT) else 0
        if ours[0] == LEFT:
            ours, theirs, kind = theirs, ours, _TURNED[kind]
        # right + a >= left + b, so right - left >= b - a
        distance = theirs[2] - ours[2]
        times = (theirs[1], ours[1])
        declared = self._declared(ours[:2]) and self._declared(theirs[:2])
        sure = declared or node.find(exp.Interval) is not None
        if kind in (exp.GT, exp.GTE):
            return _Bound(node, times, distance + strict, None, sure)
        return _Bound(node, times, None, distance - strict, sure)

    def _declared(self, column: tuple[int, str]) -> bool:
        side, name = column
        return name in self.sides.both[side].rows.stream.watermarks

    def _times(self, ours: tuple[int, str], theirs: tuple[int, str]) -> bool:
        """Whether both may be event times: their streams declare them, or declare none."""
        return all(
            self._declared((side, name)) or not self.sides.both[side].rows.stream.watermarks
            for side, name in (ours, theirs)
        )

    def _shifted(self, node: exp.Expr) -> tuple[int, str, int] | None:
        """Return the side, the name and the offset of a column plus or minus a length; None: another expression."""
        if isinstance(node, exp.Paren):
            return self._shifted(node.this)
        if isinstance(node, exp.Column):
            return (*self.sides.find(node), 0)
        if isinstance(node, exp.Add) and isinstance(node.this, exp.Interval):
            node = exp.Add(this=node.expression, expression=node.this)
        if isinstance(node, exp.Add | exp.Sub) and isinstance(node.expression, exp.Interval):
            inner = self._shifted(node.this)
            if inner is None:
                return None
            with locate(node.expression):
                shift = duration(length(node.expression), what="INTERVAL", zero=True, negative=True)
            return (inner[0], inner[1], inner[2] + (shift if isinstance(node, exp.Add) else -shift))
        return None


def _without_difference(left: exp.Expr, right: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
    """Return ``a - b < length`` as ``a < b + length``, also with sides swapped; other comparisons unchanged."""
    for this, that, turned in ((left, right, False), (right, left, True)):
        this = this.unnest()
        is_difference = isinstance(this, exp.Sub) and not isinstance(this.expression, exp.Interval)
        if is_difference and isinstance(that, exp.Interval):
            moved = exp.Add(this=this.expression, expression=that)
            return (moved, this.this) if turned else (this.this, moved)
    return left, right


def _ambiguous_column(name: str, tables: Sequence[str]) -> PlanError:
    """A column of both sides."""
    both = " and ".join(map(repr, tables))
    return PlanError(f"{name!r} is a column of {both}. Qualify it: {tables[0]}.{name}.")
