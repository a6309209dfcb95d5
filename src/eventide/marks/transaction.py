"""Transactions: events that become visible all at once, or never."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Literal

from eventide.errors import DataError
from eventide.marks.errors import TransactionEndedError
from eventide.marks.events import Rows
from eventide.marks.note_clock import Time
from eventide.marks.stores.store import TransactionStatus
from eventide.marks.write_buffer import WriteBuffer
from eventide.marks.writer_session import WriterSender


class Transaction:
    """Events of a writer that become visible at the commit. ``Writer.begin()`` begins one.

    As a context manager it commits at the end of the block, or aborts after an exception. If the writer dies, the
    transaction is aborted at its timeout.

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

    def __init__(self, id_: str, sender: WriterSender, buffer: WriteBuffer, batch_rows: int) -> None:
        self.id = id_
        self._sender = sender
        self._session = sender.session
        self._buffer = buffer
        self._batch_rows = batch_rows
        self._status: TransactionStatus = "open"
        self._has_tried_commit = False
        self._committed_time: Time | None = None

    def __repr__(self) -> str:
        return f"<Transaction {self.id!r}, {self._status}>"

    @property
    def status(self) -> TransactionStatus | Literal["unknown"]:
        """``open``, ``committed`` or ``aborted`` (also after its timeout); ``unknown`` if it ended long ago."""
        if self._status != "open":
            return self._status
        with self._session.lock:
            status = self._session.transaction_status(self.id)
            if status == "committed":  # by a call in doubt: the writer must learn the position of the events
                self._session.commit(self.id, None)
                self._end("committed")
            return status

    def write(self, event: Mapping[str, Any], routing_key: str | None = None) -> None:
        """Write one event, as ``Writer.write`` does."""
        with self._session.lock:
            self._check_open()
            self._buffer.add(event, routing_key)
            if self._buffer.unbatched >= self._batch_rows:
                self._flush()

    def append(self, rows: Rows) -> None:
        """Write many events at once."""
        with self._session.lock:
            self._check_open()
            self._buffer.make_batch()
            self._buffer.add_batch(rows, is_atomic=False)
            self._flush()

    def flush(self) -> None:
        """Send everything to the store, where it stays invisible until the commit."""
        with self._session.lock:
            self._check_open()
            self._flush()

    def commit(self, time: Time | None = None) -> None:
        """Make all events visible at once. Idempotent.

        If a commit is in doubt, call it again: the writer notes no time until then. A ``time`` declares in the same
        step that everything of this writer before it is written. The buffer of the writer is sent first; commit
        transactions with earlier events before. The commit fails if the transaction was aborted or timed out.
        """
        with self._session.lock:
            if self._status == "committed" and time in (None, self._committed_time):
                return
            if self._status != "committed":
                self._check_open()
                self._flush()
            is_retry, self._has_tried_commit = self._has_tried_commit, True
            is_empty = self._buffer.last_sequence == 0
            with self._sender.call():
                self._sender.commit(self.id, time, is_empty=is_empty, is_retry=is_retry)
            self._committed_time = time
            self._end("committed")

    def abort(self) -> None:
        """Discard all events. Idempotent. Fails if the transaction was committed, also by a call in doubt."""
        with self._session.lock:
            if self._status == "aborted":
                return
            self._check_open()
            try:
                self._session.abort(self.id)
            except TransactionEndedError:
                _ = self.status  # if it was committed, the writer must learn the position of the events
                raise
            self._end("aborted")

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status != "open" or (error is not None and self._session.is_forked):
            return
        if error is None:
            self.commit()
            return
        try:
            self.abort()
        except TransactionEndedError as cause:
            if self.status != "committed":
                raise
            error.add_note(str(cause))

    def _flush(self) -> None:
        self._buffer.make_batch()
        while self._buffer.batches:
            self._session.add_first(self._buffer, self.id)

    def _check_open(self) -> None:
        if self._status != "open":
            raise DataError(f"Transaction {self.id} was {self._status} already. Begin a new one: writer.begin().")

    def _end(self, status: Literal["committed", "aborted"]) -> None:
        self._status = status
        self._sender.end_transaction(self.id)
