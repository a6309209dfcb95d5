"""The controller: merges the notes of writers into marks.

Several controllers may share a store. Each sends heartbeats; the streams are distributed among the live ones, and the
owner of a stream holds its lease. When a controller dies, its leases end and the others take over. Each lease has a
fence that grows with the owner, so a controller that lost a stream while it was suspended cannot write a mark. All
state is in the store: a controller may die at any point, and time stands still until another one takes over.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from hashlib import blake2b
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from eventide.marks.compaction import Compactor
from eventide.marks.errors import LeaseLostError
from eventide.marks.mark import Mark, NoteColumns
from eventide.marks.merge import live_writers, merge_notes
from eventide.marks.stores.store import Lease, Store
from eventide.time import duration

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StreamStatus:
    """The status of a stream, with its writers sorted by name."""

    stream: str
    mark: Mark | None
    lag: int | None
    """How far the lower time of the last mark is behind the store's clock, in microseconds."""
    live: tuple[str, ...]
    silent: tuple[str, ...]
    """Writers that noted nothing for ``writer_timeout``: they do not hold back the marks."""
    closed: tuple[str, ...]
    failure: str | None
    """Why the last round could not create a mark."""


@dataclass(frozen=True)
class Status:
    """The status of a controller: all live controllers, and its own streams."""

    controller: str
    controllers: tuple[str, ...]
    streams: tuple[StreamStatus, ...]


