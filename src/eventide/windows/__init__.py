"""Kinds of windows. Each file is one kind: a frozen description and its columnar assignment."""

from eventide.windows.calendar import Calendar, calendar
from eventide.windows.cumulate import Cumulate, cumulate
from eventide.windows.everything import Everything, global_window
from eventide.windows.inherit import Inherit, inherit
from eventide.windows.kind import Axis, WindowKind
from eventide.windows.preceding import Preceding, range
from eventide.windows.rows import row_sessions, rows
from eventide.windows.sessions import Sessions, sessions
from eventide.windows.sliding import Sliding, sliding
from eventide.windows.tumbling import Tumbling, tumbling

__all__ = [
    "Axis",
    "Calendar",
    "Cumulate",
    "Everything",
    "Inherit",
    "Preceding",
    "Sessions",
    "Sliding",
    "Tumbling",
    "WindowKind",
    "calendar",
    "cumulate",
    "global_window",
    "inherit",
    "range",
    "row_sessions",
    "rows",
    "sessions",
    "sliding",
    "tumbling",
]
