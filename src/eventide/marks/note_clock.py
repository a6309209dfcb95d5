"""Times that writers note: as users pass them, or from the clock with ``note_time="auto"``."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TypeAlias

from eventide._arguments import is_integer
from eventide.errors import PlanError
from eventide.marks.errors import WriterFencedError
from eventide.time import FIRST, LAST, instant

Time: TypeAlias = int | str | datetime
"""An instant: microseconds, ISO-8601, or a datetime."""
Clock: TypeAlias = Callable[[], int]
"""Returns the current time in microseconds."""

_log = logging.getLogger("eventide.marks")


def to_micros(time: Time) -> int:
    """Convert a time to note to microseconds since the epoch."""
    if is_integer(time):
        if not FIRST <= time <= LAST:
            raise PlanError(
                f"{time} is not a time to note: it is out of the range of event time. Pass microseconds since the "
                "epoch; to end a stream, call stream.seal()."
            )
        return time
    return instant(time, what="time to note")


class NoteClock:
    """Decides which time of the clock a writer may note, and when.

    >>> clock = NoteClock(every=5, clock=lambda: 100)
    >>> clock.due_time()
    100
    >>> clock.record(100)
    >>> clock.due_time() is None
    True
    """

    def __init__(self, every: int, clock: Clock, last: int | None = None, *, margin: int = 0) -> None:
        self._every = every
        self._margin = margin
        self._clock = clock
        self._last = last
        self._recorded_at: int | None = None
        self._open: dict[str, tuple[int, int]] = {}
        """Begin and deadline of the open transactions."""

    def due_time(self, *, held_at: Iterable[int] = ()) -> int | None:
        """The time to note now; None if the last note is recent."""
        if self._recorded_at is not None and self._recorded_at <= self._clock() < self._recorded_at + self._every:
            return None
        return self.time(held_at=held_at)

    def time(self, *, except_for: str | None = None, held_at: Iterable[int] = (), is_final: bool = False) -> int:
        """The latest time that may be noted now. It never decreases, even if the clock does.

        It is not after the begin of an open transaction other than ``except_for``, nor after a time in ``held_at``.
        It is ``margin`` earlier than that, because an event gets its time a little before it is written; a final
        note needs no margin.
        """
        now = self._clock()
        self._open = {id_: times for id_, times in self._open.items() if now < times[1]}
        bounds = [*held_at, *(began for id_, (began, _) in self._open.items() if id_ != except_for)]
        time = min([now if is_final else now - self._margin, *(bound - self._margin for bound in bounds)])
        return time if self._last is None else max(self._last, time)

    def record(self, time: int) -> None:
        """Record that a time was noted."""
        self._last, self._recorded_at = time, self._clock()

    def record_initial(self, time: int) -> None:
        """Record the note of a writer that has not written yet. Its first events are still noted at once."""
        self._last = time

    def begin(self, transaction: str, at: int, timeout: int) -> None:
        """Hold the time until a transaction ends."""
        self._open[transaction] = at, at + timeout

    def is_holding_for(self, transaction: str) -> bool:
        """Whether the time is held for a transaction."""
        return transaction in self._open and self._clock() < self._open[transaction][1]

    def end(self, transaction: str) -> None:
        """Stop holding the time for a transaction."""
        self._open.pop(transaction, None)


class Ticker:
    """A thread that calls a method periodically, until it is stopped or its object is garbage-collected."""

    def __init__(self, every: int, tick: Callable[[], None], name: str) -> None:
        self._tick = weakref.WeakMethod(tick)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(every / 1e6,), name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop, and wait for a call in progress."""
        self._stopped.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self, seconds: float) -> None:
        while not self._stopped.wait(seconds):
            tick = self._tick()
            if tick is None:
                return
            try:
                tick()
            except WriterFencedError as reason:
                _log.warning("%s stops noting time: %s", self._thread.name, reason)
                return
            except Exception:  # may be transient; calls of the user report it, too
                _log.warning("%s could not note the time", self._thread.name, exc_info=True)
            del tick
