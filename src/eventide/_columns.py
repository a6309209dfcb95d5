"""Names of internal columns. They begin with two underscores; a user's columns may not."""

from __future__ import annotations

TIME = "__time"  # event time in microseconds
UNREADABLE = "__unreadable"  # has a time, but none that is an instant
AT = "__at"  # position on the windows' axis: the time, or a row number
SLICE = "__slice"
START = "__start"
END = "__end"
ROWS = "__rows"  # hidden aggregate: how many rows
ADDED = "__added"
HOLD = "__hold"  # event time of a row that was not late; null where it was
HELD = "__held"  # hidden aggregate: the pane's output time, where it is not the window's end
WEIGHT = "__weight"  # of an input row: 1, or -1 where it is a retraction
NET = "__net"  # rows less retractions
SEEN = "__seen"  # rows of a key so far
FORGET = "__forget"  # the watermark at which the key is forgotten
PREVIOUS = "__previous"  # what the offsets of a row's origin had reached before the bundle
REACHED = "__reached"  # and after it
ROW = "__row"
GAP = "__gap"  # a session's gap, where each row has its own
NOW = "__now"  # the batch time
EMIT = "__emit"  # the window emits a pane in this step
EXPIRED = "__expired"  # the window is dropped after this step
FIRST = "__first"  # of the rows of a session or of an id: the first position or event time
LEFT, RIGHT = "__left", "__right"  # of a pair: the numbers of its rows
OLD_START, OLD_END = "__old_start", "__old_end"  # of a window whose bounds change
PANE_ROW = "__pane"  # the number of a pane in a frame
REASON = "__reason"
DETAIL = "__detail"

# Metadata of a pane, until it becomes columns of the pane row (``eventide.panes``).
TIMING = "__pane.timing"
INDEX = "__pane.index"
NONSPECULATIVE = "__pane.nonspeculative_index"
IS_FIRST = "__pane.is_first"
IS_LAST = "__pane.is_last"
PANE_TIME = "__pane.time"


ORIGIN = "__origin"  # the stream that counts the offsets
OFFSET = "__offset"
SESSION = "__session"  # the key that separates windows, as text; empty where nothing does
EQUAL = "__equal"  # the join key, as text; empty where there is none
START_OFFSET = "__start_offset"
LAST_OFFSET = "__last_offset"
FIRST_TIME = "__first_time"  # least and greatest event time of a window's messages
LAST_TIME = "__last_time"
STREAM_POSITION = "__stream_position"  # windows that end here, or before, are full
PREVIOUS_STREAM_POSITION = "__previous_stream_position"  # before this step
RETENTION_FLOOR = "__retention_floor"  # windows that end here, or before, are out of retention
CONTRIBUTES = "__contributes"  # whether a message counts in this window: a join emits it in its first window only
PENDING = "__pending"  # messages since the last output
PENDING_OFFSETS = "__pending_offsets"  # the offsets of these messages, where messages are the output
EMITTED_PANES = "__emitted_panes"  # panes of a window so far; null: the window is new
REPLACED = "__replaced"  # emitted windows that were merged into this one since its last pane

# Columns of outputs and windows in addition to those of panes.
WINDOW_FACTS = (
    "window_start_offset",
    "window_last_offset",
    "window_first_time",
    "window_last_time",
    "window_rows",
    "window_pending",
)
PANE_NUMBER, REPLACED_WINDOWS = "pane_number", "replaces"
