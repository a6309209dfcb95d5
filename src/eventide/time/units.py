"""The unit of times that are numbers, where it is not stated."""

from __future__ import annotations

from typing import Literal, TypeAlias

import polars as pl

from eventide.kernels.intervals import int_bounds
from eventide.time.instants import format_instant

Unit: TypeAlias = Literal["s", "ms", "us", "ns"]
"""A unit of numbers."""

UNITS: dict[str, str] = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
"""The units from the coarsest to the finest, and their names."""

_DAY = 86_400_000_000
_YEAR_1980, _YEAR_2000, _YEAR = 3_652 * _DAY, 10_957 * _DAY, 366 * _DAY
_PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}  # microseconds
_MISSING = 1_000_000  # numbers up to it are not counted


def unit_meant(times: pl.Series, now: int, stated: Unit = "us") -> tuple[Unit, int | float] | None:
    """The unit that numbers seem to have in place of the ``stated`` one, and one of them; None: it may be right.

    Another unit is meant if nine in ten of the numbers are between 1980 and a year after ``now`` in this unit: as
    microseconds they would be in January 1970, or thousands of years ahead. Numbers close to zero are not counted,
    since they often stand for a missing time.

    >>> now = 1_772_366_480_000_000
    >>> unit_meant(pl.Series([5, 1_772_366_480, 1_772_366_483]), now), unit_meant(pl.Series([1, 2]), now)
    (('s', 1772366480), None)
    >>> unit_meant(pl.Series([1_772_366_480_000]), now, "s"), unit_meant(pl.Series([1_772_366_480]), now, "s")
    (('ms', 1772366480000), None)
    """
    if times.dtype.is_float():
        times = times.filter(times.is_finite())
    elif not times.dtype.is_integer():
        return None
    bounds = int_bounds(times)
    if bounds is None:
        return None
    coarser = list(UNITS)[: list(UNITS).index(stated)]
    units: tuple[Unit, ...] = ("s", "ms", "us", "ns")
    for unit in units:
        first, turn, last = (_in_unit(time, unit) for time in (_YEAR_1980, _YEAR_2000, now + _YEAR))
        if unit == stated or bounds[1] < first or bounds[0] > last:
            continue
        known = times.filter(~times.is_between(-_MISSING, _MISSING))
        plausible = known.filter(known.is_between(first, last))
        if 10 * len(plausible) < 9 * len(known) or plausible.is_empty():
            continue
        if unit not in coarser or not _by_hand(plausible, turn, _in_unit(1_000_000, stated)):
            return unit, plausible[0]
    return None


def from_unit(value: int | float, unit: Unit) -> int:
    """A number of a unit in microseconds.

    >>> from_unit(1.5, "s"), from_unit(1999, "ns")
    (1500000, 1)
    """
    return int(value // 1_000) if unit == "ns" else int(value * _PER_UNIT[unit])


def _in_unit(us: int, unit: Unit) -> int:
    return us * 1_000 if unit == "ns" else us // _PER_UNIT[unit]


def _by_hand(times: pl.Series, turn: int, second: int) -> bool:
    """Whether numbers look like times after 1970 that were written by hand: whole minutes, or whole seconds.

    From ``turn`` on, round seconds such as 1,700,000,000 are more likely than half an hour after 1970. ``second`` is
    one second in the stated unit.
    """
    return bool((times % (60 * second) == 0).all() or ((times % second == 0).all() and (times < turn).all()))


def in_other_unit(unit: Unit, value: int | float, stated: Unit = "us") -> str:
    """Say what a number is in the stated unit, and what it would be in the one that seems to be meant.

    >>> in_other_unit("s", 1_772_366_480).partition(": ")[2]
    '1772366480 is 1970-01-01T00:29:32.366480Z. In seconds it would be 2026-03-01T12:01:20Z.'
    """
    return (
        f"are numbers, which are read as {UNITS[stated]}: {value} is {format_instant(from_unit(value, stated))}. "
        f"In {UNITS[unit]} it would be {format_instant(from_unit(value, unit))}."
    )
