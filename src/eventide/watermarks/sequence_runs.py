"""Tables of gap-free runs: of sequences, of the chunks of incomplete sequences, and of known last chunks.

State is kept as runs, so that its size follows the number of gaps and not the history. The tables are columns of
numpy integers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np

from eventide.errors import DataError
from eventide.kernels.intervals import NO_INTS, Bools, Ints, join_runs, order_by, run_of, running_max, same_as_before
from eventide.time import MAX, MIN

Table = TypeVar("Table", "Runs", "Chunks", "LastChunks")

MAX_LAST_CHUNKS = 64
"""The entries of ``LastChunks`` that an origin may have: a bound where the number of chunks keeps changing."""


@dataclass(frozen=True, slots=True)
class Runs:
    """Gap-free runs of complete sequences, ``start`` to ``end`` of an origin."""

    origin: Ints
    start: Ints
    end: Ints
    watermark: Ints
    since: Ints
    """When the run was first seen."""

    def joined(self) -> Runs:
        """Sorted, and as few as possible; a joined run has the highest watermark and the earliest ``since``.

        >>> zeros = np.array([0, 0])
        >>> Runs(zeros, np.array([2, 1]), np.array([2, 1]), np.array([20, 30]), zeros).joined()
        Runs(origin=array([0]), start=array([1]), end=array([2]), watermark=array([30]), since=array([0]))
        """
        return self.joined_in(*join_runs((self.origin,), self.start, self.end))

    def joined_in(self, order: Ints, heads: Ints) -> Runs:
        """The rows in an order, joined from each head to the next."""
        rows = take(self, order)
        if not len(heads):
            return rows
        return Runs(
            origin=rows.origin[heads],
            start=rows.start[heads],
            end=np.maximum.reduceat(rows.end, heads),
            watermark=np.maximum.reduceat(rows.watermark, heads),
            since=np.minimum.reduceat(rows.since, heads),
        )


@dataclass(frozen=True, slots=True)
class Chunks:
    """Runs of chunks of a sequence. ``last``, ``watermark`` and ``since`` are those of the whole sequence."""

    origin: Ints
    sequence: Ints
    start: Ints
    end: Ints
    last: Ints
    """The number of the sequence's last chunk, or -1 where it is not known yet."""
    watermark: Ints
    since: Ints

    def joined(self, name: Callable[[int], str]) -> Chunks:
        """Sorted, and as few as possible.

        Raise an error where two chunks of a sequence are flagged as the last, or a chunk is beyond the last one.
        """
        order, heads = join_runs((self.origin, self.sequence), self.start, self.end)
        rows = take(self, order)
        if not len(heads):
            return rows
        first_of_sequence = ~same_as_before((rows.origin, rows.sequence))
        sequences = np.flatnonzero(first_of_sequence)
        last = np.maximum.reduceat(rows.last, sequences)
        least = np.minimum.reduceat(np.where(rows.last < 0, MAX, rows.last), sequences)
        if np.any(twice := (last >= 0) & (least < last)):
            bad = int(np.argmax(twice))
            row = sequences[bad]
            raise _last_chunk_twice(
                name(int(rows.origin[row])), int(rows.sequence[row]), int(least[bad]), int(last[bad])
            )
        highest = np.maximum.reduceat(rows.end, sequences)
        if np.any(beyond := (last >= 0) & (highest > last)):
            bad = int(np.argmax(beyond))
            row = sequences[bad]
            raise _chunk_beyond_last(
                name(int(rows.origin[row])), int(rows.sequence[row]), int(highest[bad]), int(last[bad])
            )
        number = (np.cumsum(first_of_sequence) - 1)[heads]
        return Chunks(
            origin=rows.origin[heads],
            sequence=rows.sequence[heads],
            start=rows.start[heads],
            end=np.maximum.reduceat(rows.end, heads),
            last=last[number],
            watermark=np.maximum.reduceat(rows.watermark, sequences)[number],
            since=np.minimum.reduceat(rows.since, sequences)[number],
        )

    def complete(self, first_chunk: int) -> Bools:
        """Which rows hold every chunk of their sequence, from the first to the last."""
        return (self.last >= 0) & (self.start <= first_chunk) & (self.end >= self.last)

    def sequences(self) -> Runs:
        """Each sequence as a run of its own, as if it were complete."""
        return Runs(self.origin, self.sequence, self.sequence, self.watermark, self.since)


