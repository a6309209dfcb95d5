"""The columns that a query reads of the two sides of a join. All others would be stored, and never asked for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from eventide.streamsql.conditions import LEFT, RIGHT, Side, Sides
from eventide.streamsql.pairs import SUFFIX, is_of_panes
from eventide.streamsql.projecting import DIFF
from eventide.streamsql.rows import Rows
from eventide.streamsql.streams import Time


@dataclass(frozen=True)
class ReadColumns:
    """The columns of both sides that a join reads: keys, event times, and what some expressions name.

    With a star it reads all of them, until a query of the join says which of them it reads.
    """

    sides: Sides
    named: tuple[frozenset[str], frozenset[str]]
    star: bool

    def narrowed(self) -> Sides:
        """Both sides with the columns that are read. A star has names that depend on all columns."""
        left, right = self._both
        if self.star or left.names.columns is None or right.names.columns is None:
            return self.sides
        return replace(self.sides, left=left.narrowed(self.named[LEFT]), right=right.narrowed(self.named[RIGHT]))

    def inputs(self, pairs: Collection[str] | None = None) -> Mapping[str, Rows]:
        """The rows of both sides; where only some columns of pairs are read, with the columns that these need."""
        both = self._both
        if pairs is None or not self.star or any(side.names.columns is None for side in both):
            return {"left": both[LEFT].rows, "right": both[RIGHT].rows}
        found = []
        for i, side in enumerate(both):
            # The suffix of a column depends on whether the other side has one of its name, so such a pair stays.
            shared = set(both[1 - i].names.columns or ())
            asked = {name for name in side.names.columns or () if self.sides.output_name(i, name, SUFFIX) in pairs} | (
                set(side.names.columns or ()) & shared
            )
            found.append(side.narrowed(asked | self.named[i]).rows)
        return {"left": found[LEFT], "right": found[RIGHT]}

    @property
    def _both(self) -> tuple[Side, Side]:
        return self.sides.left, self.sides.right


def read_columns(
    sides: Sides, times: tuple[Time, ...], selected: Iterable[exp.Expr], conditions: Iterable[exp.Expr]
) -> ReadColumns:
    """What a join reads for the columns that are selected, and for the conditions of ON and behind it."""
    read: tuple[set[str], set[str]] = (set(), set())
    for side, time in enumerate(times):
        read[side].update(pair[side] for pair in sides.equal)
        read[side].update([time] if isinstance(time, str) else [])
    nodes = [node for part in (*selected, *conditions) for node in part.find_all(exp.Column, exp.Star)]
    for node in nodes:
        if isinstance(node, exp.Column) and _is_of_side(node, sides):
            side, name = sides.find(node)
            read[side].add(name)
    star = any(isinstance(node, exp.Star) for node in nodes)
    return ReadColumns(sides, (frozenset(read[LEFT]), frozenset(read[RIGHT])), star)


def _is_of_side(node: exp.Column, sides: Sides) -> bool:
    of_panes = is_of_panes(node) and (sides.left.windowed or node.name.lower() == DIFF)
    return not of_panes and not isinstance(node.this, exp.Star) and not sides.is_unknown(node)
