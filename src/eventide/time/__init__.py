"""Time in Eventide: an instant is an int64 of microseconds since the epoch, UTC; a duration is one of microseconds.

``durations`` and ``instants`` parse what users write and the event-time columns of their data. ``calendar`` has
calendar periods in time zones.
"""

from eventide.time.calendar import CALENDAR_UNITS, CalendarUnit, calendar_next, calendar_start, zone
from eventide.time.durations import duration, format_duration
from eventide.time.instants import (
    FIRST,
    LAST,
    MAX,
    MIN,
    as_datetime,
    earliest,
    format_instant,
    instant,
    known_datetime,
    time_column,
)
from eventide.time.units import from_unit, unit_meant

__all__ = [
    "CALENDAR_UNITS",
    "FIRST",
    "LAST",
    "MAX",
    "MIN",
    "CalendarUnit",
    "as_datetime",
    "calendar_next",
    "calendar_start",
    "duration",
    "earliest",
    "format_duration",
    "format_instant",
    "from_unit",
    "instant",
    "known_datetime",
    "time_column",
    "unit_meant",
    "zone",
]
