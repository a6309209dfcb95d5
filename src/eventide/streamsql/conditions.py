"""``ON``: which columns must be equal, how near in time rows must be, and what else must hold."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from eventide.errors import sql as errors
from eventide.errors import sql_joins as join_errors
from eventide.streamsql.expressions import column
from eventide.streamsql.names import Names, conjuncts, together
from eventide.streamsql.nodes import WindowTable
from eventide.streamsql.places import At, said_at
from eventide.streamsql.projecting import OF_PANES
from eventide.streamsql.reading import length
from eventide.streamsql.rows import Rows
from eventide.streamsql.selects import refuse_aggregates
from eventide.streamsql.streams import Time
from eventide.time import duration

LEFT, RIGHT = 0, 1
_TURNED: dict[type[exp.Expr], type[exp.Expr]] = {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE}


@dataclass(frozen=True)
class Side:
    """One of the two streams of a join."""

    node: exp.Expr
    rows: Rows
    names: Names

    @property
    def windowed(self) -> bool:
        """Whether its rows have windows."""
        return isinstance(self.node.this, WindowTable)

    @property
    def called(self) -> str:
        """What the query calls it."""
        return self.node.alias or self.rows.stream.name

    def narrowed(self, read: AbstractSet[str]) -> Side:
        """With the columns that are read, and those that the watermark reads."""
        columns = self.names.columns or ()
        if read >= set(columns):
            return self
        rows = self.rows.chosen({name: column(name) for name in columns if name in read}, self.node)
        return replace(self, rows=rows, names=replace(self.names, columns=rows.columns))

    def time(self, at: exp.Expr) -> Time:
        """Its event time, where that is declared."""
        times = list(self.rows.stream.watermarks)
        if len(times) != 1:
            name = self.rows.stream.name
            raise At(at, join_errors.which_time(name, list(map(str, times))) if times else errors.no_time(name))
        return times[0]


@dataclass(frozen=True)
class Conditions:
    """``lower`` and ``upper`` bound ``right.time - left.time`` in microseconds; ``times`` are the columns compared.

    ``bound`` is the condition that says so first. ``windows`` are the bounds of windows that are the same on both.
    """

    equal: list[tuple[str, str]] = field(default_factory=list)
    lower: int | None = None
    upper: int | None = None
    times: tuple[str, str] | None = None
    windows: frozenset[str] = frozenset()
    further: tuple[exp.Expr, ...] = ()
    bound: exp.Expr | None = None


@dataclass(frozen=True)
class Sides:
    """Both streams, and how a column of the query becomes one of the pairs."""

    left: Side
    right: Side
    equal: tuple[tuple[str, str], ...] = ()

    def joined_on(self, equal: Any) -> Sides:
        """With the columns that are the key."""
        return replace(self, equal=tuple(equal))

    def filtered(self, where: Sequence[Sequence[exp.Expr]], at: exp.Expr | None) -> Sides:
        """With the rows of each side for which its conditions hold."""
        left, right = (
            replace(side, rows=side.rows.filtered(together(conditions), at))
            for side, conditions in zip((self.left, self.right), where, strict=True)
        )
        return replace(self, left=left, right=right)

    def find(self, node: exp.Column) -> tuple[int, str]:
        """The side and the name of a column."""
        both = (self.left, self.right)
        if node.table:
            side = self.qualified(node)
            return side, both[side].names.name(exp.column(node.this.copy()))
        if any(one.names.columns is None for one in both):
            raise At(node, join_errors.whose_column(node.name, [one.called for one in both]))
        found = [(i, name) for i, one in enumerate(both) if (name := one.names.find(node.name)) is not None]
        if not found:
            known = [*(self.left.names.columns or ()), *(self.right.names.columns or ())]
            raise At(node, errors.no_such_column(node.name, f"{self.left.called} or {self.right.called}", known))
        if len(found) == 2 and (found[0][1], found[1][1]) not in self.equal:
            raise At(node, join_errors.ambiguous_column(node.name, [one.called for one in both]))
        return found[0]

    def qualified(self, node: exp.Column) -> int:
        """The side that stands before a column's name."""
        both = (self.left, self.right)
        for i, side in enumerate(both):
            # An alias hides the name of the table, so that a stream can be joined with itself.
            if (node.table.lower() == side.called.lower()) or (
                side.names.knows_table(node.table) and both[1 - i].called.lower() != node.table.lower()
            ):
                return i
        raise At(node, errors.no_such_alias(node.table, [one.called for one in both]))

    def side_of(self, node: exp.Column) -> int | None:
        """Whose column it is; None, while nobody can know: the rows are not there yet, and the plan does without it."""
        return None if self.is_unknown(node) else self.find(node)[0]

    def is_unknown(self, node: exp.Column) -> bool:
        """Whether nobody can know yet whose column it is."""
        return not node.table and any(one.names.columns is None for one in (self.left, self.right))

    def is_key(self, side: int, name: str) -> bool:
        """Whether a column of a side is part of the key."""
        return any(name == pair[side] for pair in self.equal)

    def is_shared(self, node: exp.Column) -> bool:
        """Whether a column is the key of both, because both call it so and the query does not say whose it means."""
        found = [one.names.find(node.name) for one in (self.left, self.right)]
        return not node.table and (found[LEFT], found[RIGHT]) in self.equal

    def output_name(self, side: int, name: str, suffix: str) -> str:
        """The key stands once, under the left name; what both sides have gets a suffix on the right."""
        for ours, theirs in self.equal:
            if name == (ours, theirs)[side]:
                return ours
        if side == LEFT:
            return name
        taken = {*(self.left.names.columns or ()), *(ours for ours, _ in self.equal)}
        return f"{name}{suffix}" if name in taken else name

    def columns(self, suffix: str) -> tuple[str, ...] | None:
        """The columns of pairs, where those of both sides are known."""
        left, right = self.left.names.columns, self.right.names.columns
        if left is None or right is None:
            return None
        named = [self.output_name(LEFT, one, suffix) for one in left]
        return tuple(dict.fromkeys((*named, *(self.output_name(RIGHT, one, suffix) for one in right))))

    def times(self, met: Conditions, over: Any) -> tuple[Time, Time]:
        """The event time of each side: what ON compares, what OVER orders by, or what was declared."""
        if met.times is not None:
            for side, time in zip((self.left, self.right), met.times, strict=True):
                known = side.rows.stream.watermarks
                if known and time not in known:
                    raise At(side.node, errors.other_time(time, side.rows.stream.name, list(map(str, known))))
            return met.times
        ordered = None if over is None else over.args.get("time")
        if ordered is None:
            return self.left.time(self.left.node), self.right.time(self.right.node)
        named = self.right.names.name(ordered)
        known = self.right.rows.stream.watermarks
        if known and named not in known:
            raise At(ordered, join_errors.key_of_preceding(named))
        return self.left.time(self.left.node), named


