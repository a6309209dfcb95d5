"""Every message that a user can see, and the few exception types that carry them.

Messages say what is wrong, where, and how to mend it. They are built here, one file per concept, so that
their tone stays one and the code that raises them stays short: ``raise errors.bad_duration(text)``.
"""

from eventide.errors.kinds import DataError, DriverLimitWarning, EventideError, LateRowsWarning, PlanError, Refused

__all__ = ["DataError", "DriverLimitWarning", "EventideError", "LateRowsWarning", "PlanError", "Refused"]
