"""Kinds of windows, each a frozen description with its columnar assignment, and the rules of lateness."""

from eventide.windows.calendar import Calendar, calendar
from eventide.windows.global_window import GlobalWindow, Inherit, global_window, inherit
from eventide.windows.kind import Axis, WindowKind
from eventide.windows.rows import row_sessions, rows
from eventide.windows.sessions import Sessions, sessions
from eventide.windows.tumbling_sliding import Cumulate, Sliding, Tumbling, cumulate, sliding, tumbling

__all__ = [
    "Axis",
    "Calendar",
    "Cumulate",
    "GlobalWindow",
    "Inherit",
    "Sessions",
    "Sliding",
    "Tumbling",
    "WindowKind",
    "calendar",
    "cumulate",
    "global_window",
    "inherit",
    "row_sessions",
    "rows",
    "sessions",
    "sliding",
    "tumbling",
]
