"""How far each origin has come without a gap.

What an origin sends is numbered 1, 2, 3, …, and may arrive in any order and more than once. Its watermark
is that of its gap-free run from 1: with 1, 2, 3, 5, 6 seen it stands at 3. A sequence in chunks is complete
when all of its chunks up to the last one were seen. Two last chunks, or a chunk beyond the last one, are an error,
in whatever order and in however many bundles they arrive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from eventide.time import MIN
from eventide.watermarks.intervals import NO_INTS, Bools, Ints, contains, order_by, run_of, running_max, same_as_before
from eventide.watermarks.last_chunks import NO_LAST_CHUNKS, LastChunks
from eventide.watermarks.runs import NO_CHUNKS, NO_RUNS, Chunks, Runs, stack, take

FIRST = 1
"""The number of every origin's first sequence."""


class Gap(NamedTuple):
    """Sequences that are missing although later ones were seen, and since when that is known."""

    origin: int
    first: int
    last: int
    since: int


class Progress:
    """The runs of every origin. The result depends on what was seen, never on the order it was seen in.

    >>> progress = Progress()
    >>> progress.observe(runs_of(origin=0, sequences=[1, 2, 3, 5, 6], watermarks=[10, 20, 30, 50, 60]))
    >>> progress.reached(0), progress.gaps()
    ((3, 30), [Gap(origin=0, first=4, last=4, since=0)])
    >>> progress.observe(runs_of(origin=0, sequences=[4], watermarks=[40]))
    >>> progress.reached(0), progress.gaps()
    ((6, 60), [])
    """

    def __init__(self, *, first_chunk: int = 1, name: Callable[[int], str] = str) -> None:
        self._first_chunk = first_chunk
        self._name = name
        self.runs = NO_RUNS
        self.chunks = NO_CHUNKS
        self.lasts = NO_LAST_CHUNKS

    def copy(self, *, name: Callable[[int], str] | None = None) -> Progress:
        """An independent copy; the columns are shared, because they are replaced and never changed."""
        twin = Progress(first_chunk=self._first_chunk, name=name or self._name)
        twin.runs, twin.chunks, twin.lasts = self.runs, self.chunks, self.lasts
        return twin

    def observe(self, runs: Runs = NO_RUNS, chunks: Chunks = NO_CHUNKS, lasts: LastChunks = NO_LAST_CHUNKS) -> None:
        """Take in complete sequences, their last chunks, and chunks of others. What was seen before changes nothing."""
        if len(chunks.start):
            chunks = stack(self.chunks, chunks).joined(self._name)
            complete = take(chunks, chunks.complete(self._first_chunk))
            runs = stack(runs, complete.sequences())
            lasts = stack(lasts, LastChunks.of(complete))
        else:
            chunks = self.chunks
        if len(lasts.start):
            lasts = stack(self.lasts, lasts).joined(self._name)
            lasts.check(chunks, self._name)
            self.lasts = lasts.newest()
        else:
            self.lasts.check(chunks, self._name)
        if len(runs.start):
            self.runs = stack(self.runs, runs).joined()
        seen = contains(self.runs.origin, self.runs.start, self.runs.end, chunks.origin, chunks.sequence)
        if np.any(seen):
            # Chunks of a sequence that counts as seen (complete or skipped) can still raise its watermark.
            self.runs = stack(self.runs, take(chunks, seen).sequences()).joined()
            chunks = take(chunks, ~seen)
        self.chunks = chunks

    def has(self, origin: Ints, sequence: Ints, chunk: Ints | None = None) -> Bools:
        """Which of some sequences, or of their chunks, were seen.

        >>> progress = Progress()
        >>> progress.observe(runs_of(origin=0, sequences=[1, 2, 5], watermarks=[0, 0, 0]))
        >>> progress.has(np.zeros(3, np.int64), np.array([2, 3, 5])).tolist()
        [True, False, True]
        """
        runs, chunks = self.runs, self.chunks
        found = contains(runs.origin, runs.start, runs.end, origin, sequence)
        if chunk is None or not len(chunks.start):
            return found
        rest = np.flatnonzero(~found)
        of, number = np.append(chunks.origin, origin[rest]), np.append(chunks.sequence, sequence[rest])
        # One number for each pair, in their order: chunks are sorted by it.
        pair = np.unique(np.stack((of, number), axis=1), axis=0, return_inverse=True)[1].reshape(-1)
        known = len(chunks.start)
        found[rest] = contains(pair[:known], chunks.start, chunks.end, pair[known:], chunk[rest])
        return found

    def repeated_later(self, origin: Ints, sequence: Ints, watermark: Ints) -> Ints:
        """The origins that send a number again with a watermark beyond that of the run that the number is in.

        A retry has the time it had before. A later time shows that the numbering has started again.

        >>> progress = Progress()
        >>> progress.observe(runs_of(origin=0, sequences=[1, 2], watermarks=[10, 20]))
        >>> one = np.array([0])
        >>> progress.repeated_later(one, np.array([1]), np.array([20])).tolist()
        []
        >>> progress.repeated_later(one, np.array([1]), np.array([50])).tolist()
        [0]
        """
        run = run_of(self.runs.origin, self.runs.start, self.runs.end, origin, sequence)
        if not np.any(run >= 0):
            return NO_INTS
        return np.unique(origin[(run >= 0) & (watermark > self.runs.watermark[run])])

    def local(self) -> tuple[Ints, Ints]:
        """The origins that have a run from the first sequence on, and the watermark of each."""
        begun = self.runs.start == FIRST
        return self.runs.origin[begun], self.runs.watermark[begun]

    def ends(self) -> tuple[Ints, Ints]:
        """The origins that have a run from the first sequence on, and where each run ends."""
        begun = self.runs.start == FIRST
        return self.runs.origin[begun], self.runs.end[begun]

    def reached(self, origin: int) -> tuple[int, int]:
        """The last sequence of an origin's gap-free run, and its watermark; (0, MIN) before the first."""
        run = np.flatnonzero((self.runs.origin == origin) & (self.runs.start == FIRST))
        return (int(self.runs.end[run[0]]), int(self.runs.watermark[run[0]])) if len(run) else (FIRST - 1, MIN)

    def gaps(self) -> list[Gap]:
        """What is missing although later numbers were seen, in order."""
        gaps = self._gaps()
        columns = (gaps.origin, gaps.start, gaps.end, gaps.since)
        return [Gap(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]

    def skip(self, origin: int, *, up_to: int | None = None) -> bool:
        """Count all sequences up to a number as seen, by default the first gap. False: there was none."""
        if up_to is None:
            gaps = self._gaps()
            filled = take(gaps, np.flatnonzero(gaps.origin == origin)[:1])
        elif up_to <= self.reached(origin)[0]:
            filled = NO_RUNS
        else:
            filled = Runs(*(np.array([value]) for value in (origin, FIRST, up_to, MIN, 0)))
        self.observe(filled)
        return len(filled.start) > 0

    def lower_to(self, time: int) -> None:
        """Lower the watermarks of all sequences to ``time``, where they are higher. What was seen stays seen."""
        self.runs = replace(self.runs, watermark=np.minimum(self.runs.watermark, time))
        self.chunks = replace(self.chunks, watermark=np.minimum(self.chunks.watermark, time))

    def forget(self, origins: Ints) -> None:
        """Drop all that is known of some origins."""
        self.runs = take(self.runs, ~np.isin(self.runs.origin, origins))
        self.chunks = take(self.chunks, ~np.isin(self.chunks.origin, origins))
        self.lasts = take(self.lasts, ~np.isin(self.lasts.origin, origins))

    def give_up(self, before: int) -> None:
        """Skip every gap that has been open since ``before`` or longer."""
        gaps = self._gaps()
        self.observe(take(gaps, gaps.since <= before))

    def oldest_gap(self) -> int | None:
        """Since when the oldest gap is known; None: there is none.

        A gap is as old as the oldest sight of anything to its right, and the first gap of an origin has all of its
        runs and chunks to its right, but for the run that begins with the first number.

        >>> progress = Progress()
        >>> progress.observe(runs_of(origin=0, sequences=[1, 3, 5], watermarks=[0, 0, 0], since=7))
        >>> progress.oldest_gap()
        7
        """
        since = np.append(self.runs.since[self.runs.start != FIRST], self.chunks.since)
        return int(since.min()) if len(since) else None

    def _gaps(self) -> Runs:
        """The gaps as runs, so that filling them is observing them."""
        runs, chunks = self.runs, self.chunks
        if not len(chunks.start) and np.all(runs.start == FIRST):
            return NO_RUNS
        # An incomplete sequence is missing itself, and shows that all before it were sent.
        seen = stack(runs, chunks.sequences())
        order = order_by(seen.origin, seen.start)
        seen, is_run = take(seen, order), order < len(runs.start)
        at = np.arange(len(order))
        same = same_as_before((seen.origin,))
        ends = np.append(~same[1:], True)
        # A stretch is what lies between two runs: it begins an origin, or follows a run of that origin.
        begins = ~same | np.append(False, is_run[:-1])
        head = np.maximum.accumulate(np.where(begins, at, 0))
        before = np.where(same[head], seen.end[head - 1], FIRST - 1)
        closes = np.where(is_run, seen.start > before + 1, ends)
        # Whatever was seen beyond a gap shows it, so it is as old as the oldest sight of anything to its right.
        since = -running_max((-seen.origin[::-1],), -seen.since[::-1])[::-1]
        last = np.where(is_run, seen.start - 1, seen.end)
        nothing = np.full(len(at), MIN)
        return take(Runs(seen.origin, before + 1, last, nothing, since[head]), closes)


def runs_of(*, origin: int, sequences: list[int], watermarks: list[int], since: int = 0) -> Runs:
    """Complete sequences of one origin, as the tests and a standalone user write them.

    >>> runs_of(origin=0, sequences=[1, 2], watermarks=[10, 20]).joined().end.tolist()
    [2]
    """
    numbers = np.array(sequences, np.int64)
    of, at = np.full(len(numbers), origin), np.full(len(numbers), since)
    return Runs(of, numbers, numbers, np.array(watermarks, np.int64), at)
