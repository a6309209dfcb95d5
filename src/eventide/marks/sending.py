"""What a writer sends, and the time that goes with it."""

from __future__ import annotations

from functools import partial

from eventide.errors import PlanError
from eventide.errors import marks as stream_errors
from eventide.errors import writers as errors
from eventide.marks.desk import Desk
from eventide.marks.noting import ClockNotes, Time, micros
from eventide.marks.outgoing import Batch, Outgoing
from eventide.marks.transaction import status_of


class Sending:
    """Sends events, and says which time may go with them: one that is given, or (with ``notes``) that of the clock.

    A time is true of all that was stored until then, so none is said while it is not known what that is. Calls must
    hold the lock of the desk.
    """

    def __init__(self, desk: Desk, out: Outgoing, notes: ClockNotes | None, *, named: bool) -> None:
        self._desk = desk
        self._out = out
        self._notes = notes
        self._named = named

    def open(self) -> None:
        """Note the clock before anything is written, so that time waits for this writer from its beginning."""
        if self._notes is not None:
            time = self._notes.time()
            self._desk.note(time)
            self._notes.opened(time)

    def tick(self) -> None:
        """Note the clock, if it is time to; also where nothing was written."""
        time = self.due()
        if time is not None:
            self.note(time, nothing_written=True)

    def close(self) -> None:
        """Send everything, and note the clock a last time."""
        self.flush()
        if self._notes is not None and not self._desk.settle():
            self.note(self._notes.time(held=self._missing().values(), final=True), nothing_written=True)

    def flush(self) -> None:
        """Send everything."""
        self._out.gather()
        if self._out.batches:
            self.send(self.due())

    def send(self, time: int | None) -> None:
        """Batches in order; the time goes with the last one, in one step. If it is refused, they are sent without."""
        try:
            while self._out.batches:
                with_it = time if len(self._out.batches) == 1 else None
                self._out.send_first(partial(self._desk.append, time=with_it))
        except PlanError:
            if time is not None:
                self.send(None)
            raise
        self.noted(time)

    def note(self, time: int, *, nothing_written: bool = False) -> None:
        """Note a time of all that was written, and send that first."""
        self._out.gather()
        if not (self._out.batches or self._desk.position or nothing_written):
            raise errors.note_without_write(self._desk.seat.stream, self._desk.seat.writer)
        if self._out.batches:
            self.send(time)
        else:
            self._desk.note(time)
            self.noted(time)

    def noted(self, time: int | None) -> None:
        """A time was noted."""
        if self._notes is not None and time is not None:
            self._notes.noted(time)

    def append_own(self, batch: Batch, time: Time | None, now: int) -> None:
        """Store a batch under a number of the user's, and note a time with it."""
        noted = self.due(upto=batch.number) if time is None else self.given(time, upto=batch.number)
        self._desk.append_own(batch, noted, now)
        self.noted(noted)

    def due(self, *, upto: int = 0) -> int | None:
        """The time of the clock, if it is to be noted now."""
        if self._notes is None or self._desk.settle():
            return None
        return self._notes.due(held=self._missing(upto).values())

    def given(self, time: Time, *, without: str | None = None, upto: int = 0) -> int:
        """A time that the user gives; refused if it may not be noted. What it will cover is no hindrance: ``without``
        is a transaction, ``upto`` the number of a batch.
        """
        if self._notes is not None:
            raise errors.note_by_hand(self._desk.seat.writer)
        if not self._named:
            raise errors.note_without_id(self._desk.seat.stream)
        for unsure in self._desk.settle(without=without):
            raise errors.unsure_commit(self._desk.seat.writer, unsure)
        for missing in self._missing(upto):
            raise errors.unsure_append(self._desk.seat.writer, missing)
        return micros(time)

    def commit(self, id_: str, time: Time | None, *, empty: bool, again: bool) -> None:
        """For a transaction: the time that it gives is true of all that this writer has written, so that is sent
        first, without it: the events of the transaction are before that time, too.
        """
        noted = self._of_commit(id_) if time is None else self.given(time, without=id_)
        if noted is not None:
            self._out.gather()
            self.send(None)
        if time is not None and empty and not self._desk.position:
            raise errors.note_without_write(self._desk.seat.stream, self._desk.seat.writer)
        self._desk.commit(id_, noted, again=again)
        self.noted(noted)

    def _of_commit(self, id_: str) -> int | None:
        """The time of the clock that goes with a commit; refused if time went on without that transaction."""
        if self._notes is None:
            return None
        if not self._notes.waits_for(id_) and status_of(self._desk, id_) != "committed":
            self._desk.abort(id_)  # the store may have heard of it later, and would still take it
            raise stream_errors.transaction_over(id_, "expired")
        held = self._missing().values()
        return None if self._desk.settle(without=id_) else self._notes.time(without=id_, held=held)

    def _missing(self, upto: int = 0) -> dict[int, int]:
        return {number: tried for number, tried in self._desk.missing.items() if number > upto}
