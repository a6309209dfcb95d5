"""Names of the columns that operators work with. They begin with two underscores; a user's columns may not."""

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
DIFF = "__diff"
SEEN = "__seen"  # rows of a key so far
FORGET = "__forget"  # the watermark at which the key is forgotten
WAS = "__was"  # what the offsets of a row's origin had reached before the bundle
REACHED = "__reached"  # and after it
ROW = "__row"
REASON = "__reason"
DETAIL = "__detail"

# What a pane says of itself, until it becomes the fields of ``pane``.
TIMING = "__pane.timing"
INDEX = "__pane.index"
NONSPECULATIVE = "__pane.nonspeculative_index"
IS_FIRST = "__pane.is_first"
IS_LAST = "__pane.is_last"
PANE_TIME = "__pane.time"
