"""Writers: send events to a stream and declare the progress of event time."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, Literal

from eventide._arguments import is_integer
from eventide.errors import EventideError, PlanError, did_you_mean, shown
from eventide.marks.errors import WriterFencedError
from eventide.marks.events import Rows
from eventide.marks.note_clock import Clock, NoteClock, Ticker, Time
from eventide.marks.stores.store import TransactionStatus, wall_clock
from eventide.marks.streams import Stream, open_stream
from eventide.marks.transaction import Transaction
from eventide.marks.write_buffer import FIRST_AUTO_SEQUENCE, WriteBuffer
from eventide.marks.writer_session import WriterSender, WriterSession
from eventide.time import duration


class Writer:
    """Writes events to a stream, in order for each routing key, and notes event time.

    ``writer_id`` names the producer and stays the same after a restart. An id belongs to one writer at a time;
    ``take_over=True`` fences off the previous one. A writer without an id cannot note time. A forked process needs
    its own writer.

    ``routing_key`` names the column that selects the segment. Events without a key are routed by batch, and are in
    order within a batch only.

    Events are sent at ``batch_rows``, with ``flush()``, with a note, and at the end; they are durable then. If sending
    fails, the events stay in ``unsent`` and are sent again with the next call: nothing is lost or stored twice. The end
    of a ``with`` block sends everything, also after an exception; for all or nothing, use a transaction.

    ``note_time="auto"`` notes the wall clock from the start, at most every ``note_every``, in a thread and with every
    send. It suits events whose time is the time of writing. The noted time is ``note_margin`` behind the clock: an
    event must be written within that time after its timestamp was taken, also by other threads. With a ``clock`` of
    your own there is no thread: call ``tick()``. All methods are thread-safe.

    >>> import pyarrow as pa
    >>> from eventide.marks.stores.memory import MemoryStore
    >>> from eventide.marks.stores.store import Config
    >>> store = MemoryStore()
    >>> _ = store.create_stream("orders", Config(schema=pa.schema({"shop": pa.string(), "price": pa.int64()})))
    >>> with Writer(Stream(store, "orders"), "till-1", routing_key="shop") as till:
    ...     till.write({"shop": "kiel", "price": 3})
    ...     till.write({"shop": "bonn", "price": 4})
    ...     till.note_time("2026-01-01T12:00:00Z")
    >>> store.lengths("orders")
    {0: 2}
    """

    def __init__(
        self,
        stream: str | Stream,
        writer_id: str | None = None,
        *,
        note_time: Literal["manual", "auto"] = "manual",
        routing_key: str | None = None,
        batch_rows: int = 1000,
        note_every: str | timedelta = "5 seconds",
        note_margin: str | timedelta = "1 second",
        take_over: bool = False,
        token: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        _check_options(writer_id, note_time, batch_rows)
        every = duration(note_every, what="note_every of Writer()")
        margin = duration(note_margin, what="note_margin of Writer()", zero=True)
        self.stream = stream if isinstance(stream, Stream) else open_stream(stream, token=token)
        self.writer_id = writer_id or f"writer-{uuid.uuid4().hex}"
        self._owns_store = isinstance(stream, str)
        self._schema, self._routing_column, self._batch_rows = self.stream.schema, routing_key, batch_rows
        if routing_key is not None and routing_key not in self._schema.names:
            raise PlanError(
                f"Writer(routing_key={routing_key!r}): the stream has no such column. "
                f"{did_you_mean(routing_key, self._schema.names)}"
            )
        store, name = self.stream.store, self.stream.name
        self._session = WriterSession(store, store.open_writer(name, self.writer_id, take_over=take_over))
        last_sequence = max(self._session.sequence, FIRST_AUTO_SEQUENCE)
        self._buffer = WriteBuffer(self._schema, routing_key, self.writer_id, last_sequence)
        if self._session.sequence >= FIRST_AUTO_SEQUENCE:
            self._buffer.use_sequences(explicit=False)
        self._clock = clock or wall_clock
        note_clock: NoteClock | None = None
        if note_time == "auto":
            noted = (note.time for note in store.notes(name) if note.writer == self.writer_id)
            note_clock = NoteClock(every, self._clock, next(noted, None), margin=margin)
        self._sender = WriterSender(self._session, self._buffer, note_clock, has_id=writer_id is not None)
        self._open()
        self._ticker: Ticker | None = None
        if note_clock is not None and clock is None:
            self._ticker = Ticker(every, self._tick, f"writer {self.writer_id!r}")

    def __repr__(self) -> str:
        return f"<Writer {self.writer_id!r} of {self.stream.name!r}>"

    @property
    def last_sequence(self) -> int:
        """The highest explicit ``sequence`` stored under this id, also by earlier writers; 0 if there is none."""
        return self._session.explicit_sequence

    @property
    def unsent(self) -> list[Mapping[str, Any]]:
        """The events that are not known to be stored, in order. A fenced writer still has them."""
        with self._session.lock:
            return self._buffer.events

    def write(self, event: Mapping[str, Any], routing_key: str | None = None) -> None:
        """Write one event. Missing columns are null. ``routing_key`` overrides the routing column of the writer."""
        with self._session.lock:
            self._sender.check_open()
            self._buffer.use_sequences(explicit=False)
            self._buffer.add(event, routing_key)
            if self._sender.rejected:
                self._sender.raise_rejected()
            if self._buffer.unbatched >= self._batch_rows:
                self.flush()

    def append(self, rows: Rows, *, sequence: int | None = None, time: Time | None = None) -> bool:
        """Append many events atomically. They are durable when this returns. ``time`` is noted in the same step.

        An explicit ``sequence`` (growing, from 1) makes the append idempotent across processes: if it or a later one
        is already stored under this id, nothing happens and False is returned. Such rows are not buffered; if the
        append fails, repeat it under the same sequence. Until it or a later one is stored, no time is noted beyond the
        first attempt. An id that was used without explicit sequences accepts none.
        """
        with self._sender.call():
            if sequence is not None and not is_integer(sequence, at_least=1, at_most=FIRST_AUTO_SEQUENCE - 1):
                raise PlanError(
                    f"append(sequence={shown(sequence)}): it must be a growing whole number, from 1 to 2**62 - 1."
                )
            self._buffer.use_sequences(explicit=sequence is not None)
            if sequence is not None:
                if sequence <= self._session.sequence:
                    return False
                batch = self._buffer.new_batch(sequence, rows)
                self._sender.append_explicit(batch, time, self._clock())
                return True
            noted = self._sender.due_time() if time is None else self._sender.check_time(time)
            self._buffer.make_batch()
            self._buffer.add_batch(rows, is_atomic=True)
            self._sender.send(noted)
            return True

    def flush(self) -> None:
        """Send everything. It is durable when this returns."""
        with self._sender.call():
            self._sender.flush()

    def note_time(self, time: Time, *, nothing_written: bool = False) -> None:
        """Declare that everything of this producer before ``time`` is written (microseconds, ISO-8601, or a datetime).

        Buffered events are sent in the same step. A producer that has never written passes ``nothing_written=True``.
        A time before the last one is rejected; buffered events are sent anyway.
        """
        with self._sender.call():
            self._sender.note(self._sender.check_time(time), nothing_written=nothing_written)

    def tick(self) -> None:
        """With ``note_time="auto"``: note the clock if a note is due. The thread of the writer does this itself."""
        with self._sender.call():
            self._sender.tick()

    def begin(self, *, timeout: str | timedelta = "30 seconds") -> Transaction:
        """Begin a transaction: its events become visible all at once, at its commit, or never.

        It is aborted unless it is committed within ``timeout``. Several may be open at once.
        """
        length = duration(timeout, what="timeout of begin()")
        with self._sender.call():
            id_ = self._sender.begin(timeout=length, now=self._clock())
            buffer = WriteBuffer(self._schema, self._routing_column, id_)
            return Transaction(id_, self._sender, buffer, self._batch_rows)

    def transaction_status(self, id_: str) -> TransactionStatus | Literal["unknown"]:
        """The status of a transaction of this or an earlier writer; ``unknown`` if it ended long ago."""
        return self._session.transaction_status(id_)

    def close(self) -> None:
        """Send everything, abort open transactions and release the id. Idempotent.

        In a forked process it does nothing: the writer belongs to the process that opened it.
        """
        if self._session.is_forked:
            return
        with self._session.lock:
            if not self._sender.is_closed:
                with self._sender.call(raise_rejected=False):
                    self._close()
        if self._ticker is not None:  # only now: if closing fails, the thread continues to note time
            self._ticker.stop()
        self._sender.raise_rejected()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> None:
        try:
            self._sender.open()
        except BaseException:
            with suppress(EventideError):  # nothing else would release the id
                self._session.store.close_writer(self._session.handle)
            raise

    def _tick(self) -> None:
        """Tick in the thread. The next call of the user raises the errors of events that do not fit."""
        with self._session.lock:
            if not self._sender.is_closed:
                self._sender.rejected += self._buffer.make_valid_batch()
                self._sender.tick()

    def _close(self) -> None:
        self._sender.rejected += self._buffer.make_valid_batch()  # an event that does not fit must not block closing
        try:
            self._sender.close()
            self._session.store.close_writer(self._session.handle)
        except WriterFencedError:
            if len(self._buffer):
                raise  # otherwise nothing is lost
        self._sender.is_closed = True
        if self._owns_store:
            self.stream.store.close()


def _check_options(writer_id: object, note_time: object, batch_rows: object) -> None:
    if writer_id is not None and (not isinstance(writer_id, str) or not writer_id):
        raise PlanError(
            f"Writer(writer_id={shown(writer_id)}): it must be a non-empty string that stays the same after a restart."
        )
    if note_time not in ("manual", "auto"):
        raise PlanError(
            f"Writer(note_time={shown(note_time)}): it must be 'manual' (you call note_time()) or 'auto' (wall clock)."
        )
    if note_time == "auto" and writer_id is None:
        raise PlanError("Writer(note_time='auto') needs a writer_id: time is noted under it, also after a restart.")
    if not is_integer(batch_rows, at_least=1):
        raise PlanError(f"Writer(batch_rows={shown(batch_rows)}): it must be a whole number, 1 or more.")
