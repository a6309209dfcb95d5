"""How far a batch reads: which segments are open to it, and how much of each it takes."""

from __future__ import annotations

from collections.abc import Iterable

from eventide.marks.mark import Mark
from eventide.marks.segments import Position, Segments


def released(position: Position, segments: Segments, lengths: Position) -> dict[int, int]:
    """A position with the successors of segments that have been read to their end.

    A successor comes only when all of its predecessors have; until then those that are done wait for the others.

    >>> segments = Segments.even(2).scaled([0, 1], [(0.0, 1.0)])
    >>> released({0: 5, 1: 3}, segments, {0: 5, 1: 4, 2: 9})
    {0: 5, 1: 3}
    >>> released({0: 5, 1: 4}, segments, {0: 5, 1: 4, 2: 9})
    {2: 0}
    """
    found = dict(position)
    while True:
        done = {number for number, offset in found.items() if segments[number].sealed and offset >= lengths[number]}
        past = done | segments.ancestors(found)
        following = {after for number in done for after in segments.successors(number)} - set(found) - past
        ready = [number for number in following if past.issuperset(segments[number].predecessors)]
        if not ready:
            return _without_spent(found, segments)
        found |= dict.fromkeys(ready, 0)


def onward(position: Position, segments: Segments, lengths: Position, *, rows: int | None = None) -> dict[int, int]:
    """The position after reading on, at most ``rows`` rows in all; segments share them evenly.

    >>> onward({0: 5, 1: 0}, Segments.even(2), {0: 6, 1: 100}, rows=11)
    {0: 6, 1: 10}
    """
    found = released(position, segments, lengths)
    waiting = {number: lengths[number] - offset for number, offset in found.items() if lengths[number] > offset}
    if not waiting:
        return dict(position)
    left = sum(waiting.values()) if rows is None else min(rows, sum(waiting.values()))
    # Who comes first changes with every batch: a small limit must not always go to the same segments.
    turn = sum(found.values()) % len(waiting)
    order = [*sorted(waiting)[turn:], *sorted(waiting)[:turn]]
    while left:
        share = max(1, left // len(order))
        for number in order:
            taken = min(share, left, waiting[number])
            found[number] += taken
            waiting[number] -= taken
            left -= taken
        order = [number for number in order if waiting[number]]
    return found


def parts(start: Position, end: Position) -> list[tuple[int, int, int]]:
    """What lies between two positions: segment, first offset, first offset beyond."""
    return [(number, start.get(number, 0), until) for number, until in end.items() if until > start.get(number, 0)]


def last_passed(marks: Iterable[Mark], position: Position, segments: Segments) -> int:
    """The number of the last mark whose cut a position has passed; 0 if there is none."""
    passed = 0
    for mark in marks:
        if not segments.is_at_most(mark.cut, position):
            break
        passed = mark.number
    return passed


def thinned(after: int, last: int, most: int) -> list[int]:
    """The numbers of marks up to ``last``, at most so many, evenly chosen: to leave some out only makes steps larger.

    >>> thinned(0, 10, 3), thinned(7, 10, 3)
    ([2, 6, 10], [8, 9, 10])
    """
    step = -(-(last - after) // most)
    return list(range(last, after, -step))[::-1]


def _without_spent(position: Position, segments: Segments) -> dict[int, int]:
    """Without the segments of which all that follows has been released."""
    known = segments.ancestors(position) | set(position)
    spent = {number for number in position if (after := segments.successors(number)) and known.issuperset(after)}
    return {number: offset for number, offset in sorted(position.items()) if number not in spent}
