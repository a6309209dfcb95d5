"""Calendar periods of a time zone: days of 23 and 25 hours, months, years, by column.

A period begins at the first instant at which local clocks show its first moment or a later one. So a day
whose midnight does not exist begins when the clocks are set, and one with two midnights at the earlier.
"""

from __future__ import annotations

from typing import Literal, get_args

import polars as pl

from eventide.errors import time as errors
from eventide.time.instants import MAX, MIN, instant
from eventide.time.zones import Zone, zone

CalendarUnit = Literal["hour", "day", "week", "month", "quarter", "year"]
CALENDAR_UNITS: tuple[CalendarUnit, ...] = get_args(CalendarUnit)

_HOUR = 3_600_000_000
_DAY = 24 * _HOUR
_WEEK = 7 * _DAY
_MONDAY = 4 * _DAY  # 1970-01-05
_MONTHS = {"month": "1mo", "quarter": "1q", "year": "1y"}

# Dates and clock rules repeat every 400 years: what no table of a zone holds is moved into one that does.
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
        raise errors.unknown_calendar_unit(unit, CALENDAR_UNITS)
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
