"""The columns that a query reads of the two sides of a join. All others would be stored, and never asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from eventide.streamsql.conditions import LEFT, RIGHT, Sides
from eventide.streamsql.pairs import is_of_panes
from eventide.streamsql.projecting import DIFF
from eventide.streamsql.streams import Time


def narrowed(sides: Sides, select: exp.Select, times: tuple[Time, ...]) -> Sides:
    """Both sides with the columns that the query reads: keys, event times, and what SELECT, ON and WHERE name."""
    both = (sides.left, sides.right)
    named = list(_named(select))
    if any(side.names.columns is None for side in both) or any(isinstance(one, exp.Star) for one in named):
        return sides  # columns are not known yet, or a star has names that depend on all of them
    read: tuple[set[str], set[str]] = (set(), set())
    for side, time in enumerate(times):
        read[side].update(pair[side] for pair in sides.equal)
        read[side].update([time] if isinstance(time, str) else [])
    for node in named:
        if isinstance(node, exp.Column) and not _of_panes(node, sides):
            side, name = sides.find(node)
            read[side].add(name)
    return replace(sides, left=sides.left.narrowed(read[LEFT]), right=sides.right.narrowed(read[RIGHT]))


def _of_panes(node: exp.Column, sides: Sides) -> bool:
    return is_of_panes(node) and (sides.left.windowed or node.name.lower() == DIFF)


def _named(select: exp.Select) -> Iterator[exp.Column | exp.Star]:
    """The columns and stars of a SELECT over a join, and those of its conditions. What USING names is a key."""
    on = [join.args.get("on") for join in select.args["joins"]]
    for part in (*select.expressions, select.args.get("where"), *on):
        if part is not None:
            yield from part.find_all(exp.Column, exp.Star)
