"""Calendar windows: days, weeks, months and years as people of a time zone count them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import polars as pl

from eventide._display import described
from eventide._hints import with_option_hints
from eventide.errors import PlanError, did_you_mean, shown
from eventide.time import calendar_next, calendar_start
from eventide.windows.kind import Axis

Unit = Literal["hour", "day", "week", "month", "quarter", "year"]


@described
@dataclass(frozen=True)
class Calendar:
    """The calendar period that holds a row's time; days of 23 and 25 hours are what they are."""

    unit: Unit
    tz: str = "UTC"
    axis: Axis = "time"
    shared = False

    def slice_of(self, at: pl.Expr) -> pl.Expr:
        """The first instant of the period."""
        return calendar_start(at, self.unit, self.tz)

    def windows_of(self, slices: pl.Series) -> pl.DataFrame:
        """One window a period."""
        start = pl.col("slice")
        return pl.DataFrame({"slice": slices}).select(
            "slice", start=start, end=calendar_next(start, self.unit, self.tz)
        )

    def describe(self) -> str:
        """One line for ``explain()``."""
        return f"calendar {self.unit}, {self.tz}"


@with_option_hints
def calendar(unit: Unit, *, tz: str = "UTC") -> Calendar:
    """One window per day, week (from Monday), month, quarter or year in a time zone.

    >>> calendar("month", tz="Europe/Berlin").describe()
    'calendar month, Europe/Berlin'
    """
    if not isinstance(tz, str):
        raise PlanError(f"calendar(tz={shown(tz)}): name a time zone, such as 'UTC' or 'Europe/Berlin'.")
    if unit not in get_args(Unit):
        raise PlanError(f"calendar(): there is no unit {shown(unit)}. {did_you_mean(str(unit), get_args(Unit))}")
    pl.select(calendar_start(pl.lit(0, pl.Int64), unit, tz))  # an unknown zone fails here, not on the first row
    return Calendar(unit, tz)
