"""Names of the columns that messages and windows carry beside the user's own, and beside those of all operators."""

ORIGIN = "__origin"  # the stream that counts the offsets
OFFSET = "__offset"
SESSION = "__session"  # the key that separates windows, as text; empty where nothing does
EQUAL = "__equal"  # the join key, as text; empty where there is none
START_OFFSET = "__start_offset"
LAST_OFFSET = "__last_offset"
FIRST_TIME = "__first_time"  # least and greatest event time of a window's messages
LAST_TIME = "__last_time"
FRONT = "__front"  # how far the axis has come: the window's end must not be beyond it
WAS_FRONT = "__was_front"
FLOOR = "__floor"  # windows that end here, or before, are out of retention
NEW = "__new"  # whether a message takes part in this window: a join takes each once, in its first window
PENDING = "__pending"  # messages since the last output
WAITING = "__waiting"  # their offsets, where messages are the output
TOLD = "__told"  # outputs of a window so far
REPLACES = "__replaces"  # told windows that this one has swallowed since its last output
