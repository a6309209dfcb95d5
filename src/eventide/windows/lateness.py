"""When a row is late, when a window is complete, and when it has expired. Every operator uses these rules.

Watermark ``W`` means that no event with ``time < W`` is expected any more, so

- a row is **late** when ``time < W``;
- a window is **complete** when ``end <= W``;
- a window has **expired** when ``end + lateness <= W``. Its state is purged, and a row whose windows have all expired
  goes to the late output;
- a timer, or a row that is stored until some time, is **due** when ``time <= W``.

Sessions with ``touching="merge"`` expire one microsecond later, when ``end + lateness < W``: a row exactly at the end
of such a session still joins it. Otherwise the result would depend on how rows are bundled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import polars as pl

from eventide._columns import END
from eventide.time import MAX, MIN

T = TypeVar("T", pl.Expr, pl.Series)


def is_late(time: T, watermark: int | pl.Expr) -> T:
    """Whether the watermark has passed events at ``time``.

    >>> is_late(pl.Series([4, 5]), 5).to_list()
    [True, False]
    """
    return time < watermark


def is_complete(end: T, watermark: int | pl.Expr) -> T:
    """Whether only late rows can still join windows that end at ``end``.

    >>> is_complete(pl.Series([5, 6]), 5).to_list()
    [True, False]
    """
    return end <= watermark


def is_due(time: T, watermark: int | pl.Expr) -> T:
    """Whether the watermark has reached ``time``: a timer fires, and a row that is stored until then is dropped.

    >>> is_due(pl.Series([5, 6]), 5).to_list()
    [True, False]
    """
    return time <= watermark


def expires_at(end: pl.Expr, lateness: int = 0) -> pl.Expr:
    """The least watermark at which windows that end at ``end`` have expired.

    >>> pl.select(expires_at(pl.lit(10), 5)).item()
    15
    """
    return end if lateness == 0 else pl.when(end > MAX - lateness).then(MAX).otherwise(end + lateness)


def is_expired(end: pl.Expr, watermark: int | pl.Expr, lateness: int = 0) -> pl.Expr:
    """Whether the state of windows that end at ``end`` is purged.

    >>> pl.select(is_expired(pl.lit(pl.Series([9, 10])), 14, lateness=5)).to_series().to_list()
    [True, False]
    """
    if isinstance(watermark, int) and watermark == MIN:
        return pl.lit(False)
    return expires_at(end, lateness) <= watermark


def last_ends(windows: pl.DataFrame, by: str, *others: pl.Expr) -> pl.DataFrame:
    """Return the end of the last window of each group: all windows of a group have expired when this one has.

    >>> windows = pl.DataFrame({"slice": [0, 0, 5], END: [5, 10, 15]})
    >>> last_ends(windows, "slice").sort("slice").rows()
    [(0, 10), (5, 15)]
    """
    return windows.group_by(by).agg(pl.col(END).max(), *others)


@dataclass(frozen=True)
class Lateness:
    """The allowed lateness of a plan, and whether a row exactly at a window's end still joins it."""

    allowed: int = 0
    joins_at_end: bool = False

    @property
    def _after_end(self) -> int:
        return min(self.allowed + self.joins_at_end, MAX)

    def expires_at(self, end: pl.Expr) -> pl.Expr:
        """The least watermark at which windows that end at ``end`` have expired."""
        return expires_at(end, self._after_end)

    def is_expired(self, end: pl.Expr, watermark: int | pl.Expr) -> pl.Expr:
        """Whether the state of windows that end at ``end`` is purged."""
        return is_expired(end, watermark, self._after_end)

    def live_from(self, watermark: int) -> int:
        """The time from which rows have a live window in any case, because a window ends after its rows."""
        return MIN if watermark < MIN + self._after_end else watermark - self._after_end
