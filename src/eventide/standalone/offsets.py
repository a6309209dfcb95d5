"""Which offsets were taken in, as intervals: a message whose offset is among them is a replay."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl

from eventide.watermarks.intervals import NO_INTS, Bools, Ints, contains, join_runs

# Beyond so many, the oldest gaps are taken for messages that do not exist.
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

    @property
    def last(self) -> int | None:
        """The greatest of them."""
        return int(self.end[-1]) if len(self.end) else None

    def hold(self, offsets: pl.Series) -> Bools:
        """Whether each of these is among them."""
        asked = offsets.to_numpy()
        return contains(np.zeros_like(self.start), self.start, self.end, np.zeros_like(asked), asked)

    def including(self, offsets: pl.Series) -> Offsets:
        """With these as well."""
        more = offsets.to_numpy()
        start, end = np.concatenate((self.start, more)), np.concatenate((self.end, more))
        order, heads = join_runs((np.zeros_like(start),), start, end)
        if not len(heads):
            return self
        start, end = start[order][heads], np.maximum.reduceat(end[order], heads)
        spare = max(0, len(start) - 1 - MOST_GAPS)
        return Offsets(np.concatenate((start[:1], start[1 + spare :])), end[spare:])

    def frame(self) -> pl.DataFrame:
        """As it is saved."""
        return pl.DataFrame({"start": self.start, "end": self.end})

    @staticmethod
    def of(saved: pl.DataFrame) -> Offsets:
        """As it was saved."""
        return Offsets(saved["start"].to_numpy(), saved["end"].to_numpy())
