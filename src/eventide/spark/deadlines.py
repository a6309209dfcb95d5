"""Batches without data: a file in the control directory that starts one when a deadline has passed.

The query reads the directory as a source, so a wake-up belongs to a batch as a row does. The file is empty, so that it
is never read as a command. What the batch does follows from its logged time alone.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable

from eventide.spark.storage import Storage

_log = logging.getLogger("eventide")

PAUSE = 1_000_000
"""Microseconds between a batch and a wake-up. Deadlines that are close together share a batch. While data starts
batches more often than this, no wake-up is needed."""

ANSWER_PAUSE = 100_000
"""Microseconds between the answer of a call and a wake-up: answers that are close together share a batch."""

PREFIX = "wake-"
_RETRY = 5_000_000  # microseconds after which a wake-up that the storage has refused is written again
_LONGEST = 60.0  # seconds until the clock is read again: it may have been set, or the machine may have slept
_IDLE = 10.0  # seconds after which a thread that has nothing to wait for ends


class WakeUp:
    """Wakes one query. A daemon thread waits for its deadline; without one there is no thread."""

    def __init__(self, storage: Storage, folder: str, *, clock: Callable[[], int] | None = None) -> None:
        self._storage = storage
        self._folder = folder
        self._clock = clock or (lambda: time.time_ns() // 1000)
        self._changed = threading.Condition()
        self._deadline: int | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def set(self, deadline: int | None, *, pause: int = 0) -> None:
        """Wake the query at a batch time (microseconds); None: not at all. It replaces the last deadline.

        ``pause`` is the least time until then.
        """
        with self._changed:
            if self._closed:
                return
            self._deadline = None if deadline is None else max(_full_millisecond(deadline), self._clock() + pause)
            self._changed.notify()
            if deadline is not None and self._thread is None:
                self._thread = threading.Thread(target=self._wait, name="eventide-wake-up", daemon=True)
                self._thread.start()

    def soon(self, pause: int) -> None:
        """Wake the query after ``pause``, or at its deadline if that is earlier."""
        with self._changed:  # its lock can be taken again by the same thread
            due = self._clock() + pause
            self.set(due if self._deadline is None else min(self._deadline, due))

    def now(self) -> None:
        """Wake the query at once."""
        self._wake()

    def wake_if_due(self, deadline: int | None) -> bool:
        """Wake the query at once if the deadline has passed. Return whether it has."""
        due = deadline is not None and _full_millisecond(deadline) <= self._clock()
        if due:
            self._wake()
        return due

    def close(self) -> None:
        """End the thread: the query has ended."""
        with self._changed:
            self._closed, self._deadline = True, None
            self._changed.notify()

    def _wait(self) -> None:
        while (deadline := self._reached()) is not None:
            following = None
            try:
                self._wake()
            except Exception:  # of any storage
                _log.warning("A query cannot be woken for its deadline: %s", self._storage.location, exc_info=True)
                following = self._clock() + _RETRY
            with self._changed:
                if self._deadline == deadline:  # no batch has started
                    self._deadline = following

    def _reached(self) -> int | None:
        """Wait for the next deadline, and return it; None: there is none, and the thread ends."""
        with self._changed:
            while True:
                if self._deadline is None:
                    if self._closed or not self._changed.wait_for(self._has_work, _IDLE) or self._closed:
                        self._thread = None
                        return None
                    continue
                left = self._deadline - self._clock()
                if left <= 0:
                    return self._deadline
                self._changed.wait(min(left / 1e6, _LONGEST))

    def _has_work(self) -> bool:
        return self._closed or self._deadline is not None

    def _wake(self) -> None:
        self._storage.replace(f"{self._folder}/{PREFIX}{uuid.uuid4().hex}", b"")  # Spark reads a name only once


def is_wake_up(name: str) -> bool:
    """Return whether a file of the control directory is a wake-up, and not a command."""
    return name.startswith(PREFIX)


def _full_millisecond(time: int) -> int:
    """Spark logs batch times in milliseconds: the first one at which the deadline has passed.

    >>> _full_millisecond(1001), _full_millisecond(2000)
    (2000, 2000)
    """
    return -(-time // 1000) * 1000
