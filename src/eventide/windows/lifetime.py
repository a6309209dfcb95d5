"""When a window is complete and when it has expired. The rules of time are here, and nowhere else.

Watermark ``W`` says that no event with ``ts < W`` is expected any more, so

- an event is **late** when ``ts < W``;
- a window is **complete** when ``end <= W``;
- a window is **expired** when ``end + lateness <= W``: its state is purged, and a row all of whose windows have expired
  goes to the late output.

One kind of window bends the last rule by a microsecond: where a row exactly at a session's end still joins it
(``touching="merge"``), the session expires when ``end + lateness < W``. Else the result would depend on bundles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import polars as pl

from eventide.time import MAX, MIN

T = TypeVar("T", pl.Expr, pl.Series)


def is_late(time: T, watermark: int | pl.Expr) -> T:
    """Whether the watermark has passed events at ``time``.

    >>> is_late(pl.Series([4, 5]), 5).to_list()
    [True, False]
    """
    return time < watermark


def is_complete(end: T, watermark: int | pl.Expr) -> T:
    """Whether no row that is not late can still join windows that end at ``end``.

    >>> is_complete(pl.Series([5, 6]), 5).to_list()
    [True, False]
    """
    return end <= watermark


@dataclass(frozen=True)
class Lifetime:
    """How long windows live, as expressions over their ``end``."""

    lateness: int = 0
    joins_at_end: bool = False

    @property
    def _after_end(self) -> int:
        return min(self.lateness + self.joins_at_end, MAX)

    def complete(self, end: pl.Expr, watermark: int | pl.Expr) -> pl.Expr:
        """No row that is not late can still join."""
        return is_complete(end, watermark)

    def expires_at(self, end: pl.Expr) -> pl.Expr:
        """The least watermark at which the window has expired."""
        if self._after_end == 0:
            return end
        return pl.when(end > MAX - self._after_end).then(MAX).otherwise(end + self._after_end)

    def expired(self, end: pl.Expr, watermark: int | pl.Expr) -> pl.Expr:
        """Its state is gone, or must go now."""
        if isinstance(watermark, int) and watermark == MIN:
            return pl.lit(False)
        return self.expires_at(end) <= watermark

    def live_from(self, watermark: int) -> int:
        """A row from here on has a live window in any case, because a window ends after its rows."""
        return MIN if watermark < MIN + self._after_end else watermark - self._after_end
