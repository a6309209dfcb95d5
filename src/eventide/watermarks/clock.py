"""The clock that silence is measured on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PolledClock:
    """The time of the batches, less the time in which the source was not polled. It never goes back.

    A query that was stopped for an hour has not waited an hour for anybody.

    >>> clock = PolledClock(now=100).ticked(110, polled=True).ticked(500, polled=False)
    >>> clock.time, clock.now
    (110, 500)
    """

    now: int
    unpolled: int = 0

    @property
    def time(self) -> int:
        """How far the clock has come."""
        return self.now - self.unpolled

    def ticked(self, now: int, *, polled: bool) -> PolledClock:
        """The clock at the next batch."""
        if now <= self.now:
            return self
        return PolledClock(now, self.unpolled + (0 if polled else now - self.now))
