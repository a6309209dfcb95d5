"""When an origin or a key is forgotten (``forget_after``).

The last activity of an origin or a key is the event time of its latest row, or the watermark at the end of the batch
with its last row, whichever is later. It is forgotten when the watermark is ``forget_after`` past its last activity.
An origin that the watermark waits for is never forgotten. One that returns is new.

Watermarks depend only on rows and on the logged time of batches, so a replay forgets the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from eventide.kernels.intervals import Bools, Ints
from eventide.time import MAX, MIN

_SWEEPS = 16


def forget_at(latest: pl.Expr, watermark: int, forget_after: int) -> pl.Expr:
    """The least watermark at which keys are forgotten whose ``latest`` rows were in a batch that ends at ``watermark``.

    >>> pl.select(forget_at(pl.lit(10), 30, 100)).item()
    130
    """
    last = pl.max_horizontal(latest, pl.lit(watermark, pl.Int64))
    return pl.when(last > MAX - forget_after).then(MAX).otherwise(last + forget_after)


def is_forgotten(last: Ints, watermark: int, forget_after: int) -> Bools:
    """Whether the watermark is ``forget_after`` past the last activity of origins.

    >>> is_forgotten(np.array([10, 11]), 110, 100).tolist()
    [True, False]
    """
    return last <= max(watermark, MIN + forget_after) - forget_after


class Activity:
    """The watermark after the last batch with rows of each origin, to find the origins that are to be forgotten.

    A search reads the times of all origins. It runs sixteen times while the watermark moves by ``forget_after``, so
    that a batch does not pay for origins that it does not touch. In the meantime, state holds at most a sixteenth more
    origins.

    >>> activity = Activity(160)
    >>> activity.grow(3)
    >>> activity.observe(np.array([1, 2]), 100)
    >>> idle, times = np.array([False, True, False]), np.array([MIN, 100, 250])
    >>> [activity.expired(watermark, idle, times).tolist() for watermark in (250, 260)]
    [[], [1]]
    >>> activity.is_search_due(269), activity.is_search_due(270)
    (False, True)
    """

    def __init__(self, forget_after: int | None) -> None:
        self._forget_after = forget_after
        self._watermarks: Ints = np.array([MIN])
        self._next_search = MIN

    def grow(self, origins: int) -> None:
        """Make room for this many origins."""
        missing = origins - len(self._watermarks)
        if missing > 0:
            self._watermarks = np.append(self._watermarks, np.full(missing, MIN))

    def observe(self, origins: Ints, watermark: int) -> None:
        """Record that a batch that ends at ``watermark`` has rows of these origins."""
        self._watermarks[origins] = watermark

    def is_search_due(self, watermark: int) -> bool:
        """Whether it is time to look for origins that are to be forgotten."""
        return self._forget_after is not None and max(MIN + 1, self._next_search) <= watermark < MAX

    def expired(self, watermark: int, idle: Bools, times: Ints) -> Ints:
        """The ``idle`` origins that are to be forgotten. ``times`` are the watermarks of the origins."""
        assert self._forget_after is not None
        self._next_search = min(watermark + max(self._forget_after // _SWEEPS, 1), MAX)
        # Rows from before the first watermark count from now on.
        self._watermarks[idle & (self._watermarks == MIN)] = watermark
        last = np.maximum(self._watermarks, times)
        return np.flatnonzero(idle & is_forgotten(last, watermark, self._forget_after))

    def forget(self, origins: Ints) -> None:
        """Drop the state of some origins."""
        self._watermarks[origins] = MIN

    def lower_to(self, watermark: int) -> None:
        """Lower the state to a watermark that was reset."""
        self._watermarks = np.minimum(self._watermarks, watermark)
        self._next_search = min(self._next_search, watermark)

    def copy(self) -> Activity:
        """An independent copy."""
        twin = Activity(self._forget_after)
        twin._watermarks, twin._next_search = self._watermarks.copy(), self._next_search
        return twin

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data."""
        return {"watermarks": pl.Series("watermarks", self._watermarks), "next_search": self._next_search}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Continue from a snapshot."""
        self._watermarks, self._next_search = snapshot["watermarks"].to_numpy().copy(), snapshot["next_search"]
