"""Which offsets were taken in, as intervals: a message whose offset is among them is a replay."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl

from eventide.watermarks.intervals import NO_INTS, Bools, Ints, contains, join_runs, run_of

# Beyond so many, the oldest gaps are forgotten: their offsets count as taken, but not for certain.
MOST_GAPS = 10_000


@dataclass(frozen=True)
class Offsets:
    """Closed intervals, in order.

    >>> seen = Offsets().including(pl.Series([1, 2, 3, 7]))
    >>> seen.hold(pl.Series([3, 4, 7])).tolist(), seen.last
    ([True, False, True], 7)
    """

    start: Ints = field(default_factory=lambda: NO_INTS)
    end: Ints = field(default_factory=lambda: NO_INTS)
    forgotten: tuple[int, int] | None = None
    """The first and the last offset of the gaps that were forgotten. What lies between was taken, or never came."""

    @property
    def last(self) -> int | None:
        """The greatest of them."""
        return int(self.end[-1]) if len(self.end) else None

    def reaches_beyond(self, offsets: pl.Series) -> bool:
        """Whether the greatest of them is beyond one of these."""
        return self.last is not None and bool((offsets < self.last).any())

    def hold(self, offsets: pl.Series) -> Bools:
        """Whether each of these is among them."""
        asked = offsets.to_numpy()
        return contains(np.zeros_like(self.start), self.start, self.end, np.zeros_like(asked), asked)

    def doubtful(self, offsets: pl.Series) -> Bools:
        """Whether each of these may lie in a gap that was forgotten."""
        asked = offsets.to_numpy()
        first, last = (1, 0) if self.forgotten is None else self.forgotten
        return (asked >= first) & (asked <= last)

    def cover(self, others: Offsets, first: int) -> bool:
        """Whether all of the others, from ``first`` on, are among them. Gaps that were forgotten are not asked for.

        >>> seen = Offsets().including(pl.Series([1, 2, 3, 5]))
        >>> Offsets().including(pl.Series([2, 3, 5])).cover(seen, 2), Offsets().including(pl.Series([5])).cover(seen, 2)
        (True, False)
        """
        start = np.maximum(others.start, first if others.forgotten is None else max(first, others.forgotten[1] + 1))
        asked = others.end >= start
        start, end = start[asked], others.end[asked]
        zeros = np.zeros_like(start)
        run = run_of(np.zeros_like(self.start), self.start, self.end, zeros, start)
        return bool(np.all(run >= 0)) and bool(np.all(self.end[run] >= end))

    def including(self, offsets: pl.Series) -> Offsets:
        """With these as well."""
        more = offsets.to_numpy()
        start, end = np.concatenate((self.start, more)), np.concatenate((self.end, more))
        order, heads = join_runs((np.zeros_like(start),), start, end)
        if not len(heads):
            return self
        start, end = start[order][heads], np.maximum.reduceat(end[order], heads)
        spare = max(0, len(start) - 1 - MOST_GAPS)
        forgotten = self.forgotten
        if spare:
            first, last = int(end[0]) + 1, int(start[spare]) - 1
            forgotten = (first, last) if forgotten is None else (min(first, forgotten[0]), max(last, forgotten[1]))
        return Offsets(np.concatenate((start[:1], start[1 + spare :])), end[spare:], forgotten)

    def frame(self) -> pl.DataFrame:
        """The intervals, as they are saved."""
        return pl.DataFrame({"start": self.start, "end": self.end})

    @staticmethod
    def of(saved: pl.DataFrame, forgotten: tuple[int, int] | None) -> Offsets:
        """As it was saved."""
        return Offsets(saved["start"].to_numpy(), saved["end"].to_numpy(), forgotten)
