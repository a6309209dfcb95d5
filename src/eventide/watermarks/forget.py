"""When an origin or a key is forgotten. The rule is here, and nowhere else.

The last activity of an origin or a key is the event time of its latest row, or the watermark at the end of the batch
that brought its last row, whichever is later. With ``forget_after`` it is forgotten when the watermark is that far
past its last activity. An origin that the watermark waits for is never forgotten. What returns is new.

Watermarks follow from rows and from the logged time of batches, so a replay forgets the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from eventide.time import MAX, MIN
from eventide.watermarks.intervals import Bools, Ints

_SWEEPS = 16


def forget_at(latest: pl.Expr, watermark: int, forget_after: int) -> pl.Expr:
    """The least watermark at which keys are forgotten whose ``latest`` rows came in a batch that ends at ``watermark``.

    >>> pl.select(forget_at(pl.lit(10), 30, 100)).item()
    130
    """
    last = pl.max_horizontal(latest, pl.lit(watermark, pl.Int64))
    return pl.when(last > MAX - forget_after).then(MAX).otherwise(last + forget_after)


def is_forgotten(last: Ints, watermark: int, forget_after: int) -> Bools:
    """Whether the watermark is so far past the last activity of origins: the same rule, in a column of numbers.

    >>> is_forgotten(np.array([10, 11]), 110, 100).tolist()
    [True, False]
    """
    return last <= max(watermark, MIN + forget_after) - forget_after


class Activity:
    """The watermark after the last batch with rows of each origin, from which idle origins are found.

    A search reads the times of all origins. There are sixteen of them while the watermark moves by ``forget_after``, so
    a batch does not pay for origins that it does not touch. In between, a sixteenth more origins may rest in state.

    >>> activity = Activity(160)
    >>> activity.grow(3)
    >>> activity.seen(np.array([1, 2]), 100)
    >>> idle, times = np.array([False, True, False]), np.array([MIN, 100, 250])
    >>> [activity.overdue(watermark, idle, times).tolist() for watermark in (250, 260)]
    [[], [1]]
    >>> activity.searches(269), activity.searches(270)
    (False, True)
    """

    def __init__(self, forget_after: int | None) -> None:
        self._forget_after = forget_after
        self._watermarks: Ints = np.array([MIN])
        self._next_search = MIN

    def grow(self, origins: int) -> None:
        """Make room for this many origins."""
        more = origins - len(self._watermarks)
        if more > 0:
            self._watermarks = np.append(self._watermarks, np.full(more, MIN))

    def seen(self, origins: Ints, watermark: int) -> None:
        """A batch that ends at ``watermark`` brought rows of these origins."""
        self._watermarks[origins] = watermark

    def searches(self, watermark: int) -> bool:
        """Whether it is time to look for origins that are to be forgotten."""
        return self._forget_after is not None and max(MIN + 1, self._next_search) <= watermark < MAX

    def overdue(self, watermark: int, idle: Bools, times: Ints) -> Ints:
        """The ``idle`` origins that are to be forgotten. ``times`` are the watermarks of the origins themselves."""
        assert self._forget_after is not None
        self._next_search = min(watermark + max(self._forget_after // _SWEEPS, 1), MAX)
        # Rows that came before there was a watermark count from now on.
        self._watermarks[idle & (self._watermarks == MIN)] = watermark
        last = np.maximum(self._watermarks, times)
        return np.flatnonzero(idle & is_forgotten(last, watermark, self._forget_after))

    def forget(self, origins: Ints) -> None:
        """Drop all that is known of some origins."""
        self._watermarks[origins] = MIN

    def lower_to(self, watermark: int) -> None:
        """Lower what is known to a watermark that was reset."""
        self._watermarks = np.minimum(self._watermarks, watermark)
        self._next_search = min(self._next_search, watermark)

    def copy(self) -> Activity:
        """An independent copy."""
        twin = Activity(self._forget_after)
        twin._watermarks, twin._next_search = self._watermarks.copy(), self._next_search
        return twin

    def snapshot(self) -> dict[str, Any]:
        """All that is known, as plain data."""
        return {"watermarks": pl.Series("watermarks", self._watermarks), "next_search": self._next_search}

    def restored(self, snapshot: dict[str, Any]) -> None:
        """Go on where a snapshot was taken."""
        self._watermarks, self._next_search = snapshot["watermarks"].to_numpy().copy(), snapshot["next_search"]
