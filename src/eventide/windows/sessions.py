"""Sessions: bursts of one key's rows, held together by gaps that are short enough."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from eventide.columns import SparkColumn, named
from eventide.errors import windows as errors
from eventide.time import duration, format_duration
from eventide.windows.kind import Axis, by_offset

Touching = Literal["merge", "split"]

# A duration begins with a digit, a sign, or is ISO-8601; every other plain name is a column.
_ISO = re.compile(r"P(\d|T\d)", re.IGNORECASE)


@dataclass(frozen=True)
class Sessions:
    """A row opens ``[at, at + gap)``; windows of one key that overlap (or touch, as ``touching`` says) are one.

    ``gap`` is a length, or the name of a column that holds one per row (µs or Duration). The union of intervals does
    not depend on the order in which they come. A session longer than ``max_duration`` is cut at its start plus
    multiples of it.
    """

    gap: int | str
    touching: Touching = "merge"
    max_duration: int | None = None
    axis: Axis = "time"
    by: str | None = field(default=None, repr=False)  # the column of an origin's own offsets

    def describe(self) -> str:
        """One line for ``explain()``."""
        if self.axis == "rows":
            assert isinstance(self.gap, int)
            return f"sessions that end after {self.gap - 1} rows without the key{by_offset(self.by)}"
        gap = f"column {self.gap!r}" if isinstance(self.gap, str) else format_duration(self.gap)
        most = f", at most {format_duration(self.max_duration)}" if self.max_duration else ""
        apart = ", split when exactly that far apart" if self.touching == "split" else ""
        return f"sessions with gap {gap}{most}{apart}"


def sessions(
    gap: str | timedelta,
    *,
    touching: Touching = "merge",
    max_duration: str | timedelta | None = None,
) -> Sessions:
    """Rows of one key at most ``gap`` apart are one window, however they arrive.

    ``gap`` is a duration, or the name of a column that holds each row's own gap (a Duration, or integer µs).

    >>> sessions("30 minutes").describe()
    'sessions with gap 30m'
    >>> sessions("30 minutes", max_duration="4 hours").describe()
    'sessions with gap 30m, at most 4h'
    >>> sessions("patience").describe()
    "sessions with gap column 'patience'"
    """
    if touching not in ("merge", "split"):
        raise errors.unknown_touching(touching)
    most = None if max_duration is None else duration(max_duration, what="max_duration of sessions()")
    gap = named(gap)
    column = isinstance(gap, SparkColumn) or (isinstance(gap, str) and gap.isidentifier() and not _ISO.match(gap))
    if column and isinstance(gap, str):
        return Sessions(gap, touching, most)
    length = duration(gap, what="gap of sessions()")
    if most is not None and most < length:
        raise errors.sessions_too_short(most, length)
    return Sessions(length, touching, most)