@dataclass(frozen=True, slots=True)
class LastChunks:
    """The number of the last chunk of complete sequences ``start`` to ``end`` of an origin.

    It shows whether chunks that arrive later contradict a complete sequence.
    """

    origin: Ints
    start: Ints
    end: Ints
    last: Ints

    @classmethod
    def of(cls, complete: Chunks) -> LastChunks:
        """The last chunks of complete sequences."""
        return cls(complete.origin, complete.sequence, complete.sequence, complete.last)

    def joined(self, name: Callable[[int], str]) -> LastChunks:
        """Sorted, and as few as possible. Raise an error where a sequence has two last chunks.

        >>> zeros = np.array([0, 0])
        >>> LastChunks(zeros, np.array([1, 2]), np.array([1, 2]), np.array([3, 3])).joined(str)
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
            row = int(np.argmax(overlap))  # nothing overlaps before it, so its neighbour holds the sequence too
            lasts = sorted((int(runs.last[row - 1]), int(runs.last[row])))
            raise _last_chunk_twice(name(int(runs.origin[row])), int(runs.start[row]), *lasts)
        return runs

    def newest(self) -> LastChunks:
        """The newest ``MAX_LAST_CHUNKS`` entries of each origin."""
        if len(self.start) <= MAX_LAST_CHUNKS:
            return self
        begins = np.flatnonzero(~same_as_before((self.origin,)))
        count = np.diff(np.append(begins, len(self.start)))
        from_end = np.repeat(begins + count, count) - np.arange(len(self.start))
        return take(self, np.flatnonzero(from_end <= MAX_LAST_CHUNKS))

    def check(self, chunks: Chunks, name: Callable[[int], str]) -> None:
        """Raise an error where chunks of a complete sequence are beyond its last one, or are another last one."""
        run = run_of(self.origin, self.start, self.end, chunks.origin, chunks.sequence)
        if not np.any(run >= 0):
            return
        last = self.last[run]
        twice = (run >= 0) & (chunks.last >= 0) & (chunks.last != last)
        bad = twice | ((run >= 0) & (chunks.end > last))
        if np.any(bad):
            row = int(np.argmax(bad))
            origin, sequence = name(int(chunks.origin[row])), int(chunks.sequence[row])
            if twice[row]:
                raise _last_chunk_twice(origin, sequence, *sorted((int(last[row]), int(chunks.last[row]))))
            raise _chunk_beyond_last(origin, sequence, int(chunks.end[row]), int(last[row]))


NO_RUNS = Runs(*[NO_INTS] * 5)
NO_CHUNKS = Chunks(*[NO_INTS] * 7)
NO_LAST_CHUNKS = LastChunks(*[NO_INTS] * 4)


def gaps_between(runs: Runs, incomplete: Runs, first: int) -> Runs:
    """The gaps between runs as runs, so that filling a gap is observing it. ``first`` is the first sequence.

    An incomplete sequence is missing itself, and shows that all sequences before it were sent.
    """
    seen = stack(runs, incomplete)
    order = order_by(seen.origin, seen.start)
    seen, is_run = take(seen, order), order < len(runs.start)
    position = np.arange(len(order))
    same = same_as_before((seen.origin,))
    is_last = np.append(~same[1:], True)
    # A stretch is what is between two runs: it begins an origin, or follows a run of that origin.
    begins = ~same | np.append(False, is_run[:-1])
    head = np.maximum.accumulate(np.where(begins, position, 0))
    before = np.where(same[head], seen.end[head - 1], first - 1)
    closes = np.where(is_run, seen.start > before + 1, is_last)
    # Anything seen beyond a gap reveals it, so a gap is as old as the oldest row to its right.
    since = -running_max((-seen.origin[::-1],), -seen.since[::-1])[::-1]
    last = np.where(is_run, seen.start - 1, seen.end)
    no_watermark = np.full(len(position), MIN)
    return take(Runs(seen.origin, before + 1, last, no_watermark, since[head]), closes)


def stack(*tables: Table) -> Table:
    """The rows of all tables, one table after the other.

    >>> len(stack(NO_RUNS, NO_RUNS).start)
    0
    """
    names = [field.name for field in fields(tables[0])]
    return type(tables[0])(*(np.concatenate([getattr(table, name) for table in tables]) for name in names))


def take(table: Table, rows: Ints | Bools) -> Table:
    """Some rows of a table, by position or by mask.

    >>> len(take(NO_RUNS, NO_INTS).start)
    0
    """
    return type(table)(*(getattr(table, field.name)[rows] for field in fields(table)))


def _last_chunk_twice(origin: str, sequence: int, first: int, second: int) -> DataError:
    return DataError(
        f"Sequence {sequence} of {origin} has two last chunks, {first} and {second}. Only one chunk of a "
        "sequence may be flagged as the last; fix the producer that numbers the chunks."
    )


def _chunk_beyond_last(origin: str, sequence: int, chunk: int, last: int) -> DataError:
    return DataError(
        f"Sequence {sequence} of {origin} has chunk {chunk}, although chunk {last} is flagged as its last. Flag the "
        "chunk with the highest number as the last; fix the producer that numbers the chunks."
    )
