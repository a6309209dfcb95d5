"""Calendar periods in a time zone as column expressions: days of 23 and 25 hours, months, years.

A period begins at the first instant at which local clocks show its start or a later time. So a day whose midnight
does not exist begins when the clocks change, and a day with two midnights begins at the earlier one.

The transitions of a zone are read from ``zoneinfo`` into a table that expressions can search.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Literal, get_args
from zoneinfo import ZoneInfo, available_timezones

import polars as pl

from eventide.errors import PlanError, did_you_mean, shown
from eventide.time.instants import MAX, MIN, instant

CalendarUnit = Literal["hour", "day", "week", "month", "quarter", "year"]
CALENDAR_UNITS: tuple[CalendarUnit, ...] = get_args(CalendarUnit)

_HOUR = 3_600_000_000
_DAY = 24 * _HOUR
_WEEK = 7 * _DAY
_MONDAY = 4 * _DAY  # 1970-01-05
_MONTHS = {"month": "1mo", "quarter": "1q", "year": "1y"}

# Dates and clock rules repeat every 400 years: times outside the table of a zone are moved into it.
_CYCLE = 146_097 * _DAY
_LOW = instant("1200-01-01")
_HIGH = instant("2500-01-01")


def calendar_start(ts: pl.Expr, unit: CalendarUnit, tz: str) -> pl.Expr:
    """The first instant of the calendar period that holds ``ts``. Weeks start on Monday.

    An hour also ends where the clocks are set, so one that they repeat is two hours.

    >>> noon = pl.Series([instant("2024-03-31T12:00:00+02:00")])
    >>> start = pl.select(calendar_start(pl.lit(noon), "day", "Europe/Berlin")).item()
    >>> from eventide.time import format_instant
    >>> format_instant(start)
    '2024-03-30T23:00:00Z'
    """
    clock = _zone(unit, tz)
    cycles = _cycles(ts)
    within = ts - cycles * _CYCLE
    start = _hour_start(within, clock) if unit == "hour" else _date_start(within, unit, clock)
    start += cycles * _CYCLE
    return pl.when(start <= ts).then(start).when(ts.is_not_null()).then(MIN)


def calendar_next(start: pl.Expr, unit: CalendarUnit, tz: str) -> pl.Expr:
    """The first instant of the period after the one that begins at ``start``.

    >>> start = pl.Series([instant("2024-03-31T00:00:00+01:00")])
    >>> end = pl.select(calendar_next(pl.lit(start), "day", "Europe/Berlin")).item()
    >>> (end - start[0]) / 3_600_000_000
    23.0
    """
    clock = _zone(unit, tz)
    cycles = _cycles(start)
    within = start - cycles * _CYCLE
    end = _hour_end(within, clock) if unit == "hour" else _date_end(within, unit, clock)
    end += cycles * _CYCLE
    return pl.when(end > start).then(end).when(start.is_not_null()).then(MAX)


def _zone(unit: str, tz: str) -> Zone:
    if unit not in CALENDAR_UNITS:
        raise PlanError(f"There is no calendar unit {shown(unit)}. {did_you_mean(unit, CALENDAR_UNITS)}")
    return zone(tz)


def _cycles(ts: pl.Expr) -> pl.Expr:
    late = (ts - (_HIGH - _CYCLE)) // _CYCLE
    early = (ts - _LOW) // _CYCLE
    return pl.when(ts >= _HIGH).then(late).when(ts < _LOW).then(early).otherwise(0)


def _date_start(ts: pl.Expr, unit: CalendarUnit, clock: Zone) -> pl.Expr:
    date = _floor(clock.local(ts), unit)
    start = clock.first(date)
    if not clock.repeats_midnight:
        return start
    # After clocks are set back across midnight they show a date whose next has begun already.
    following = clock.first(_after(date, unit))
    return pl.when(following <= ts).then(following).otherwise(start)


def _date_end(start: pl.Expr, unit: CalendarUnit, clock: Zone) -> pl.Expr:
    return clock.first(_after(_floor(clock.local(start), unit), unit))


def _hour_start(ts: pl.Expr, clock: Zone) -> pl.Expr:
    span = clock.span(ts)
    offset = clock.offset(span)
    start = _multiple(ts + offset, _HOUR) - offset
    return start if clock.is_fixed else start.clip(lower_bound=clock.start(span))


def _hour_end(start: pl.Expr, clock: Zone) -> pl.Expr:
    span = clock.span(start)
    offset = clock.offset(span)
    end = _multiple(start + offset, _HOUR) + _HOUR - offset
    return end if clock.is_fixed else end.clip(upper_bound=clock.end(span))


def _floor(local: pl.Expr, unit: CalendarUnit) -> pl.Expr:
    if unit == "day":
        return _multiple(local, _DAY)
    if unit == "week":
        return _multiple(local - _MONDAY, _WEEK) + _MONDAY
    return local.cast(pl.Datetime("us")).dt.truncate(_MONTHS[unit]).cast(pl.Int64)


def _after(date: pl.Expr, unit: CalendarUnit) -> pl.Expr:
    if unit == "day":
        return date + _DAY
    if unit == "week":
        return date + _WEEK
    return date.cast(pl.Datetime("us")).dt.offset_by(_MONTHS[unit]).cast(pl.Int64)


def _multiple(local: pl.Expr, length: int) -> pl.Expr:
    return local // length * length


_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)

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
    """Whether clocks were ever set back across midnight, so that a date occurs twice."""

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
    eventide.errors.PlanError: There is no time zone 'Europe/Berlni'. Did you mean 'Europe/Berlin'?
    """
    try:
        info = ZoneInfo(tz)
    except (OSError, ValueError, KeyError, TypeError):
        raise _unknown_zone(tz, sorted(available_timezones())) from None
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
    transitions = []
    at = _FIRST.replace(tzinfo=info)  # holds UTC, as `fromutc` expects
    offset = _offset(info, at)
    while at.year < _LAST:
        probe = at + _STEP
        new = _offset(info, probe)
        if new != offset:
            transitions.append((_change(info, at, probe, new), new // _MICROSECOND))
            offset = new
        at = probe
    return transitions


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
    # By instant, never by local time, which is ambiguous around transitions.
    return info.fromutc(utc).utcoffset() or timedelta(0)


def _unknown_zone(tz: str, known: Iterable[str]) -> PlanError:
    """The error about a misspelt time zone. The full list is too long to print."""
    hint = did_you_mean(tz, known)
    if not hint.startswith("Did you mean"):
        hint = "Use a name of the IANA database, such as 'Europe/Berlin' or 'UTC'."
    return PlanError(f"There is no time zone {shown(tz)}. {hint}")
