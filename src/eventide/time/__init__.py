"""Time as Eventide counts it: an instant is an int64 of microseconds since the epoch, UTC; so is a duration.

``durations`` and ``instants`` read what users write, ``columns`` reads what their data holds, ``calendar``
cuts the axis at local midnights, and ``zones`` knows when the clocks of a time zone are set.
"""

from eventide.time.calendar import CALENDAR_UNITS, CalendarUnit, calendar_next, calendar_start
from eventide.time.columns import time_column
from eventide.time.durations import duration, format_duration
from eventide.time.instants import FIRST, LAST, MAX, MIN, earliest, format_instant, instant
from eventide.time.zones import zone

__all__ = [
    "CALENDAR_UNITS",
    "FIRST",
    "LAST",
    "MAX",
    "MIN",
    "CalendarUnit",
    "calendar_next",
    "calendar_start",
    "duration",
    "earliest",
    "format_duration",
    "format_instant",
    "instant",
    "time_column",
    "zone",
]
