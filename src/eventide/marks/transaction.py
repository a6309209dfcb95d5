"""Transactions: events that become visible all at once, or never."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import TracebackType
from typing import Any, Literal, Protocol, TypeAlias

from eventide.errors import writers as errors
from eventide.errors.marks import TransactionOverError
from eventide.marks.desk import Desk
from eventide.marks.events import Rows
from eventide.marks.noting import Time
from eventide.marks.outgoing import Outgoing

Status: TypeAlias = Literal["open", "committed", "aborted", "unknown"]
"""``unknown``: it ended so long ago that nobody remembers."""


class _Commit(Protocol):
    def __call__(self, id_: str, time: Time | None, *, empty: bool, again: bool) -> None: ...


class _Ended(Protocol):
    def __call__(self, id_: str) -> None: ...


class Transaction:
    """Events of a writer that nobody sees before the commit. Make one with ``Writer.begin()``.

    As a context manager it is committed at the end, or aborted if there was an exception. If the writer dies, it is
    aborted when its timeout has passed.

    >>> import pyarrow as pa
    >>> from eventide.marks import Stream, Writer
    >>> from eventide.marks.stores.memory import MemoryStore
    >>> from eventide.marks.stores.store import Config
    >>> store = MemoryStore()
    >>> _ = store.create_stream("orders", Config(schema=pa.schema({"shop": pa.string(), "price": pa.int64()})))
    >>> till = Writer(Stream(store, "orders"), "till-1", routing_key="shop")
    >>> with till.begin() as evening:
    ...     evening.write({"shop": "kiel", "price": 3})
    ...     evening.flush()
    ...     store.lengths("orders")
    {0: 0}
    >>> store.lengths("orders"), evening.status
    ({0: 1}, 'committed')
    """

    def __init__(self, id_: str, desk: Desk, out: Outgoing, rows: int, commit: _Commit, ended: _Ended) -> None:
        self.id = id_
        self._desk = desk
        self._out = out
        self._rows = rows
        self._commit = commit
        self._when_ended = ended
        self._status: Literal["open", "committed", "aborted"] = "open"
        self._tried = False
        """Whether a commit was begun."""
        self._time: Time | None = None
        """What was noted with the commit."""

    @property
    def status(self) -> Status:
        """Whether it is ``open``, ``committed`` or ``aborted`` (also because its time ran out)."""
        if self._status != "open":
            return self._status
        with self._desk.lock:
            found = status_of(self._desk, self.id)
            if found == "committed":  # by a call whose answer was lost: the writer must learn where the events are
                self._desk.commit(self.id, None)
                self._end("committed")
            return found

    def write(self, event: Mapping[str, Any], routing_key: str | None = None) -> None:
        """One event, as with ``Writer.write``."""
        with self._desk.lock:
            self._must_be_open()
            self._out.add(event, routing_key)
            if self._out.loose >= self._rows:
                self._flush()

    def append(self, rows: Rows) -> None:
        """Many events at once."""
        with self._desk.lock:
            self._must_be_open()
            self._out.gather()
            self._out.take(rows, together=False)
            self._flush()

    def flush(self) -> None:
        """Send what was written to the store, where it stays invisible."""
        with self._desk.lock:
            self._must_be_open()
            self._flush()

    def commit(self, time: Time | None = None) -> None:
        """Make all events visible at once. Again is harmless; if it is not known whether it succeeded, it is necessary:
        until then the writer notes no time.

        With a ``time`` it also says, in the same step, that everything of this writer before it is written: what the
        writer itself still holds is sent first; transactions with earlier events should be committed before. Refused
        when the transaction was aborted, or took longer than its timeout.
        """
        with self._desk.lock:
            if self._status == "committed" and time in (None, self._time):
                return
            if self._status != "committed":
                self._must_be_open()
                self._flush()
            again, self._tried = self._tried, True
            self._commit(self.id, time, empty=self._out.last == 0, again=again)
            self._time = time
            self._end("committed")

    def abort(self) -> None:
        """Forget its events. Again is harmless. Refused when it was committed, also by a call without an answer."""
        with self._desk.lock:
            if self._status == "aborted":
                return
            self._must_be_open()
            try:
                self._desk.abort(self.id)
            except TransactionOverError:
                _ = self.status  # if it was committed, the writer must learn where the events are
                raise
            self._end("aborted")

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status != "open" or (error is not None and self._desk.elsewhere):
            return
        if error is None:
            self.commit()
            return
        try:
            self.abort()
        except TransactionOverError as cause:
            if self.status != "committed":
                raise
            error.add_note(str(cause))

    def _flush(self) -> None:
        self._out.gather()
        while self._out.batches:
            self._out.send_first(partial(self._desk.add, self.id))

    def _must_be_open(self) -> None:
        if self._status != "open":
            raise errors.transaction_used(self.id, self._status)

    def _end(self, status: Literal["committed", "aborted"]) -> None:
        self._status = status
        self._when_ended(self.id)


def status_of(desk: Desk, id_: str) -> Status:
    """What a store knows of a transaction; one beyond its deadline is as good as aborted."""
    for one in desk.store.transactions(desk.seat.stream):
        if one.id == id_:
            return "aborted" if one.status == "open" and one.deadline <= desk.store.now() else one.status
    return "unknown"
