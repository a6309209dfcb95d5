"""Segments: the pieces of a stream, each with a range of the key space, and how they follow one another.

The key space is ``[0, 1)``. At any time the open segments cover it without overlap. Scaling seals some of them and
opens successors over the same range; a successor's events come after all events of its predecessors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from eventide.errors import marks as errors

Position: TypeAlias = Mapping[int, int]
"""How far someone has come: for each segment (by number) the offset of the first event beyond.

A *cut* is a position that is complete: its segments cover the key space without overlap. Everything before them, in
their predecessors, is before the cut.
"""

Ranges: TypeAlias = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment. ``low <= key < high``; ``epoch`` counts the times that the stream had been scaled."""

    number: int
    low: float
    high: float
    epoch: int = 0
    predecessors: tuple[int, ...] = ()
    sealed: bool = False
    """Nothing can be appended any more: it has successors, or the stream has ended."""


@dataclass(frozen=True)
class Segments:
    """All segments that a stream ever had, in the order of their numbers.

    >>> segments = Segments.even(2)
    >>> segments = segments.scaled([1], [(0.5, 0.75), (0.75, 1.0)])
    >>> [(one.number, one.low, one.high) for one in segments.open]
    [(0, 0.0, 0.5), (2, 0.5, 0.75), (3, 0.75, 1.0)]
    >>> segments.least_cut({2: 7})
    {0: 0, 2: 7, 3: 0}
    """

    all: tuple[Segment, ...]

    @classmethod
    def even(cls, count: int) -> Segments:
        """The first segments of a stream: ``count`` of them, equally large."""
        bounds = [number / count for number in range(count)] + [1.0]
        return cls(tuple(Segment(number, bounds[number], bounds[number + 1]) for number in range(count)))

    def __getitem__(self, number: int) -> Segment:
        return self._by_number[number]

    def __contains__(self, number: object) -> bool:
        return number in self._by_number

    @cached_property
    def epoch(self) -> int:
        """How often the stream was scaled."""
        return max(one.epoch for one in self.all)

    @cached_property
    def open(self) -> tuple[Segment, ...]:
        """The segments without successors, in the order of their ranges (sealed, if the stream has ended)."""
        return tuple(sorted((one for one in self.all if not self.successors(one.number)), key=lambda one: one.low))

    @cached_property
    def first(self) -> dict[int, int]:
        """The cut before all events."""
        return {one.number: 0 for one in self.all if not one.predecessors}

    def successors(self, number: int) -> tuple[int, ...]:
        """The segments that directly follow one."""
        return self._successors.get(number, ())

    def ancestors(self, numbers: Iterable[int]) -> set[int]:
        """All segments before some segments: their predecessors, and those of these."""
        found: set[int] = set()
        ahead = list(numbers)
        while ahead:
            for before in self._by_number[ahead.pop()].predecessors:
                if before not in found:
                    found.add(before)
                    ahead.append(before)
        return found

    def least_cut(self, position: Position) -> dict[int, int]:
        """The first cut that is not before any part of a position.

        A position need not be complete: its holes are filled with segments that have not begun. Nor need it be free
        of overlap: what comes after includes what was before.
        """
        passed = self.ancestors(position)
        cut = set(self.first)
        while True:
            passed |= self.ancestors(cut)
            done = cut & passed
            if not done:
                return {number: int(position.get(number, 0)) for number in sorted(cut)}
            cut = (cut - done) | {after for number in done for after in self.successors(number)}

    def is_at_most(self, cut: Position, other: Position) -> bool:
        """Whether all that is before ``cut`` is before ``other``, too. Exactly at it counts.

        >>> segments = Segments.even(1).scaled([0], [(0.0, 0.5), (0.5, 1.0)])
        >>> segments.is_at_most({0: 9}, {1: 0, 2: 0}), segments.is_at_most({1: 0, 2: 0}, {0: 9})
        (True, False)
        """
        passed = self.ancestors(other)
        return all(number in passed or other.get(number, -1) >= offset for number, offset in cut.items())

    def is_cut(self, position: Position) -> bool:
        """Whether a position covers the key space without overlap."""
        known = all(number in self._by_number for number in position)
        return known and dict(position) == self.least_cut(position)

    def must_be_read(self, cut: Position, lengths: Position) -> dict[int, int]:
        """How far each segment must have been read for a cut to be passed; ``lengths`` are those of sealed ones."""
        return {number: lengths[number] for number in sorted(self.ancestors(cut))} | dict(cut)

    def route(self, points: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """The segment (by number) that takes each point of the key space now.

        >>> Segments.even(4).route(np.array([0.0, 0.3, 0.99])).tolist()
        [0, 1, 3]
        """
        lows = np.array([one.low for one in self.open])
        numbers = np.array([one.number for one in self.open])
        found: npt.NDArray[np.int64] = numbers[np.searchsorted(lows, points, side="right") - 1]
        return found

    def scaled(self, seal: Sequence[int], ranges: Ranges) -> Segments:
        """With some open segments sealed, and new ones over exactly the same keys."""
        for number in seal:
            if number not in self._by_number:
                raise errors.unknown_segment(number, [one.number for one in self.open])
            if self[number].sealed or self.successors(number):
                raise errors.segment_is_sealed(number, [one.number for one in self.open])
        olds = [self[number] for number in dict.fromkeys(seal)]
        news = sorted((float(low), float(high)) for low, high in ranges)
        if not olds or _joined([(one.low, one.high) for one in olds]) != _joined(news):
            raise errors.ranges_differ([(one.low, one.high) for one in olds], news)
        epoch, number = self.epoch + 1, len(self.all)
        created = [
            Segment(
                number + place,
                low,
                high,
                epoch,
                tuple(sorted(one.number for one in olds if one.low < high and low < one.high)),
            )
            for place, (low, high) in enumerate(news)
        ]
        kept = [_sealed(one) if one in olds else one for one in self.all]
        return Segments((*kept, *created))

    def ended(self) -> Segments:
        """With every segment sealed."""
        return Segments(tuple(_sealed(one) for one in self.all))

    @property
    def has_ended(self) -> bool:
        """Whether nothing more can be appended anywhere."""
        return all(one.sealed for one in self.all)

    @cached_property
    def _by_number(self) -> dict[int, Segment]:
        return {one.number: one for one in self.all}

    @cached_property
    def _successors(self) -> dict[int, tuple[int, ...]]:
        found: dict[int, tuple[int, ...]] = {}
        for one in self.all:
            for before in one.predecessors:
                found[before] = (*found.get(before, ()), one.number)
        return found


def _sealed(one: Segment) -> Segment:
    return Segment(one.number, one.low, one.high, one.epoch, one.predecessors, sealed=True)


def _joined(ranges: Iterable[tuple[float, float]]) -> list[list[float]]:
    """Ranges that touch as one; refused if some overlap or are no ranges."""
    found: list[list[float]] = []
    for low, high in sorted(ranges):
        if not 0.0 <= low < high <= 1.0:
            raise errors.not_a_range(low, high)
        if found and low < found[-1][1]:
            raise errors.ranges_overlap((low, high))
        if found and low == found[-1][1]:
            found[-1][1] = high
        else:
            found.append([low, high])
    return found


def as_json(segments: Segments) -> list[dict[str, Any]]:
    """Segments as plain data."""
    return [
        {
            "number": one.number,
            "low": one.low,
            "high": one.high,
            "epoch": one.epoch,
            "predecessors": list(one.predecessors),
            "sealed": one.sealed,
        }
        for one in segments.all
    ]


def from_json(data: Iterable[Mapping[str, Any]]) -> Segments:
    """The segments that ``as_json`` wrote."""
    return Segments(tuple(Segment(**{**one, "predecessors": tuple(one["predecessors"])}) for one in data))
