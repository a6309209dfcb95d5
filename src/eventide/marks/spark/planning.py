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
            return {number: offset for number, offset in sorted(found.items()) if not _spent(number, found, segments)}
        found |= dict.fromkeys(ready, 0)


def onward(position: Position, segments: Segments, lengths: Position, *, rows: int | None = None) -> dict[int, int]:
    """The position after reading on, at most ``rows`` rows in all; segments share them evenly.

    >>> onward({0: 5, 1: 0}, Segments.even(2), {0: 6, 1: 100}, rows=11)
    {0: 6, 1: 10}
    """
    found = released(position, segments, lengths)
    waiting = {number: lengths[number] - offset for number, offset in found.items()}
    if sum(waiting.values()) == 0:
        return dict(position)
    for place, (number, there) in enumerate(sorted(waiting.items(), key=lambda one: one[1])):
        taken = there if rows is None else min(there, -(-rows // (len(waiting) - place)))
        found[number] += taken
        rows = None if rows is None else rows - taken
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


def thinned(marks: list[Mark], most: int) -> list[Mark]:
    """So many marks at most, evenly chosen, the last among them: to leave some out only makes steps larger."""
    step = -(-len(marks) // most)
    return marks if step <= 1 else marks[::-1][::step][::-1]


def _spent(number: int, position: Position, segments: Segments) -> bool:
    """Whether all that follows a segment has been released."""
    after = segments.successors(number)
    past = segments.ancestors(position)
    return bool(after) and all(one in position or one in past for one in after)