class Controller:
    """Creates the marks of a store: by ``step()``, or in a thread between ``start()`` and ``stop()``.

    As a context manager it runs in a thread. A dead controller is replaced after ``lease``. ``every`` is the time
    between rounds; ``mark_every`` of each stream limits how often a round creates a mark.

    >>> import pyarrow as pa
    >>> from eventide.marks.stores.memory import MemoryStore
    >>> from eventide.marks.stores.store import Config, Part
    >>> seconds = [0]
    >>> store = MemoryStore(clock=lambda: seconds[0] * 1_000_000)
    >>> info = store.create_stream("orders", Config(schema=pa.schema({"shop": pa.string()})))
    >>> handle = store.open_writer("orders", "till")
    >>> ends = store.append(handle, 1, [Part(0, 3, b"three events")], note=1_000)
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
        self._leases: dict[str, Lease] = {}
        self._failures: dict[str, str] = {}
        self._last_heartbeat = 0
        self._compactor = Compactor(store)
        self._step_lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"<Controller {self.name!r}>"

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams whose lease it holds, as far as it knows."""
        return tuple(sorted(self._leases))

    def step(self) -> None:
        """Execute one round: heartbeat, acquire streams, create due marks, compact, expire transactions."""
        with self._step_lock:
            self._heartbeat(self.store.now())
            streams = streams_of(self.name, self.store.streams(), self.store.controllers() or [self.name])
            for stream in sorted({*self._leases} - {*streams}):
                self.store.release(self._leases.pop(stream))
            self._failures = {stream: cause for stream, cause in self._failures.items() if stream in streams}
            self._compactor.retain(streams)
            for stream in streams:
                self._update_mark(stream)
            for stream in sorted(self._leases):
                self._compact(stream)
            self.store.expire_transactions()

    def run(self) -> None:
        """Execute rounds until ``stop()``. A failed round is logged, and the next one follows."""
        while not self._stopped.is_set():
            try:
                self.step()
            except Exception:
                _log.exception("Controller %s could not reach its store and will retry.", self.name)
            self._stopped.wait(self._every / 1_000_000)

    def start(self) -> Self:
        """Run in a thread of this process."""
        if self._thread is None:
            self._stopped.clear()
            self._thread = threading.Thread(target=self.run, name=self.name, daemon=True)
            self._thread.start()
        return self

    def stop(self) -> None:
        """Stop the rounds and release all streams, so that other controllers take over at once."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        with self._step_lock:
            self._leases.clear()
            try:
                self.store.leave(self.name)
            except Exception as cause:  # its leases expire anyway
                _log.warning("Controller %s could not release its leases: %s", self.name, cause)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def status(self) -> Status:
        """The status of the controller and its streams."""
        streams = {*self._leases, *self._failures} & {*self.store.streams()}
        statuses = [stream_status(self.store, stream, self._failures.get(stream)) for stream in sorted(streams)]
        return Status(self.name, tuple(self.store.controllers()), tuple(statuses))

    def _heartbeat(self, now: int) -> None:
        self.store.heartbeat(self.name, now + self._lease)
        self._last_heartbeat = now

    def _update_mark(self, stream: str) -> None:
        """Create the mark of a stream. A failure does not affect other streams."""
        try:
            if self._acquire(stream):
                self._merge(stream)
            self._failures.pop(stream, None)
        except LeaseLostError:
            self._leases.pop(stream, None)
        except Exception as cause:
            self._leases.pop(stream, None)
            if stream in self.store.streams():  # otherwise it was deleted
                _log.warning("No mark for stream %r: %s", stream, cause)
                self._failures[stream] = str(cause)

    def _compact(self, stream: str) -> None:
        try:
            self._compactor.step(stream)
        except Exception as cause:  # reads are slower, but correct
            if stream in self.store.streams():
                _log.warning("Stream %r was not compacted: %s", stream, cause)

    def _acquire(self, stream: str) -> bool:
        """Whether it holds the lease of a stream, which it renews early."""
        now = self.store.now()
        if not 0 <= now - self._last_heartbeat < self._lease // 3:  # during a long round
            self._heartbeat(now)
        current = self._leases.get(stream)
        if current is not None and self._lease // 2 < current.until - now <= self._lease:
            return True
        lease = self.store.acquire(stream, self.name, now + self._lease)
        if lease is None:
            self._leases.pop(stream, None)
            return False
        self._leases[stream] = lease
        return True

    def _merge(self, stream: str) -> None:
        store, lease = self.store, self._leases[stream]
        info, last, now = store.stream(stream), store.last_mark(stream), store.now()
        # A mark from the future was created before the clock was set back, so the next one is due.
        is_recent = last is not None and 0 <= now - last.at < info.config.mark_every
        if is_recent and not info.segments.has_ended:
            return
        notes = store.note_columns(stream)
        result = merge_notes(store.stream(stream), last, notes, store.lengths(stream), now)
        if result.mark is not None:
            store.put_mark(lease, result.mark, obsolete=result.obsolete)
        elif result.obsolete:
            store.delete_notes(lease, result.obsolete)


def owner_of(stream: str, controllers: Sequence[str]) -> str:
    """The controller that owns a stream, by rendezvous hashing: few streams move when a controller joins or leaves.

    >>> [owner_of(stream, ["a", "b", "c"]) for stream in ("orders", "returns", "clicks", "visits")]
    ['c', 'c', 'a', 'a']
    >>> [owner_of(stream, ["a", "c"]) for stream in ("orders", "returns", "clicks", "visits")]
    ['c', 'c', 'a', 'a']
    """

    def weight(controller: str) -> tuple[bytes, str]:
        return blake2b(f"{controller}\0{stream}".encode(), digest_size=8).digest(), controller

    return max(controllers, key=weight)


def streams_of(controller: str, streams: Iterable[str], controllers: Sequence[str]) -> list[str]:
    """The streams that a controller owns."""
    return [stream for stream in streams if owner_of(stream, controllers) == controller]


def stream_status(store: Store, stream: str, failure: str | None) -> StreamStatus:
    """The status of a stream in a store."""
    notes, mark, now = store.note_columns(stream), store.last_mark(stream), store.now()
    live = live_writers(notes, store.stream(stream).config.writer_timeout, now)
    return StreamStatus(
        stream,
        mark,
        None if mark is None else max(0, now - mark.lower),
        _writer_names(notes, live),
        _writer_names(notes, ~live & ~notes.closed),
        _writer_names(notes, notes.closed),
        failure,
    )


def _writer_names(notes: NoteColumns, selected: npt.NDArray[np.bool_]) -> tuple[str, ...]:
    return tuple(sorted(notes.writers[row] for row in np.flatnonzero(selected).tolist()))
