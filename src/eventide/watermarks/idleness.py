"""When an origin is idle: it has sent nothing for ``idle_timeout`` of polled time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eventide.kernels.intervals import NO_INTS, Bools, Ints


@dataclass(frozen=True, slots=True)
class PolledClock:
    """The time of the batches without the time in which the source was not polled. It never decreases.

    A query that was stopped for an hour has not waited an hour for its origins.

    >>> clock = PolledClock(now=100).tick(110, polled=True).tick(500, polled=False)
    >>> clock.time, clock.now
    (110, 500)
    """

    now: int
    unpolled: int = 0

    @property
    def time(self) -> int:
        """The polled time."""
        return self.now - self.unpolled

    def tick(self, now: int, *, polled: bool) -> PolledClock:
        """The clock at the next batch."""
        if now <= self.now:
            return self
        return PolledClock(now, self.unpolled + (0 if polled else now - self.now))


def idle_origins(active_at: Ints, present: Bools, clock: int, idle_timeout: int | None) -> Ints:
    """The origins among those ``present`` whose last activity is ``idle_timeout`` ago, or longer.

    >>> idle_origins(np.array([0, 5, 9]), np.array([False, True, True]), clock=15, idle_timeout=10).tolist()
    [1]
    """
    return NO_INTS if idle_timeout is None else np.flatnonzero(present & (clock - active_at >= idle_timeout))


def next_idle_time(active_at: Ints, active: Bools, clock: int, idle_timeout: int) -> int | None:
    """The polled time at which the next ``active`` origin becomes idle; None if none does.

    >>> next_idle_time(np.array([0, 5, 9]), np.array([False, True, True]), clock=10, idle_timeout=10)
    15
    """
    times = active_at[active & (active_at > clock - idle_timeout)]
    return int(times.min()) + idle_timeout if len(times) else None
