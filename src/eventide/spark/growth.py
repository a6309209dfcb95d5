"""When a query outgrows the driver: one warning, from what its batches have measured."""

from __future__ import annotations

from collections import deque
from statistics import median

BATCHES = 10
"""Batches that are looked at together: a single slow one (a backlog, a full window) is no reason to move."""

LONG_BATCH = 10.0
"""Seconds from which a batch is worth sharing: state on the executors adds up to a second to every batch."""

COMPUTE_SHARE = 0.7
"""Of the batch time that is spent on state in this process: only this part gets shorter on many executors."""

MEMORY_SHARE = 0.8
"""Of ``state_memory``: panes cannot be evicted, and a query needs room to grow until it has been moved."""


class Growth:
    """Watches the batches of one query."""

    def __init__(self, checkpoint: str, *, memory: int, buckets: int) -> None:
        self._memory = memory
        self._remedy = (
            f"Stop the query and move its state: eventide move {checkpoint} --to executors --buckets {buckets}"
        )
        self._seconds: deque[float] = deque(maxlen=BATCHES)
        self._compute: deque[float] = deque(maxlen=BATCHES)
        self._warned = False

    def message(self, *, seconds: float, compute: float, state_bytes: int) -> str | None:
        """Take in a batch and return the warning, once: how long it took, how much of that was spent on its state.

        >>> growth = Growth("checkpoints/orders", memory=1000, buckets=4)
        >>> growth.message(seconds=1, compute=0.5, state_bytes=100)
        >>> print(growth.message(seconds=1, compute=0.5, state_bytes=900))
        State takes 90 % of the memory that it may use in the driver (state_memory=). Stop the query and move its \
state: eventide move checkpoints/orders --to executors --buckets 4
        """
        self._seconds.append(seconds)
        self._compute.append(compute)
        reason = None if self._warned else self._memory_used(state_bytes) or self._time_used()
        if reason is None:
            return None
        self._warned = True
        return f"{reason} {self._remedy}"

    def _memory_used(self, state_bytes: int) -> str | None:
        share = state_bytes / max(self._memory, 1)
        if share < MEMORY_SHARE:
            return None
        return f"State takes {share * 100:.0f} % of the memory that it may use in the driver (state_memory=)."

    def _time_used(self) -> str | None:
        if len(self._seconds) < BATCHES or median(self._seconds) < LONG_BATCH:
            return None
        share = sum(self._compute) / sum(self._seconds)
        if share < COMPUTE_SHARE:
            return None
        return (
            f"Batches take {median(self._seconds):.0f} seconds, and the driver spends {share * 100:.0f} % of them on "
            "state."
        )
