"""How a writer sends: ``WriterSession`` makes the calls to the store, ``WriterSender`` adds the noted times.

A noted time covers everything stored before it. So no time is noted while a call is in doubt, that is, sent and not
acknowledged.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Literal

import pyarrow as pa

from eventide.errors import DataError, PlanError
from eventide.marks.errors import (
    SegmentSealedError,
    TooLargeError,
    TransactionEndedError,
    WriterFencedError,
    stream_sealed,
    transaction_ended,
)
from eventide.marks.events import POINT, encode, split_by_segment
from eventide.marks.note_clock import NoteClock, Time, to_micros
from eventide.marks.stores.store import Store, TransactionStatus, WriterHandle
from eventide.marks.write_buffer import FIRST_AUTO_SEQUENCE, WriteBatch, WriteBuffer


class WriterSession:
    """A writer handle with the state that belongs to it. Callers hold ``lock``."""

    def __init__(self, store: Store, handle: WriterHandle) -> None:
        self.store = store
        self.handle = handle
        self.sequence = handle.sequence
        """The highest stored sequence."""
        self.position = dict(handle.position)
        """The end of the last event in each segment."""
        self.in_doubt: set[str] = set()
        """Transactions whose commit was not acknowledged."""
        self.unacknowledged: dict[int, int] = {}
        """Explicit sequences whose append was not acknowledged, and the time of the first attempt."""
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._segments = store.stream(handle.stream).segments

    @property
    def is_forked(self) -> bool:
        """Whether this is a copy in a forked process, which would use the same sequences as the original."""
        return os.getpid() != self._process

    @property
    def lock(self) -> threading.RLock:
        """Serializes calls. Not available in a forked process, where a lost thread may hold it."""
        if self.is_forked:
            raise PlanError(
                f"Writer {self.handle.writer!r} at stream {self.handle.stream!r} was opened before this process was "
                "forked. Both would use the same sequences: open a writer with another id in each process."
            )
        return self._lock

    @property
    def explicit_sequence(self) -> int:
        """The highest stored explicit sequence; 0 if the last one was automatic."""
        return self.sequence if self.sequence < FIRST_AUTO_SEQUENCE else 0

    def send_first(self, buffer: WriteBuffer, time: int | None) -> None:
        """Append the first batch of a buffer, and note a time in the same step."""
        self._send_first(buffer, partial(self.append, time=time))

    def add_first(self, buffer: WriteBuffer, transaction: str) -> None:
        """Add the first batch of a buffer to a transaction."""
        self._send_first(buffer, partial(self._add, transaction))

    def append(self, batch: WriteBatch, time: int | None) -> None:
        """Append a batch, and note a time in the same step.

        If its segments have been sealed, their successors take the whole batch under the same sequence. So nothing is
        lost or duplicated.
        """
        while True:
            parts = split_by_segment(batch.table, batch.points, self._segments) if len(batch.table) else []
            try:
                ends = self.store.append(self.handle, batch.sequence, parts, note=time)
                break
            except SegmentSealedError:
                self._segments = self.store.stream(self.handle.stream).segments
                if self._segments.has_ended:
                    raise stream_sealed(self.handle.stream) from None
        self.sequence = max(self.sequence, batch.sequence)
        self._advance(ends)

    def append_explicit(self, batch: WriteBatch, time: int | None, now: int) -> None:
        """Append a batch under an explicit sequence. If this fails, the user has to send it again."""
        is_retry = batch.sequence in self.unacknowledged
        self.unacknowledged.setdefault(batch.sequence, now)
        try:
            self.append(batch, time)
        except PlanError:  # acknowledges this call, but not an earlier one
            if not is_retry:
                del self.unacknowledged[batch.sequence]
            raise
        self.unacknowledged = {
            sequence: tried for sequence, tried in self.unacknowledged.items() if sequence > batch.sequence
        }

    def note(self, time: int) -> None:
        """Note a time at the position of everything stored."""
        self.store.note(self.handle, time, self.position)

    def commit(self, transaction: str, time: int | None, *, is_retry: bool = False) -> None:
        """Commit a transaction, and note a time in the same step. Idempotent.

        With ``is_retry``, an earlier call may have committed it without that time.
        """
        is_retry = is_retry or transaction in self.in_doubt
        self.in_doubt.add(transaction)
        try:
            ends = self.store.commit(self.handle, transaction, note=time)
        except (TransactionEndedError, WriterFencedError):
            self.in_doubt.discard(transaction)
            raise
        except PlanError:  # acknowledges this call, but not an earlier one
            if not is_retry:
                self.in_doubt.discard(transaction)
            raise
        self._advance(ends)
        self.in_doubt.discard(transaction)
        if is_retry and time is not None and not self._has_noted(time):
            self.note(time)

    def abort(self, transaction: str) -> None:
        """Abort a transaction."""
        self.store.abort(self.handle, transaction)
        self.in_doubt.discard(transaction)

    def transaction_status(self, id_: str) -> TransactionStatus | Literal["unknown"]:
        """The status of a transaction in the store. One beyond its deadline is aborted."""
        for transaction in self.store.transactions(self.handle.stream):
            if transaction.id == id_:
                has_expired = transaction.status == "open" and transaction.deadline <= self.store.now()
                return "aborted" if has_expired else transaction.status
        return "unknown"

    def resolve_in_doubt(self, *, except_for: str | None = None) -> set[str]:
        """Query the outcome of commits in doubt. Return those that are still in doubt."""
        pending = self.in_doubt - {except_for}
        infos = {info.id: info for info in self.store.transactions(self.handle.stream)} if pending else {}
        for id_ in pending:
            info = infos.get(id_)
            if info is not None and info.status == "committed":
                self.commit(id_, None)
            elif info is None or info.status == "aborted" or info.deadline <= self.store.now():
                self.in_doubt.discard(id_)
        return pending & self.in_doubt

    def _send_first(self, buffer: WriteBuffer, send: Callable[[WriteBatch], None]) -> None:
        batch = buffer.batches[0]
        try:
            send(batch)
        except TooLargeError as cause:
            if batch.sequence == buffer.in_doubt:
                raise
            buffer.split_first(cause)
        except (PlanError, WriterFencedError):
            raise
        except BaseException:
            buffer.in_doubt = batch.sequence
            raise
        else:
            buffer.batches.popleft()

    def _add(self, transaction: str, batch: WriteBatch) -> None:
        table = batch.table.append_column(POINT, pa.array(batch.points))
        self.store.add(self.handle, transaction, batch.sequence, len(table), encode(table))

    def _has_noted(self, time: int) -> bool:
        notes = self.store.notes(self.handle.stream)
        return any(note.writer == self.handle.writer and note.time >= time for note in notes)

    def _advance(self, ends: dict[int, int]) -> None:
        if any(number not in self._segments for number in ends):
            self._segments = self.store.stream(self.handle.stream).segments
        for number, end in ends.items():
            self.position[number] = max(end, self.position.get(number, 0))
        for number in self._segments.ancestors(ends) & self.position.keys():
            del self.position[number]  # everything in it is before its successors


class WriterSender:
    """Sends the buffer of a writer with the times to note: explicit ones, or those of ``clock``.

    Callers hold the lock of the session.
    """

    def __init__(self, session: WriterSession, buffer: WriteBuffer, clock: NoteClock | None, *, has_id: bool) -> None:
        self.session = session
        self.is_closed = False
        self.rejected: list[PlanError] = []
        """Errors of events that the thread of the writer rejected. The next call of the user raises them."""
        self._buffer = buffer
        self._clock = clock
        self._has_id = has_id

    @contextmanager
    def call(self, *, raise_rejected: bool = True) -> Iterator[None]:
        """Serialize calls. Errors say what happened to the buffered events."""
        with self.session.lock:
            self.check_open()
            if raise_rejected:
                self.raise_rejected()
            try:
                yield
            except WriterFencedError as cause:
                count = len(self._buffer)
                unsent = f"{count} unsent events are in writer.unsent." if count else "No events are unsent."
                raise WriterFencedError(f"{cause} {unsent}") from cause
            except Exception as cause:
                if self._buffer.batches:
                    cause.add_note(
                        f"{len(self._buffer)} events of writer {self.session.handle.writer!r} are not known to be "
                        "stored. They stay in writer.unsent, and the next flush() sends them again without duplicates. "
                        "Do not write them again."
                    )
                raise

    def check_open(self) -> None:
        """Reject calls to a closed writer."""
        if self.is_closed:
            handle = self.session.handle
            raise PlanError(f"Writer {handle.writer!r} at stream {handle.stream!r} is closed. Open a new one.")

    def raise_rejected(self) -> None:
        """Raise the errors of events that the thread rejected."""
        rejected, self.rejected = self.rejected, []
        if rejected:
            for other in rejected[1:]:
                rejected[0].add_note(str(other))
            raise rejected[0]

    def open(self) -> None:
        """Note the clock before anything is written, so that marks wait for this writer from its start."""
        if self._clock is not None:
            time = self._clock.time()
            self.session.note(time)
            self._clock.record_initial(time)

    def tick(self) -> None:
        """Note the clock if a note is due, even if nothing was written."""
        time = self.due_time()
        if time is not None:
            self.note(time, nothing_written=True)

    def close(self) -> None:
        """Send everything and note the clock a last time."""
        self.flush()
        if self._clock is not None and not self.session.resolve_in_doubt():
            held_at = self.session.unacknowledged.values()
            self.note(self._clock.time(held_at=held_at, is_final=True), nothing_written=True)

    def flush(self) -> None:
        """Send everything."""
        self._buffer.make_batch()
        if self._buffer.batches:
            self.send(self.due_time())

    def send(self, time: int | None) -> None:
        """Send the batches in order, the last one with the time. If the time is rejected, send them without it."""
        try:
            while self._buffer.batches:
                self.session.send_first(self._buffer, time if len(self._buffer.batches) == 1 else None)
        except PlanError:
            if time is not None:
                self.send(None)
            raise
        self._record(time)

    def note(self, time: int, *, nothing_written: bool = False) -> None:
        """Send everything and note a time for it."""
        self._buffer.make_batch()
        if self._buffer.batches:
            self.send(time)
            return
        if not nothing_written:
            self._check_position()
        self.session.note(time)
        self._record(time)

    def append_explicit(self, batch: WriteBatch, time: Time | None, now: int) -> None:
        """Append a batch under an explicit sequence and note a time with it."""
        sequence = batch.sequence
        noted = self.due_time(covering=sequence) if time is None else self.check_time(time, covering=sequence)
        self.session.append_explicit(batch, noted, now)
        self._record(noted)

    def due_time(self, *, covering: int = 0) -> int | None:
        """The time of the clock, if a note is due."""
        if self._clock is None or self.session.resolve_in_doubt():
            return None
        return self._clock.due_time(held_at=self._unacknowledged(covering).values())

    def check_time(self, time: Time, *, except_for: str | None = None, covering: int = 0) -> int:
        """Convert an explicit time; reject it if it must not be noted now.

        The transaction ``except_for`` and sequences up to ``covering`` may be in doubt: the note will cover them.
        """
        handle = self.session.handle
        if self._clock is not None:
            raise PlanError(
                f"Writer {handle.writer!r} notes the wall clock by itself (note_time='auto'). Leave the time out, or "
                "open the writer with note_time='manual'."
            )
        if not self._has_id:
            raise PlanError(
                f"This writer at stream {handle.stream!r} has no writer_id, so it cannot note time: after a restart, "
                "the time could not be attributed to it. Open it with Writer(stream, 'some id')."
            )
        for transaction in self.session.resolve_in_doubt(except_for=except_for):
            raise DataError(
                f"Writer {handle.writer!r} cannot note time now: the commit of transaction {transaction} was not "
                "answered and is in doubt. commit() it again, or abort() it, first."
            )
        for sequence in self._unacknowledged(covering):
            raise DataError(
                f"Writer {handle.writer!r} cannot note time now: append(sequence={sequence}) was not answered and is "
                "in doubt. Append its events again under that sequence; to give them up, append the next batch."
            )
        return to_micros(time)

    def begin(self, *, timeout: int, now: int) -> str:
        """Begin a transaction and return its id."""
        id_ = self.session.store.begin(self.session.handle, timeout=timeout).id
        if self._clock is not None:
            self._clock.begin(id_, now, timeout)
        return id_

    def commit(self, id_: str, time: Time | None, *, is_empty: bool, is_retry: bool) -> None:
        """Commit a transaction and note a time with it.

        The time covers all events of the writer, so the buffer is sent first, without the time: the events of the
        transaction are before that time, too.
        """
        noted = self._commit_time(id_) if time is None else self.check_time(time, except_for=id_)
        if noted is not None:
            self._buffer.make_batch()
            self.send(None)
        if time is not None and is_empty:
            self._check_position()
        self.session.commit(id_, noted, is_retry=is_retry)
        self._record(noted)

    def end_transaction(self, id_: str) -> None:
        """Stop holding the clock for a transaction."""
        if self._clock is not None:
            self._clock.end(id_)

    def _commit_time(self, id_: str) -> int | None:
        """The time of the clock for a commit. Reject a transaction that the clock no longer waits for."""
        if self._clock is None:
            return None
        if not self._clock.is_holding_for(id_) and self.session.transaction_status(id_) != "committed":
            self.session.abort(id_)  # its deadline in the store may be later
            raise transaction_ended(id_, "expired")
        held_at = self.session.unacknowledged.values()
        if self.session.resolve_in_doubt(except_for=id_):
            return None
        return self._clock.time(except_for=id_, held_at=held_at)

    def _record(self, time: int | None) -> None:
        if self._clock is not None and time is not None:
            self._clock.record(time)

    def _check_position(self) -> None:
        """Reject a note of a writer that has not written yet."""
        if not self.session.position:
            handle = self.session.handle
            raise PlanError(
                f"Writer {handle.writer!r} has not written to stream {handle.stream!r} yet, so it has no position to "
                "note a time at. Write first, or call note_time(time, nothing_written=True) if there is nothing "
                "before that time."
            )

    def _unacknowledged(self, covering: int) -> dict[int, int]:
        return {sequence: tried for sequence, tried in self.session.unacknowledged.items() if sequence > covering}
