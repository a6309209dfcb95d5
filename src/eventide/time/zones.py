"""When the clocks of a time zone are set, as a table that expressions can search.

The table comes from ``zoneinfo``, so that Python's time zone database is the only one that decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

import polars as pl

from eventide.errors import time as errors
from eventide.time.instants import MAX, MIN

_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_DAY = timedelta(days=1) // _MICROSECOND

# No zone set its clocks before 1844; from 2087 on all follow rules that repeat every 400 years. No zone ever
# set them twice within six days, so that a probe every three days misses nothing.
_FIRST = datetime(1840, 1, 1)
_LAST = 2502
_STEP = timedelta(days=3)


@dataclass(frozen=True, eq=False)
class Zone:
    """The spans of a time zone between two settings of its clocks, valid until the year 2502."""

    name: str
    starts: pl.Series
    """The first instant of each span."""
    offsets: pl.Series
    """What local clocks show ahead of UTC in each span."""
    shown: pl.Series
    """The latest local time that any clock has shown up to the end of each span but the last."""
    repeats_midnight: bool
    """Whether clocks were ever set back across midnight, so that a date came, went and came again."""

    def span(self, ts: pl.Expr) -> pl.Expr:
        """The number of the span that holds the instant."""
        return pl.lit(self.starts[1:]).search_sorted(ts, side="right")

    def offset(self, span: pl.Expr) -> pl.Expr:
        """The offset of a span."""
        return self._of(self.offsets, span)

    def start(self, span: pl.Expr) -> pl.Expr:
        """The first instant of a span."""
        return self._of(self.starts, span)

    @property
    def is_fixed(self) -> bool:
        """Whether the clocks are never set."""
        return len(self.starts) == 1

    def end(self, span: pl.Expr) -> pl.Expr:
        """The first instant after a span."""
        return self._of(self.starts[1:].append(pl.Series([MAX])), span)

    def local(self, ts: pl.Expr) -> pl.Expr:
        """What local clocks show at the instant."""
        return ts + self.offset(self.span(ts))

    def first(self, local: pl.Expr) -> pl.Expr:
        """The first instant at which local clocks show this time or a later one."""
        span = pl.lit(self.shown).search_sorted(local, side="right")
        if self.is_fixed:
            return local - self.offset(span)
        return (local - self.offset(span)).clip(lower_bound=self.start(span))

    def _of(self, values: pl.Series, span: pl.Expr) -> pl.Expr:
        return pl.lit(values[0], pl.Int64) if self.is_fixed else pl.lit(values).gather(span)


@lru_cache(maxsize=64)
def zone(tz: str) -> Zone:
    """The time zone of that name.

    >>> zone("Asia/Kathmandu").offsets[-1] / 3_600_000_000
    5.75
    >>> zone("Europe/Berlni")
    Traceback (most recent call last):
    ...
    eventide.errors.kinds.PlanError: There is no time zone 'Europe/Berlni'. Did you mean 'Europe/Berlin'?
    """
    try:
        info = ZoneInfo(tz)
    except (OSError, ValueError, KeyError, TypeError):
        raise errors.unknown_zone(tz, sorted(available_timezones())) from None
    settings = _settings(info)
    starts = [MIN, *(at for at, _ in settings)]
    offsets = [_offset(info, _FIRST.replace(tzinfo=info)) // _MICROSECOND, *(offset for _, offset in settings)]
    ends = [at + before for at, before in zip(starts[1:], offsets, strict=False)]
    return Zone(
        name=tz,
        starts=pl.Series(starts, dtype=pl.Int64),
        offsets=pl.Series(offsets, dtype=pl.Int64),
        shown=pl.Series(ends, dtype=pl.Int64).cum_max(),
        repeats_midnight=any(
            (at + before - 1) // _DAY > (at + after) // _DAY
            for at, (before, after) in zip(starts[1:], pairwise(offsets), strict=True)
        ),
    )


def _settings(info: ZoneInfo) -> list[tuple[int, int]]:
    """Each instant at which the offset changes, with the new offset."""
    found = []
    at = _FIRST.replace(tzinfo=info)  # holds UTC all the same, as `fromutc` wants it
    offset = _offset(info, at)
    while at.year < _LAST:
        probe = at + _STEP
        new = _offset(info, probe)
        if new != offset:
            found.append((_change(info, at, probe, new), new // _MICROSECOND))
            offset = new
        at = probe
    return found


def _change(info: ZoneInfo, before: datetime, after: datetime, new: timedelta) -> int:
    """The first second at which the offset is the new one; zones change on whole seconds."""
    while after - before > timedelta(seconds=1):
        middle = before + timedelta(seconds=(after - before) // timedelta(seconds=2))
        if _offset(info, middle) == new:
            after = middle
        else:
            before = middle
    return (after.replace(tzinfo=None) - _EPOCH) // _MICROSECOND


def _offset(info: ZoneInfo, utc: datetime) -> timedelta:
    # Asked by instant, never by local time, which is ambiguous just where it matters.
    return info.fromutc(utc).utcoffset() or timedelta(0)