def conditions(join_: exp.Join, sides: Sides) -> Conditions:
    """What ON, or USING, asks for."""
    using = join_.args.get("using")
    if using:
        windows = {one.name.lower() for one in using if sides.left.windowed and one.name.lower() in OF_PANES}
        columns = [exp.column(one.copy()) for one in using if one.name.lower() not in windows]
        pairs = [(sides.left.names.name(one), sides.right.names.name(one)) for one in columns]
        return Conditions(equal=pairs, windows=frozenset(windows))
    reader = _Reader(sides)
    for one in conjuncts(join_.args.get("on")):
        refuse_aggregates(one)
        reader.read(one)
    return reader.met()


@dataclass(frozen=True)
class _Bound:
    """A bound of ``right.time - left.time``. ``sure``: a length, or a declaration, shows that the columns are times."""

    node: exp.Expr
    times: tuple[str, str]
    lower: int | None
    upper: int | None
    sure: bool


@dataclass
class _Reader:
    """Sorts the conditions of ON, one after the other."""

    sides: Sides
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

    def met(self) -> Conditions:
        """All of it. The first pair of columns that surely are times is the time of both; others are only compared."""
        times = next((one.times for one in self.bounds if one.sure), None)
        near = [one for one in self.bounds if one.times == times]
        others = {id(one.node): one.node for one in self.bounds if one.times != times}
        lower = max((one.lower for one in near if one.lower is not None), default=None)
        upper = min((one.upper for one in near if one.upper is not None), default=None)
        further = (*self.further, *others.values())
        bound = near[0].node if near else None
        return Conditions(self.equal, lower, upper, times, frozenset(self.windows), further, bound)

    def _equal(self, node: exp.EQ) -> bool:
        one, other = node.this, node.expression
        if not isinstance(one, exp.Column) or not isinstance(other, exp.Column):
            return False
        if one.name.lower() in OF_PANES and other.name.lower() == one.name.lower() and self._same_window(one, other):
            return True
        (side, name), (other_side, other_name) = self.sides.find(one), self.sides.find(other)
        if side == other_side:
            return False
        if self._declared((side, name)) and self._declared((other_side, other_name)):
            times = (name, other_name) if side == LEFT else (other_name, name)
            self.bounds.append(_Bound(node, times, 0, 0, sure=True))
            return True
        self.equal.append((name, other_name) if side == LEFT else (other_name, name))
        return True

    def _same_window(self, one: exp.Column, other: exp.Column) -> bool:
        """Whether bounds of windows are equal on both sides. Rows without windows may have a column of that name."""
        name, both = one.name.lower(), (self.sides.left, self.sides.right)
        if not both[LEFT].windowed:
            if any(side.names.columns is not None and side.names.find(name) is None for side in both):
                raise At(one, errors.no_windows_here(name))
            return False
        for node in (one, other):
            if not node.table:
                raise At(node, join_errors.ambiguous_column(name, [side.called for side in both]))
        if self.sides.qualified(one) != self.sides.qualified(other):
            self.windows.add(name)
        return True

    def _bound(self, one: exp.Expr, other: exp.Expr, kind: type[exp.Expr], node: exp.Expr) -> _Bound | None:
        """``one >= other`` as a bound of ``right.time - left.time``; nothing, if it compares no times of both sides."""
        one, other = _without_difference(one, other)
        ours, theirs = self._shifted(one), self._shifted(other)
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
        return name in (self.sides.left, self.sides.right)[side].rows.stream.watermarks

    def _times(self, ours: tuple[int, str], theirs: tuple[int, str]) -> bool:
        """Whether both may be event times: their streams declare them, or declare none."""
        both = (self.sides.left, self.sides.right)
        return all(
            self._declared((side, name)) or not both[side].rows.stream.watermarks for side, name in (ours, theirs)
        )

    def _shifted(self, node: exp.Expr) -> tuple[int, str, int] | None:
        """A column, or one plus or minus a length: its side, its name and the length."""
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
            with said_at(node.expression):
                shift = duration(length(node.expression), what="INTERVAL", zero=True, negative=True)
            return (inner[0], inner[1], inner[2] + (shift if isinstance(node, exp.Add) else -shift))
        return None


def _without_difference(one: exp.Expr, other: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
    """``a - b < length`` as ``a < b + length``, and the other way round; all else as it is."""
    for this, that, turned in ((one, other, False), (other, one, True)):
        this = this.unnest()
        is_difference = isinstance(this, exp.Sub) and not isinstance(this.expression, exp.Interval)
        if is_difference and isinstance(that, exp.Interval):
            moved = exp.Add(this=this.expression, expression=that)
            return (moved, this.this) if turned else (this.this, moved)
    return one, other
