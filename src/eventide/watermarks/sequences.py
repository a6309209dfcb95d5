"""How far each origin has sent its sequences without a gap.

An origin numbers what it sends 1, 2, 3, …; it may arrive in any order and more than once. The origin's watermark is
that of its gap-free run from 1: with 1, 2, 3, 5, 6 seen it is that of 3. A sequence in chunks is complete when all of
its chunks up to the last one were seen. Two last chunks, or a chunk beyond the last one, are an error in whichever
order they arrive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from eventide.kernels.intervals import NO_INTS, Bools, Ints, contains, run_of
from eventide.time import MIN
from eventide.watermarks.sequence_runs import (
    NO_CHUNKS,
    NO_LAST_CHUNKS,
    NO_RUNS,
    Chunks,
    LastChunks,
    Runs,
    Table,
    gaps_between,
    stack,
    take,
)

FIRST = 1
"""The number of every origin's first sequence."""


class SequenceGap(NamedTuple):
    """Sequences that are missing although later ones were seen, and since when that is known."""

    origin: int
    first: int
    last: int
    since: int


class SequenceProgress:
    """The runs of every origin. The result depends on what was seen, never on the order of arrival.

    >>> progress = SequenceProgress()
    >>> numbers = np.array([1, 2, 3, 5, 6])
    >>> progress.observe(Runs(0 * numbers, numbers, numbers, watermark=10 * numbers, since=0 * numbers))
    >>> progress.reached(0), progress.gaps()
    ((3, 30), [SequenceGap(origin=0, first=4, last=4, since=0)])
    >>> number = np.array([4])
    >>> progress.observe(Runs(0 * number, number, number, watermark=10 * number, since=0 * number))
    >>> progress.reached(0), progress.gaps()
    ((6, 60), [])
    """

    def __init__(self, *, first_chunk: int = 1, name: Callable[[int], str] = str) -> None:
        self._first_chunk = first_chunk
        self._name = name
        self.runs = NO_RUNS
        self.chunks = NO_CHUNKS
        self.last_chunks = NO_LAST_CHUNKS

    def copy(self, *, name: Callable[[int], str] | None = None) -> SequenceProgress:
        """An independent copy. Tables are shared, because they are replaced and never changed."""
        twin = SequenceProgress(first_chunk=self._first_chunk, name=name or self._name)
        twin.runs, twin.chunks, twin.last_chunks = self.runs, self.chunks, self.last_chunks
        return twin

    def observe(
        self, runs: Runs = NO_RUNS, chunks: Chunks = NO_CHUNKS, last_chunks: LastChunks = NO_LAST_CHUNKS
    ) -> None:
        """Add complete sequences, chunks of others, and last chunks. What was seen before changes nothing."""
        if len(chunks.start):
            chunks = stack(self.chunks, chunks).joined(self._name)
            complete = take(chunks, chunks.complete(self._first_chunk))
            runs = stack(runs, complete.sequences())
            last_chunks = stack(last_chunks, LastChunks.of(complete))
        else:
            chunks = self.chunks
        if len(last_chunks.start):
            last_chunks = stack(self.last_chunks, last_chunks).joined(self._name)
            last_chunks.check(chunks, self._name)
            self.last_chunks = last_chunks.newest()
        else:
            self.last_chunks.check(chunks, self._name)
        if len(runs.start):
            self.runs = stack(self.runs, runs).joined()
        seen = contains(self.runs.origin, self.runs.start, self.runs.end, chunks.origin, chunks.sequence)
        if np.any(seen):
            # Chunks of a sequence that counts as seen (complete or skipped) can still raise its watermark.
            self.runs = stack(self.runs, take(chunks, seen).sequences()).joined()
            chunks = take(chunks, ~seen)
        self.chunks = chunks

    def has_seen(self, origin: Ints, sequence: Ints, chunk: Ints | None = None) -> Bools:
        """Which of some sequences, or of their chunks, were seen.

        >>> progress = SequenceProgress()
        >>> numbers = np.array([1, 2, 5])
        >>> progress.observe(Runs(0 * numbers, numbers, numbers, watermark=0 * numbers, since=0 * numbers))
        >>> progress.has_seen(np.zeros(3, np.int64), np.array([2, 3, 5])).tolist()
        [True, False, True]
        """
        runs, chunks = self.runs, self.chunks
        seen = contains(runs.origin, runs.start, runs.end, origin, sequence)
        if chunk is None or not len(chunks.start):
            return seen
        rest = np.flatnonzero(~seen)
        origins, numbers = np.append(chunks.origin, origin[rest]), np.append(chunks.sequence, sequence[rest])
        # One number for each pair, in their order: chunks are sorted by it.
        pair = np.unique(np.stack((origins, numbers), axis=1), axis=0, return_inverse=True)[1].reshape(-1)
        count = len(chunks.start)
        seen[rest] = contains(pair[:count], chunks.start, chunks.end, pair[count:], chunk[rest])
        return seen

    def renumbered_origins(self, origin: Ints, sequence: Ints, watermark: Ints) -> Ints:
        """The origins that send a number again with a watermark beyond that of the run that holds the number.

        A retry has the time it had before. A later time shows that the numbering has started again.

        >>> progress = SequenceProgress()
        >>> numbers = np.array([1, 2])
        >>> progress.observe(Runs(0 * numbers, numbers, numbers, watermark=10 * numbers, since=0 * numbers))
        >>> origin, sequence = np.array([0]), np.array([1])
        >>> progress.renumbered_origins(origin, sequence, np.array([20])).tolist()
        []
        >>> progress.renumbered_origins(origin, sequence, np.array([50])).tolist()
        [0]
        """
        run = run_of(self.runs.origin, self.runs.start, self.runs.end, origin, sequence)
        if not np.any(run >= 0):
            return NO_INTS
        return np.unique(origin[(run >= 0) & (watermark > self.runs.watermark[run])])

    def gap_free_watermarks(self) -> tuple[Ints, Ints]:
        """The origins that have a run from the first sequence on, and the watermark of each."""
        from_first = self.runs.start == FIRST
        return self.runs.origin[from_first], self.runs.watermark[from_first]

    def gap_free_ends(self) -> tuple[Ints, Ints]:
        """The origins that have a run from the first sequence on, and the last sequence of each run."""
        from_first = self.runs.start == FIRST
        return self.runs.origin[from_first], self.runs.end[from_first]

    def reached(self, origin: int) -> tuple[int, int]:
        """The last sequence of an origin's gap-free run, and its watermark; (0, MIN) before the first."""
        run = np.flatnonzero((self.runs.origin == origin) & (self.runs.start == FIRST))
        return (int(self.runs.end[run[0]]), int(self.runs.watermark[run[0]])) if len(run) else (FIRST - 1, MIN)

    def gaps(self) -> list[SequenceGap]:
        """The sequences that are missing although later ones were seen, in order."""
        gaps = self._gaps()
        columns = (gaps.origin, gaps.start, gaps.end, gaps.since)
        return [SequenceGap(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]

    def oldest_gap(self) -> int | None:
        """Since when the oldest gap is known; None if there is no gap.

        A gap is as old as the oldest row to its right. All runs and chunks of an origin are to the right of its first
        gap, except the run that begins with the first number.

        >>> progress = SequenceProgress()
        >>> numbers = np.array([1, 3, 5])
        >>> progress.observe(Runs(0 * numbers, numbers, numbers, watermark=0 * numbers, since=0 * numbers + 7))
        >>> progress.oldest_gap()
        7
        """
        since = np.append(self.runs.since[self.runs.start != FIRST], self.chunks.since)
        return int(since.min()) if len(since) else None

    def skip_gap(self, origin: int, *, up_to: int | None = None) -> bool:
        """Count all sequences up to a number as seen, by default the first gap. Return whether any was missing."""
        if up_to is None:
            gaps = self._gaps()
            skipped = take(gaps, np.flatnonzero(gaps.origin == origin)[:1])
        elif up_to <= self.reached(origin)[0]:
            skipped = NO_RUNS
        else:
            skipped = Runs(*(np.array([value]) for value in (origin, FIRST, up_to, MIN, 0)))
        self.observe(skipped)
        return len(skipped.start) > 0

    def skip_gaps_since(self, time: int) -> None:
        """Skip every gap that has been open since ``time`` or longer."""
        gaps = self._gaps()
        self.observe(take(gaps, gaps.since <= time))

    def lower_to(self, time: int) -> None:
        """Lower the watermarks of all sequences to ``time``, where they are higher. What was seen stays seen."""
        self.runs = replace(self.runs, watermark=np.minimum(self.runs.watermark, time))
        self.chunks = replace(self.chunks, watermark=np.minimum(self.chunks.watermark, time))

    def forget(self, origins: Ints) -> None:
        """Drop the state of some origins."""
        self.runs = take(self.runs, ~np.isin(self.runs.origin, origins))
        self.chunks = take(self.chunks, ~np.isin(self.chunks.origin, origins))
        self.last_chunks = take(self.last_chunks, ~np.isin(self.last_chunks.origin, origins))

    def snapshot(self) -> dict[str, pl.DataFrame]:
        """The state as frames."""
        return {"runs": _frame(self.runs), "chunks": _frame(self.chunks), "last_chunks": _frame(self.last_chunks)}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Continue from a snapshot."""
        self.runs = Runs(**_columns(snapshot["runs"]))
        self.chunks = Chunks(**_columns(snapshot["chunks"]))
        self.last_chunks = LastChunks(**_columns(snapshot["last_chunks"]))

    def _gaps(self) -> Runs:
        if not len(self.chunks.start) and np.all(self.runs.start == FIRST):
            return NO_RUNS
        return gaps_between(self.runs, self.chunks.sequences(), FIRST)


def _frame(table: Table) -> pl.DataFrame:
    return pl.DataFrame({field.name: getattr(table, field.name) for field in fields(table)})


def _columns(frame: pl.DataFrame) -> dict[str, Any]:
    return {column.name: column.to_numpy() for column in frame}
