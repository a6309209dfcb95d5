"""Time that is noted: as users give it, or by the clock."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TypeAlias

from eventide.errors import writers as errors
from eventide.errors.marks import SeatTakenError
from eventide.time import FIRST, LAST, instant

Time: TypeAlias = int | str | datetime
"""An instant as users give it: microseconds, ISO-8601, or a datetime."""

Clock = Callable[[], int]
"""The time now, in microseconds."""

_log = logging.getLogger("eventide.marks")


def wall_clock() -> int:
    """Microseconds since the epoch."""
    return time.time_ns() // 1000


def micros(time: Time) -> int:
    """A time that a user notes, in microseconds since the epoch."""
    if isinstance(time, int) and not isinstance(time, bool):
        if not FIRST <= time <= LAST:
            raise errors.time_beyond(time)
        return time
    return instant(time, what="time to note")


class ClockNotes:
    """Which time a writer may note by the clock, and whether it should.

    >>> notes = ClockNotes(every=5, clock=lambda: 100)
    >>> notes.due()
    100
    >>> notes.noted(100)
    >>> notes.due() is None
    True
    """

    def __init__(self, every: int, clock: Clock, last: int | None = None, *, margin: int = 0) -> None:
        self._every = every
        self._margin = margin
        self._clock = clock
        self._last = last
        self._at: int | None = None
        self._open: dict[str, tuple[int, int]] = {}
        """Transactions that may still bring events: when each began, and when it ends."""

    def due(self, *, held: Iterable[int] = ()) -> int | None:
        """The time to note now; None if the last note is not old enough."""
        if self._at is not None and self._at <= self._clock() < self._at + self._every:
            return None
        return self.time(held=held)

    def time(self, *, without: str | None = None, held: Iterable[int] = (), final: bool = False) -> int:
        """Now; but not beyond the beginning of a transaction that may still bring events, nor beyond a time that is
        ``held``, and never back. ``margin`` before that: an event gets its time a little before it is written, and
        time may be noted between the two. Not so if this is the ``final`` one.

        A clock that is set back makes time stand still until it has caught up.
        """
        now = self._clock()
        self._open = {id_: times for id_, times in self._open.items() if now < times[1]}
        held = [*held, *(began for id_, (began, _) in self._open.items() if id_ != without)]
        time = min([now if final else now - self._margin, *(one - self._margin for one in held)])
        return time if self._last is None else max(self._last, time)

    def noted(self, time: int) -> None:
        """A time was noted."""
        self._last, self._at = time, self._clock()

    def opened(self, time: int) -> None:
        """A time was noted before anything was written: what is written first is still noted at once."""
        self._last = time

    def began(self, transaction: str, at: int, timeout: int) -> None:
        """A transaction began, and holds time up until it ends."""
        self._open[transaction] = at, at + timeout

    def waits_for(self, transaction: str) -> bool:
        """Whether time is held up for a transaction."""
        return transaction in self._open and self._clock() < self._open[transaction][1]

    def ended(self, transaction: str) -> None:
        """A transaction was committed or aborted."""
        self._open.pop(transaction, None)


class Ticker:
    """A thread that calls a method every so often, until it is stopped, or its object is gone."""

    def __init__(self, every: int, tick: Callable[[], None], name: str) -> None:
        self._tick = weakref.WeakMethod(tick)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(every / 1e6,), name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop, and wait until a call that is under way has ended."""
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
            except SeatTakenError as reason:
                _log.warning("%s stops noting time: %s", self._thread.name, reason)
                return
            except Exception:  # what is wrong may be over next time; whoever writes is told, too
                _log.warning("%s could not note the time", self._thread.name, exc_info=True)
            del tick
