"""A controller: makes the marks of its share of the streams.

Several may run on one store. Each says that it is alive; the streams are divided among those that are; and who makes
the marks of a stream holds its lease. When one dies its leases end, and the others take over. A lease has a fence that
grows with each owner, so that one who was asleep when it lost a stream cannot write a mark. All that a controller
knows lies in the store: it may die at any point, and time stands still until another one goes on.
"""

from __future__ import annotations

import logging
import threading
import uuid
from datetime import timedelta
from types import TracebackType
from typing import Self

from eventide.errors.marks import LeaseLostError
from eventide.marks.controller.packing import Packer
from eventide.marks.controller.sharing import share_of
from eventide.marks.controller.status import Status, stream_status
from eventide.marks.merging import merged
from eventide.marks.stores.store import Lease, Store
from eventide.time import duration

_log = logging.getLogger(__name__)


class Controller:
    """Makes marks in a store: ``step()`` by hand, or a thread between ``start()`` and ``stop()``, or a with statement.

    A controller that dies is replaced after ``lease``. Rounds come ``every`` so often; each stream's own
    ``mark_every`` says which of them may make a mark.

    >>> import pyarrow as pa
    >>> from eventide.marks.stores.memory import MemoryStore
    >>> from eventide.marks.stores.store import Config, Part
    >>> seconds = [0]
    >>> store = MemoryStore(clock=lambda: seconds[0] * 1_000_000)
    >>> info = store.create_stream("orders", Config(schema=pa.schema({"shop": pa.string()})))
    >>> seat = store.open_writer("orders", "till")
    >>> ends = store.append(seat, 1, [Part(0, 3, b"three events")], note=1_000)
    >>> seconds[0] = 5
    >>> Controller(store).step()
    >>> store.last_mark("orders")
    Mark(number=1, lower=1000, upper=1000, cut={0: 3}, at=5000000)
    """

    def __init__(
        self,
        store: Store,
        name: str | None = None,
        *,
        lease: str | timedelta = "10 seconds",
        every: str | timedelta = "1 second",
    ) -> None:
        self.store = store
        self.name = name or f"controller-{uuid.uuid4().hex[:12]}"
        self._lease = duration(lease, what="lease of Controller()")
        self._every = duration(every, what="every of Controller()")
        self._owned: dict[str, Lease] = {}
        self._failures: dict[str, str] = {}
        self._beaten = 0
        self._packer = Packer(store)
        self._stepping = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def streams(self) -> tuple[str, ...]:
        """Those whose lease it holds, as far as it knows."""
        return tuple(sorted(self._owned))

    def step(self) -> None:
        """One round: say that it is alive, take its share of the streams, merge the notes of those that are due, and
        pack some of their small blobs.
        """
        with self._stepping:
            self._beat(self.store.now())
            share = share_of(self.name, self.store.streams(), self.store.controllers() or [self.name])
            self._give_back({*self._owned} - {*share})
            self._failures = {stream: cause for stream, cause in self._failures.items() if stream in share}
            self._packer.keep(share)
            for stream in share:
                self._tend(stream)
            for stream in sorted(self._owned):
                self._pack(stream)
            self.store.expire_transactions()

    def run(self) -> None:
        """Rounds until ``stop()``. One that fails is told to the log, and the next one comes."""
        while not self._stopped.is_set():
            try:
                self.step()
            except Exception:
                _log.exception("The controller %s could not reach its store. It tries again.", self.name)
            self._stopped.wait(self._every / 1_000_000)

    def start(self) -> Self:
        """Run in a thread of this process."""
        if self._thread is None:
            self._stopped.clear()
            self._thread = threading.Thread(target=self.run, name=self.name, daemon=True)
            self._thread.start()
        return self

    def stop(self) -> None:
        """End the rounds, and give all streams back, so that others take them at once."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        with self._stepping:
            self._owned.clear()
            try:
                self.store.leave(self.name)
            except Exception as cause:  # its leases end by themselves
                _log.warning("The controller %s could not tell its store that it stops: %s", self.name, cause)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def status(self) -> Status:
        """What it knows of its streams."""
        known = {*self._owned, *self._failures} & {*self.store.streams()}
        streams = [stream_status(self.store, stream, self._failures.get(stream)) for stream in sorted(known)]
        return Status(self.name, tuple(self.store.controllers()), tuple(streams))

    def _beat(self, now: int) -> None:
        self.store.beat(self.name, now + self._lease)
        self._beaten = now

    def _give_back(self, streams: set[str]) -> None:
        for stream in sorted(streams):
            self.store.release(self._owned.pop(stream))

    def _tend(self, stream: str) -> None:
        """One stream's trouble is not that of the others."""
        try:
            if self._holds(stream):
                self._merge(stream)
            self._failures.pop(stream, None)
        except LeaseLostError:
            self._owned.pop(stream, None)
        except Exception as cause:
            self._owned.pop(stream, None)
            if stream in self.store.streams():  # and not deleted meanwhile
                _log.warning("No mark for stream %r: %s", stream, cause)
                self._failures[stream] = str(cause)

    def _pack(self, stream: str) -> None:
        try:
            self._packer.step(stream)
        except Exception as cause:  # it is only read more slowly
            if stream in self.store.streams():
                _log.warning("Stream %r was not packed: %s", stream, cause)

    def _holds(self, stream: str) -> bool:
        """Whether the stream is its own. The lease is prolonged in time, so that only the dead lose theirs."""
        now = self.store.now()
        if not 0 <= now - self._beaten < self._lease // 3:  # a long round is no sign of death
            self._beat(now)
        owned = self._owned.get(stream)
        if owned is not None and self._lease // 2 < owned.until - now <= self._lease:
            return True
        lease = self.store.acquire(stream, self.name, now + self._lease)
        if lease is None:
            self._owned.pop(stream, None)
            return False
        self._owned[stream] = lease
        return True

    def _merge(self, stream: str) -> None:
        store, lease = self.store, self._owned[stream]
        info, last, now = store.stream(stream), store.last_mark(stream), store.now()
        # A mark from the future is one of a clock that was set back since, and no reason to wait.
        waits = last is not None and 0 <= now - last.at < info.config.mark_every
        if waits and not info.segments.has_ended:
            return
        notes = store.note_columns(stream)
        made = merged(store.stream(stream), last, notes, store.lengths(stream), now)
        if made.mark is not None:
            store.put_mark(lease, made.mark, forget=made.forget)
        elif made.forget:
            store.forget(lease, made.forget)
