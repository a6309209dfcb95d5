"""The last chunk of sequences that are complete, so that what contradicts it later is still noticed.

Runs of sequences with the same number of chunks take one entry. Only the newest entries of an origin are remembered, so
that memory stays bounded where the number of chunks changes from sequence to sequence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from eventide.errors import watermarks as errors
from eventide.watermarks.intervals import NO_INTS, Ints, join_runs, order_by, run_of, running_max, same_as_before
from eventide.watermarks.runs import Chunks, take

REMEMBERED = 64
"""The entries of an origin: runs of complete sequences that have the same last chunk."""


@dataclass(frozen=True, slots=True)
class LastChunks:
    """Of sequences ``start`` to ``end`` of an origin, the last chunk is number ``last``."""

    origin: Ints
    start: Ints
    end: Ints
    last: Ints

    @classmethod
    def of(cls, complete: Chunks) -> LastChunks:
        """The last chunks of complete sequences."""
        return cls(complete.origin, complete.sequence, complete.sequence, complete.last)

    def joined(self, name: Callable[[int], str]) -> LastChunks:
        """Sorted, and as few as possible. Two different last chunks of one sequence are rejected.

        >>> one = np.array([0, 0])
        >>> LastChunks(one, np.array([1, 2]), np.array([1, 2]), np.array([3, 3])).joined(str)
        LastChunks(origin=array([0]), start=array([1]), end=array([2]), last=array([3]))
        """
        if not len(self.start):
            return self
        order, heads = join_runs((self.origin, self.last), self.start, self.end)
        runs = take(self, order)
        runs = LastChunks(runs.origin[heads], runs.start[heads], np.maximum.reduceat(runs.end, heads), runs.last[heads])
        runs = take(runs, order_by(runs.origin, runs.start))
        reach = running_max((runs.origin,), runs.end)
        overlap = same_as_before((runs.origin,))
        overlap[1:] &= runs.start[1:] <= reach[:-1]
        if np.any(overlap):
            at = int(np.argmax(overlap))  # nothing overlaps before it, so its neighbour has the sequence too
            lasts = sorted((int(runs.last[at - 1]), int(runs.last[at])))
            raise errors.last_chunk_twice(name(int(runs.origin[at])), int(runs.start[at]), *lasts)
        return runs

    def newest(self) -> LastChunks:
        """Only the newest entries of each origin."""
        if len(self.start) <= REMEMBERED:
            return self
        begins = np.flatnonzero(~same_as_before((self.origin,)))
        count = np.diff(np.append(begins, len(self.start)))
        from_end = np.repeat(begins + count, count) - np.arange(len(self.start))
        return take(self, np.flatnonzero(from_end <= REMEMBERED))

    def check(self, chunks: Chunks, name: Callable[[int], str]) -> None:
        """Reject chunks of a complete sequence that lie beyond its last one, or are another last one."""
        run = run_of(self.origin, self.start, self.end, chunks.origin, chunks.sequence)
        if not np.any(run >= 0):
            return
        last = self.last[run]
        twice = (run >= 0) & (chunks.last >= 0) & (chunks.last != last)
        bad = twice | ((run >= 0) & (chunks.end > last))
        if np.any(bad):
            at = int(np.argmax(bad))
            origin, sequence = name(int(chunks.origin[at])), int(chunks.sequence[at])
            if twice[at]:
                raise errors.last_chunk_twice(origin, sequence, *sorted((int(last[at]), int(chunks.last[at]))))
            raise errors.chunk_beyond_last(origin, sequence, int(chunks.end[at]), int(last[at]))


NO_LAST_CHUNKS = LastChunks(*[NO_INTS] * 4)
