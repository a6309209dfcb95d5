"""Writers: events into a stream, and what their producer knows of time."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, Literal

from eventide.errors import EventideError, PlanError
from eventide.errors import writers as errors
from eventide.errors.marks import SeatTakenError
from eventide.marks.desk import Desk
from eventide.marks.events import Rows
from eventide.marks.noting import Clock, ClockNotes, Ticker, Time, wall_clock
from eventide.marks.outgoing import AUTOMATIC, Outgoing
from eventide.marks.sending import Sending
from eventide.marks.streams import Stream, open_stream
from eventide.marks.transaction import Status, Transaction, status_of
from eventide.time import duration


class Writer:
    """Writes events to a stream, in order for each routing key, and says how far its time has come.

    ``writer_id`` names the producer, and stays the same when it is restarted; each id belongs to one writer at a time
    (``take_over=True`` ends the one that was there). Without an id a writer cannot note time. A process that is forked
    needs a writer of its own.

    ``routing_key`` names the column that decides the segment. Events without a key go to the segments by whole
    batches, and are in order within a batch only.

    Events are sent when there are ``batch_rows`` of them, with ``flush()``, with a note, and at the end; they are
    durable then. If sending fails, the events are kept (``unsent``) and sent again with the next call: nothing is
    lost, and nothing is stored twice. At the end of a ``with`` block all that was written is sent, whether or not
    there was an exception; use a transaction where all or nothing is wanted.

    With ``note_time="auto"`` the wall clock is noted, from the start and at most ``note_every`` so often, by a thread
    and whenever something is sent: right for events that have the time at which they are written. What is noted is
    ``note_margin`` behind the clock: an event must be written at most that long after it got its time, also by other
    threads. With a ``clock`` of your own there is no thread: call ``tick()``. All methods may be called from several
    threads.

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
        _check(writer_id, note_time, batch_rows)
        every = duration(note_every, what="note_every of Writer()")
        margin = duration(note_margin, what="note_margin of Writer()", zero=True)
        found = stream if isinstance(stream, Stream) else open_stream(stream, token=token)
        schema = found.schema
        if routing_key is not None and routing_key not in schema.names:
            raise errors.unknown_routing_column(routing_key, schema.names)
        self.stream = found
        self.writer_id = writer_id or f"writer-{uuid.uuid4().hex}"
        self._schema, self._column, self._rows = schema, routing_key, batch_rows
        self._desk = Desk(found.store, found.store.open_writer(found.name, self.writer_id, take_over=take_over))
        self._out = Outgoing(schema, routing_key, self.writer_id, max(self._desk.sequence, AUTOMATIC))
        if self._desk.sequence >= AUTOMATIC:
            self._out.number_by(own=False)
        self._closed = False
        self._refused: list[PlanError] = []
        """Of events that the thread found unfit, until whoever wrote them is told."""
        self._own_store = isinstance(stream, str)
        self._clock = clock or wall_clock
        self._notes: ClockNotes | None = None
        self._ticker: Ticker | None = None
        if note_time == "auto":
            own = (note.time for note in found.store.notes(found.name) if note.writer == self.writer_id)
            self._notes = ClockNotes(every, self._clock, next(own, None), margin=margin)
        self._sending = Sending(self._desk, self._out, self._notes, named=writer_id is not None)
        self._begin_noting()
        if self._notes is not None and clock is None:
            self._ticker = Ticker(every, self._tick_unseen, f"writer {self.writer_id!r}")

    @property
    def last_sequence(self) -> int:
        """The highest ``sequence`` that is stored under this id, also by writers before this one; 0 if none is."""
        return self._desk.own_sequence

    @property
    def unsent(self) -> list[Mapping[str, Any]]:
        """The events that are not known to be stored, in order. They stay readable when the writer was replaced."""
        with self._desk.lock:
            return self._out.events

    def write(self, event: Mapping[str, Any], routing_key: str | None = None) -> None:
        """One event; a column that it lacks is null. ``routing_key`` goes before the column of the writer."""
        with self._desk.lock:
            self._must_be_open()
            self._out.number_by(own=False)
            self._out.add(event, routing_key)
            if self._refused:
                self._tell_refused()
            if self._out.loose >= self._rows:
                self.flush()

    def append(self, rows: Rows, *, sequence: int | None = None, time: Time | None = None) -> bool:
        """Many events at once, stored together or not at all, and durable afterwards.

        With a ``sequence`` (numbers of your own, from 1, that grow) a batch can be sent again at any time, also by
        another process: if it, or a later one, is stored under this id already, nothing happens and False is
        returned. Rows with a sequence are not kept if sending fails: send them again under the same one. Until that,
        or a later one, is stored, no time is noted beyond the first try. An id under which events were written without
        numbers of your own takes none: a repetition could not be told from a new batch.

        ``time`` is noted in the same step, as by ``note_time``.
        """
        with self._working():
            _check_sequence(sequence)
            self._out.number_by(own=sequence is not None)
            if sequence is not None:
                return self._append_own(rows, sequence, time)
            noted = self._sending.due() if time is None else self._sending.given(time)
            self._out.gather()
            self._out.take(rows, together=True)
            self._sending.send(noted)
            return True

    def flush(self) -> None:
        """Send everything. It is durable when this returns."""
        with self._working():
            self._sending.flush()

    def note_time(self, time: Time, *, nothing_written: bool = False) -> None:
        """Say that everything of this producer before ``time`` is written (microseconds, ISO-8601, or a datetime).

        Sends what was written first, in the same step. ``nothing_written=True`` is for a producer that has no event
        before ``time``, and never wrote any. A time before the last one is refused; what was written is sent anyway.
        """
        with self._working():
            self._sending.note(self._sending.given(time), nothing_written=nothing_written)

    def tick(self) -> None:
        """With ``note_time="auto"``: note the clock if it is time to. The writer's thread does it, where it has one."""
        with self._working():
            self._sending.tick()

    def _tick_unseen(self) -> None:
        """For the thread. An event that does not fit is the business of whoever wrote it: kept for their next call."""
        with self._desk.lock:
            if self._closed:
                return
            self._refused += self._out.sift()
            self._sending.tick()

    def begin(self, *, timeout: str | timedelta = "30 seconds") -> Transaction:
        """A transaction: events that become visible all at once, at its commit, or never. It is aborted when it is not
        committed within ``timeout``. There may be several at once.
        """
        length = duration(timeout, what="timeout of begin()")
        with self._working():
            now = self._clock()
            begun = self._desk.store.begin(self._desk.seat, timeout=length)
            if self._notes is not None:
                self._notes.began(begun.id, now, length)
            out = Outgoing(self._schema, self._column, begun.id)
            return Transaction(begun.id, self._desk, out, self._rows, self._commit, self._ended)

    def transaction_status(self, id_: str) -> Status:
        """What has become of a transaction, also of a writer before this one: of one that was open when its writer
        died nothing will ever be seen.
        """
        return status_of(self._desk, id_)

    def close(self) -> None:
        """Send everything, and give the id back. Open transactions are aborted. Again is harmless. In a forked process
        it does nothing: the writer belongs to the one that made it.
        """
        if self._desk.elsewhere:
            return
        with self._desk.lock:
            if not self._closed:
                with self._working(tell=False):
                    self._close()
        if self._ticker is not None:  # only now: if closing fails, time goes on being noted
            self._ticker.stop()
        self._tell_refused()

    def _begin_noting(self) -> None:
        try:
            self._sending.open()
        except BaseException:
            with suppress(EventideError):  # nobody else would give the id back
                self._desk.store.close_writer(self._desk.seat)
            raise

    def _append_own(self, rows: Rows, sequence: int, time: Time | None) -> bool:
        if sequence <= self._desk.sequence:
            return False
        self._sending.append_own(self._out.batch(sequence, rows), time, self._clock())
        return True

    def _close(self) -> None:
        self._refused += self._out.sift()  # one event that does not fit must not hold up the end
        try:
            self._sending.close()
            self._desk.store.close_writer(self._desk.seat)
        except SeatTakenError:
            if len(self._out):
                raise  # else the other one can have the seat
        self._closed = True
        if self._own_store:
            self.stream.store.close()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _working(self, *, tell: bool = True) -> Iterator[None]:
        """One call at a time; whoever fails says what became of the events."""
        with self._desk.lock:
            self._must_be_open()
            if tell:
                self._tell_refused()
            try:
                yield
            except SeatTakenError as cause:
                raise errors.replaced(cause, len(self._out)) from cause
            except Exception as cause:
                if self._out.batches:
                    cause.add_note(errors.unsent(self.writer_id, len(self._out)))
                raise

    def _tell_refused(self) -> None:
        refused, self._refused = self._refused, []
        if refused:
            for other in refused[1:]:
                refused[0].add_note(str(other))
            raise refused[0]

    def _must_be_open(self) -> None:
        if self._closed:
            raise errors.writer_closed(self.stream.name, self.writer_id)

    def _commit(self, id_: str, time: Time | None, *, empty: bool, again: bool) -> None:
        with self._working():
            self._sending.commit(id_, time, empty=empty, again=again)

    def _ended(self, id_: str) -> None:
        if self._notes is not None:
            self._notes.ended(id_)


def _check(writer_id: object, note_time: object, batch_rows: object) -> None:
    if writer_id is not None and (not isinstance(writer_id, str) or not writer_id):
        raise errors.not_a_writer_id(writer_id)
    if note_time not in ("manual", "auto"):
        raise errors.unknown_noting(note_time)
    if note_time == "auto" and writer_id is None:
        raise errors.auto_without_id()
    if isinstance(batch_rows, bool) or not isinstance(batch_rows, int) or batch_rows < 1:
        raise errors.bad_batch_rows(batch_rows)


def _check_sequence(value: object) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < AUTOMATIC):
        raise errors.bad_sequence(value)
