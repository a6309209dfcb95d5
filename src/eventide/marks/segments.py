"""Segments of a stream: their key ranges, their lineage, and positions in them.

The key space is ``[0, 1)``. The open segments always cover it without overlap. Scaling seals some segments and
opens successors over the same range; events of a successor follow all events of its predecessors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from eventide.errors import PlanError
from eventide.marks.errors import not_a_cut, position_beyond, unknown_segment

Position: TypeAlias = Mapping[int, int]
"""The offset of the next event, by segment number.

A *cut* is a complete position: its segments cover the key space without overlap. Everything in their predecessors is
before the cut.
"""

Ranges: TypeAlias = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment with the keys ``low <= key < high``. ``epoch`` counts the scale events before it."""

    number: int
    low: float
    high: float
    epoch: int = 0
    predecessors: tuple[int, ...] = ()
    sealed: bool = False
    """Whether it accepts no more events: it has successors, or the stream has ended."""


@dataclass(frozen=True)
class Segments:
    """All segments of a stream, open and sealed, by number.

    >>> segments = Segments.even(2)
    >>> segments = segments.scaled([1], [(0.5, 0.75), (0.75, 1.0)])
    >>> [(segment.number, segment.low, segment.high) for segment in segments.open]
    [(0, 0.0, 0.5), (2, 0.5, 0.75), (3, 0.75, 1.0)]
    >>> segments.least_cut({2: 7})
    {0: 0, 2: 7, 3: 0}
    """

    all: tuple[Segment, ...]

    @classmethod
    def even(cls, count: int) -> Segments:
        """The initial segments of a stream: ``count`` ranges of equal size."""
        bounds = [number / count for number in range(count)] + [1.0]
        return cls(tuple(Segment(number, bounds[number], bounds[number + 1]) for number in range(count)))

    def __getitem__(self, number: int) -> Segment:
        return self._by_number[number]

    def __contains__(self, number: object) -> bool:
        return number in self._by_number

    @cached_property
    def epoch(self) -> int:
        """The number of scale events."""
        return max(segment.epoch for segment in self.all)

    @cached_property
    def open(self) -> tuple[Segment, ...]:
        """The segments without successors, by range. They are sealed if the stream has ended."""
        return tuple(
            sorted((segment for segment in self.all if not self.successors(segment.number)), key=lambda s: s.low)
        )

    @property
    def open_numbers(self) -> list[int]:
        """The numbers of the open segments."""
        return [segment.number for segment in self.open]

    @cached_property
    def first(self) -> dict[int, int]:
        """The cut before all events."""
        return {segment.number: 0 for segment in self.all if not segment.predecessors}

    def successors(self, number: int) -> tuple[int, ...]:
        """The segments that directly follow a segment."""
        return self._successors.get(number, ())

    def ancestors(self, numbers: Iterable[int]) -> set[int]:
        """All direct and indirect predecessors of some segments."""
        ancestors: set[int] = set()
        pending = list(numbers)
        while pending:
            for predecessor in self._by_number[pending.pop()].predecessors:
                if predecessor not in ancestors:
                    ancestors.add(predecessor)
                    pending.append(predecessor)
        return ancestors

    def least_cut(self, position: Position) -> dict[int, int]:
        """The first cut that is not before any part of a position.

        The position may have holes, which are filled with segments at offset 0. It may also overlap: a successor
        includes its predecessors.
        """
        passed = self.ancestors(position)
        cut = set(self.first)
        while True:
            passed |= self.ancestors(cut)
            done = cut & passed
            if not done:
                return {number: int(position.get(number, 0)) for number in sorted(cut)}
            cut = (cut - done) | {successor for number in done for successor in self.successors(number)}

    def is_at_most(self, cut: Position, other: Position) -> bool:
        """Whether everything before ``cut`` is also before ``other``. Equal cuts count.

        >>> segments = Segments.even(1).scaled([0], [(0.0, 0.5), (0.5, 1.0)])
        >>> segments.is_at_most({0: 9}, {1: 0, 2: 0}), segments.is_at_most({1: 0, 2: 0}, {0: 9})
        (True, False)
        """
        passed = self.ancestors(other)
        return all(number in passed or other.get(number, -1) >= offset for number, offset in cut.items())

    def is_cut(self, position: Position) -> bool:
        """Whether a position covers the key space without overlap."""
        return all(number in self for number in position) and dict(position) == self.least_cut(position)

    def check_cut(self, stream: str, cut: Position, lengths: Position) -> None:
        """Reject a position that is not a cut, or is beyond the end of the stream."""
        if not self.is_cut(cut):
            raise not_a_cut(stream, cut)
        for number, offset in cut.items():
            if not 0 <= offset <= lengths[number]:
                raise position_beyond(stream, number, offset, lengths[number])

    def must_be_read(self, cut: Position, lengths: Position) -> dict[int, int]:
        """How far each segment must be read before a cut is passed. ``lengths`` has the sealed segments."""
        return {number: lengths[number] for number in sorted(self.ancestors(cut))} | dict(cut)

    def route(self, points: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """The number of the open segment for each point of the key space.

        >>> Segments.even(4).route(np.array([0.0, 0.3, 0.99])).tolist()
        [0, 1, 3]
        """
        lows = np.array([segment.low for segment in self.open])
        numbers: npt.NDArray[np.int64] = np.array(self.open_numbers)
        return numbers[np.searchsorted(lows, points, side="right") - 1]

    def scaled(self, seal: Sequence[int], ranges: Ranges) -> Segments:
        """Segments with some open ones sealed, and new ones over exactly the same keys."""
        for number in seal:
            if number not in self:
                raise unknown_segment(number, self.open_numbers)
            if self[number].sealed or self.successors(number):
                raise PlanError(
                    f"Segment {number} is sealed already. Open are: {', '.join(map(str, self.open_numbers))}."
                )
        sealed = [self[number] for number in dict.fromkeys(seal)]
        new_ranges = sorted((float(low), float(high)) for low, high in ranges)
        old_ranges = [(segment.low, segment.high) for segment in sealed]
        if not sealed or _merge_ranges(old_ranges) != _merge_ranges(new_ranges):
            raise PlanError(
                f"The new ranges {new_ranges} must cover the same keys as the segments to seal: {old_ranges}."
            )
        created = [
            Segment(
                number,
                low,
                high,
                self.epoch + 1,
                tuple(sorted(old.number for old in sealed if old.low < high and low < old.high)),
            )
            for number, (low, high) in enumerate(new_ranges, len(self.all))
        ]
        retained = [replace(segment, sealed=segment.sealed or segment in sealed) for segment in self.all]
        return Segments((*retained, *created))

    def ended(self) -> Segments:
        """Segments that are all sealed."""
        return Segments(tuple(replace(segment, sealed=True) for segment in self.all))

    @property
    def has_ended(self) -> bool:
        """Whether all segments are sealed."""
        return all(segment.sealed for segment in self.all)

    @cached_property
    def _by_number(self) -> dict[int, Segment]:
        return {segment.number: segment for segment in self.all}

    @cached_property
    def _successors(self) -> dict[int, tuple[int, ...]]:
        successors: dict[int, tuple[int, ...]] = {}
        for segment in self.all:
            for predecessor in segment.predecessors:
                successors[predecessor] = (*successors.get(predecessor, ()), segment.number)
        return successors


def segments_to_json(segments: Segments) -> list[dict[str, Any]]:
    """Segments as JSON values."""
    return [asdict(segment) for segment in segments.all]


def segments_from_json(data: Iterable[Mapping[str, Any]]) -> Segments:
    """The segments of ``segments_to_json``."""
    return Segments(tuple(Segment(**{**values, "predecessors": tuple(values["predecessors"])}) for values in data))


def _merge_ranges(ranges: Iterable[tuple[float, float]]) -> list[list[float]]:
    """Merge adjacent ranges; reject invalid and overlapping ones."""
    merged: list[list[float]] = []
    for low, high in sorted(ranges):
        if not 0.0 <= low < high <= 1.0:
            raise PlanError(f"({low}, {high}) is not a range of keys. It must hold that 0 <= low < high <= 1.")
        if merged and low < merged[-1][1]:
            raise PlanError(f"The range {(low, high)} overlaps another one. Each key belongs to one segment only.")
        if merged and low == merged[-1][1]:
            merged[-1][1] = high
        else:
            merged.append([low, high])
    return merged
