"""A writer's place at a stream: what it holds there, and how far it has come."""

from __future__ import annotations

import os
import threading

import pyarrow as pa

from eventide.errors import PlanError
from eventide.errors import marks as errors
from eventide.errors import writers as writer_errors
from eventide.errors.marks import SeatTakenError, SegmentSealedError, TransactionOverError
from eventide.marks.events import POINT, encode, parted
from eventide.marks.outgoing import AUTOMATIC, Batch
from eventide.marks.stores.store import Seat, Store


class Desk:
    """A seat at a stream, with the segments and the position that go with it. Calls must hold ``lock``."""

    def __init__(self, store: Store, seat: Seat) -> None:
        self.store = store
        self.seat = seat
        self._lock = threading.RLock()
        self._process = os.getpid()
        self.sequence = seat.sequence
        """The highest sequence that was stored."""
        self.position = dict(seat.position)
        """Where the last event in each segment ended."""
        self.unsure: set[str] = set()
        """Transactions whose commit was not answered: nobody knows where their events are, if anywhere."""
        self.missing: dict[int, int] = {}
        """Batches under numbers of the user's whose append was not answered, and when that was tried."""
        self._segments = store.stream(seat.stream).segments

    @property
    def elsewhere(self) -> bool:
        """Whether this is a copy in a forked process: its numbers are used by the other one, too."""
        return os.getpid() != self._process

    @property
    def lock(self) -> threading.RLock:
        """One call at a time. Refused in a forked process, where the lock may be held by a thread that is not there."""
        if self.elsewhere:
            raise writer_errors.writer_forked(self.seat.stream, self.seat.writer)
        return self._lock

    def append(self, batch: Batch, time: int | None) -> None:
        """Store a batch, and note a time with it, in one step. If its segments were sealed meanwhile, those that
        follow them take it: all of it, under the same number, so nothing is lost or repeated.
        """
        while True:
            parts = parted(batch.table, batch.where, self._segments) if len(batch.table) else []
            try:
                ends = self.store.append(self.seat, batch.number, parts, note=time)
                break
            except SegmentSealedError:
                self._look_again()
        self.sequence = max(self.sequence, batch.number)
        self._come_to(ends)

    def append_own(self, batch: Batch, time: int | None, now: int) -> None:
        """Store a batch under a number of the user's, who has to send it again if this fails."""
        again = batch.number in self.missing
        self.missing.setdefault(batch.number, now)
        try:
            self.append(batch, time)
        except PlanError:  # an answer to this call, but not to one before it
            if not again:
                del self.missing[batch.number]
            raise
        self.missing = {number: tried for number, tried in self.missing.items() if number > batch.number}

    @property
    def own_sequence(self) -> int:
        """The highest sequence that was stored under a number of the user's, unless automatic ones came after."""
        return self.sequence if self.sequence < AUTOMATIC else 0

    def note(self, time: int) -> None:
        """Note a time at the position of all that was stored."""
        self.store.note(self.seat, time, self.position)

    def add(self, transaction: str, batch: Batch) -> None:
        """Put a batch into a transaction."""
        table = batch.table.append_column(POINT, pa.array(batch.where))
        self.store.add(self.seat, transaction, batch.number, len(table), encode(table))

    def commit(self, transaction: str, time: int | None, *, again: bool = False) -> None:
        """Store the events of a transaction, and note a time with it, in one step. Again is harmless (say ``again``:
        it may have been committed without that time before).
        """
        again = again or transaction in self.unsure
        self.unsure.add(transaction)
        try:
            ends = self.store.commit(self.seat, transaction, note=time)
        except (TransactionOverError, SeatTakenError):
            self.unsure.discard(transaction)
            raise
        except PlanError:  # an answer to this call, but not to one before it
            if not again:
                self.unsure.discard(transaction)
            raise
        self._come_to(ends)
        self.unsure.discard(transaction)
        if again and time is not None and not self._has_noted(time):
            self.note(time)

    def abort(self, transaction: str) -> None:
        """Forget the events of a transaction."""
        self.store.abort(self.seat, transaction)
        self.unsure.discard(transaction)

    def settle(self, *, without: str | None = None) -> set[str]:
        """Learn what became of commits that were not answered, but for one; which of them are still open."""
        asked = self.unsure - {without}
        known = {one.id: one for one in self.store.transactions(self.seat.stream)} if asked else {}
        for id_ in asked:
            if id_ in known and known[id_].status == "committed":
                self.commit(id_, None)
            elif id_ not in known or known[id_].status == "aborted" or known[id_].deadline <= self.store.now():
                self.unsure.discard(id_)
        return asked & self.unsure

    def _has_noted(self, time: int) -> bool:
        return any(one.writer == self.seat.writer and one.time >= time for one in self.store.notes(self.seat.stream))

    def _come_to(self, ends: dict[int, int]) -> None:
        if any(number not in self._segments for number in ends):
            self._segments = self.store.stream(self.seat.stream).segments
        for number, end in ends.items():
            self.position[number] = max(end, self.position.get(number, 0))
        for number in self._segments.ancestors(ends) & self.position.keys():
            del self.position[number]  # all of it is before its successors

    def _look_again(self) -> None:
        self._segments = self.store.stream(self.seat.stream).segments
        if self._segments.has_ended:
            raise errors.stream_sealed(self.seat.stream)
