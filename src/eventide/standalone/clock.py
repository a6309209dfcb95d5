"""The time at which messages arrive: what the caller says, or else the wall clock."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TypeAlias

from eventide.errors import standalone as errors
from eventide.time import MIN, format_instant, instant

Moment: TypeAlias = int | str | datetime


class Clock:
    """Never goes back, although the wall clock may be set back, and a replay after a restart may bring old times."""

    def __init__(self) -> None:
        self.now = MIN
        self._given = MIN  # since this process began

    def at(self, now: Moment | None) -> int:
        """The time of a step, in microseconds."""
        if now is None:
            self.now = max(self.now, time.time_ns() // 1000)
            return self.now
        given = now if isinstance(now, int) else instant(now, what="now")
        if given < self._given:
            raise errors.clock_went_back(format_instant(self._given), format_instant(given))
        self._given = given
        self.now = max(self.now, given)
        return self.now
