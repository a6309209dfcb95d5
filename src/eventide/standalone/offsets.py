"""The offsets that an operator has processed, as intervals. A message whose offset is among them is a replay."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl

from eventide.kernels.intervals import NO_INTS, Bools, Ints, contains, join_runs, run_of

MAX_GAPS = 10_000
"""Beyond this number, the oldest gaps are forgotten: their offsets count as processed, but not for certain."""


@dataclass(frozen=True)
class Offsets:
    """Closed intervals, in order.

    >>> seen = Offsets().including(pl.Series([1, 2, 3, 7]))
    >>> seen.contain(pl.Series([3, 4, 7])).tolist(), seen.last
    ([True, False, True], 7)
    """

    start: Ints = field(default_factory=lambda: NO_INTS)
    end: Ints = field(default_factory=lambda: NO_INTS)
    forgotten: tuple[int, int] | None = None
    """The first and the last offset of forgotten gaps. Offsets in between were processed, or never arrived."""

    @property
    def last(self) -> int | None:
        """The greatest offset."""
        return int(self.end[-1]) if len(self.end) else None

    def exceed(self, offsets: pl.Series) -> bool:
        """Whether the greatest offset is beyond one of these."""
        return self.last is not None and bool((offsets < self.last).any())

    def contain(self, offsets: pl.Series) -> Bools:
        """Return whether each of these is among the processed offsets."""
        values = offsets.to_numpy()
        return contains(np.zeros_like(self.start), self.start, self.end, np.zeros_like(values), values)

    def in_forgotten_gap(self, offsets: pl.Series) -> Bools:
        """Return whether each of these may be in a forgotten gap."""
        values = offsets.to_numpy()
        first, last = (1, 0) if self.forgotten is None else self.forgotten
        return (values >= first) & (values <= last)

    def cover(self, others: Offsets, first: int) -> bool:
        """Whether all of the others, from ``first`` on, are among these offsets. Forgotten gaps are not required.

        >>> seen = Offsets().including(pl.Series([1, 2, 3, 5]))
        >>> Offsets().including(pl.Series([2, 3, 5])).cover(seen, 2), Offsets().including(pl.Series([5])).cover(seen, 2)
        (True, False)
        """
        start = np.maximum(others.start, first if others.forgotten is None else max(first, others.forgotten[1] + 1))
        required = others.end >= start
        start, end = start[required], others.end[required]
        zeros = np.zeros_like(start)
        run = run_of(np.zeros_like(self.start), self.start, self.end, zeros, start)
        return bool(np.all(run >= 0)) and bool(np.all(self.end[run] >= end))

    def including(self, offsets: pl.Series) -> Offsets:
        """Return these offsets and further ones."""
        more = offsets.to_numpy()
        start, end = np.concatenate((self.start, more)), np.concatenate((self.end, more))
        order, heads = join_runs((np.zeros_like(start),), start, end)
        if not len(heads):
            return self
        start, end = start[order][heads], np.maximum.reduceat(end[order], heads)
        excess = max(0, len(start) - 1 - MAX_GAPS)
        forgotten = self.forgotten
        if excess:
            first, last = int(end[0]) + 1, int(start[excess]) - 1
            forgotten = (first, last) if forgotten is None else (min(first, forgotten[0]), max(last, forgotten[1]))
        return Offsets(np.concatenate((start[:1], start[1 + excess :])), end[excess:], forgotten)

    def frame(self) -> pl.DataFrame:
        """Return the intervals as they are saved."""
        return pl.DataFrame({"start": self.start, "end": self.end})

    @staticmethod
    def from_frame(saved: pl.DataFrame, forgotten: tuple[int, int] | None) -> Offsets:
        """Return the offsets that were saved."""
        return Offsets(saved["start"].to_numpy(), saved["end"].to_numpy(), forgotten)
