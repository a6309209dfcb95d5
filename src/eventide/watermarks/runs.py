"""Runs of sequences and of their chunks.

Progress is kept as runs because their number follows the gaps, never the history.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from eventide.errors import watermarks as errors
from eventide.time import MAX
from eventide.watermarks.intervals import NO_INTS, Bools, Ints, join_runs, same_as_before

if TYPE_CHECKING:
    from eventide.watermarks.last_chunks import LastChunks

Table = TypeVar("Table", "Runs", "Chunks", "LastChunks")


@dataclass(frozen=True, slots=True)
class Runs:
    """Gap-free runs of complete sequences: of which origin, from where to where, since when they are known."""

    origin: Ints
    start: Ints
    end: Ints
    watermark: Ints
    since: Ints

    def joined(self) -> Runs:
        """Sorted, and as few as possible; a joined run has the highest watermark and the earliest ``since``.

        >>> one = np.array([0, 0])
        >>> Runs(one, np.array([2, 1]), np.array([2, 1]), np.array([20, 30]), one).joined()
        Runs(origin=array([0]), start=array([1]), end=array([2]), watermark=array([30]), since=array([0]))
        """
        return self.joined_in(*join_runs((self.origin,), self.start, self.end))

    def joined_in(self, order: Ints, heads: Ints) -> Runs:
        """Rows in an order, joined from each head to the next."""
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
    """Runs of chunks of sequences. ``last``, watermark and ``since`` are those of the whole sequence."""

    origin: Ints
    sequence: Ints
    start: Ints
    end: Ints
    last: Ints
    """The number of the sequence's last chunk, or -1 where it is not known yet."""
    watermark: Ints
    since: Ints

    def joined(self, name: Callable[[int], str]) -> Chunks:
        """Sorted, and as few as possible. A sequence that contradicts itself is rejected.

        It does if two of its chunks are flagged as the last, or if a chunk lies beyond the last one.
        """
        keys = (self.origin, self.sequence)
        order, heads = join_runs(keys, self.start, self.end)
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
            raise errors.last_chunk_twice(
                name(int(rows.origin[row])), int(rows.sequence[row]), int(least[bad]), int(last[bad])
            )
        highest = np.maximum.reduceat(rows.end, sequences)
        if np.any(beyond := (last >= 0) & (highest > last)):
            bad = int(np.argmax(beyond))
            row = sequences[bad]
            raise errors.chunk_beyond_last(
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
        """The rows that hold every chunk of their sequence, from the first to the last."""
        return (self.last >= 0) & (self.start <= first_chunk) & (self.end >= self.last)

    def sequences(self) -> Runs:
        """The sequences as runs of one each, as if they were complete."""
        return Runs(self.origin, self.sequence, self.sequence, self.watermark, self.since)


NO_RUNS = Runs(*[NO_INTS] * 5)
NO_CHUNKS = Chunks(*[NO_INTS] * 7)


def stack(*tables: Table) -> Table:
    """The rows of all tables, one table after the other.

    >>> len(stack(NO_RUNS, NO_RUNS).start)
    0
    """
    names = [field.name for field in fields(tables[0])]
    return type(tables[0])(*(np.concatenate([getattr(t, name) for t in tables]) for name in names))


def take(table: Table, rows: Ints | Bools) -> Table:
    """Some rows of a table, by position or by mask.

    >>> len(take(NO_RUNS, NO_INTS).start)
    0
    """
    return type(table)(*(getattr(table, field.name)[rows] for field in fields(table)))
