"""The contract of a store: the log of events, the notes and marks of writers, and both together.

The log may be in another system than the marks: topics and partitions can replace streams and segments if they
implement ``EventLog``. Every write is durable when its call returns. Calls may arrive from several threads and
processes; of two conflicting calls, one is rejected.

``now()`` is the store's clock, so that a lease has the same meaning for all clients. Times are microseconds.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, TypeAlias

import pyarrow as pa

from eventide.marks.mark import Mark, Note, NoteColumns
from eventide.marks.segments import Position, Ranges, Segments

TransactionStatus: TypeAlias = Literal["open", "committed", "aborted"]


def wall_clock() -> int:
    """Microseconds since the epoch."""
    return time.time_ns() // 1000


def is_lease_active(until: int, length: int, now: int) -> bool:
    """Whether a lease of ``length`` that ends at ``until`` is active.

    A lease that ends further ahead than twice its length was granted before the clock was set back. It has expired:
    otherwise a dead owner would hold it until the clock has caught up. The factor tolerates small corrections.

    >>> [is_lease_active(until, 10, now=100) for until in (100, 101, 120, 121)]
    [False, True, True, False]
    """
    return now < until <= now + 2 * length


@dataclass(frozen=True, kw_only=True)
class Config:
    """The configuration of a stream. Durations are microseconds."""

    schema: pa.Schema
    """The columns of its events."""
    segments: int = 1
    """The initial number of segments."""
    writer_timeout: int = 60_000_000
    """A writer that notes nothing for this long no longer holds back the marks."""
    mark_every: int = 5_000_000
    """The interval between marks. The first mark of a new stream waits this long, too."""
    writer_lease: int = 30_000_000
    """How long the id of a silent writer stays reserved."""


@dataclass(frozen=True)
class StreamInfo:
    """The state of a stream."""

    name: str
    created: int
    config: Config
    segments: Segments
    starts: Position = field(default_factory=dict)
    """The first remaining offset of each truncated segment."""


class Part(NamedTuple):
    """Events for one segment, as an Arrow IPC stream (``events.encode``)."""

    segment: int
    rows: int
    body: bytes


class Blob(NamedTuple):
    """Stored events from ``offset`` on. ``writer`` is empty if several writers wrote them."""

    offset: int
    rows: int
    body: bytes
    writer: str


class WriterHandle(NamedTuple):
    """The right to append to a stream under a writer id. A handle with a higher epoch fences it off."""

    stream: str
    writer: str
    epoch: int
    sequence: int
    """The highest sequence appended under this id; 0 if none."""
    position: Position
    """The end of its last append to each segment."""


class TransactionInfo(NamedTuple):
    """The state of a transaction."""

    stream: str
    id: str
    writer: str
    status: TransactionStatus
    deadline: int


class Lease(NamedTuple):
    """The right to create the marks of a stream. ``fence`` grows with each new owner."""

    stream: str
    owner: str
    fence: int
    until: int


class EventLog(Protocol):
    """Streams, their segments, and their events."""

    def create_stream(self, name: str, config: Config) -> StreamInfo:
        """Create a stream.

        Raise ``ConflictError`` if the name is in use. Reject a schema with duplicate columns or ``events.POINT``.
        """
        ...

    def stream(self, name: str) -> StreamInfo:
        """The current state of a stream. Raise ``UnknownStreamError`` if there is none."""
        ...

    def streams(self) -> list[str]:
        """The names of all streams, sorted."""
        ...

    def delete_stream(self, name: str) -> None:
        """Delete a stream with everything that belongs to it."""
        ...

    def scale(self, name: str, seal: Sequence[int], ranges: Ranges) -> Segments:
        """Apply ``Segments.scaled`` atomically. Later appends to the sealed segments are rejected."""
        ...

    def seal(self, name: str) -> Segments:
        """End a stream with ``Segments.ended`` and abort its open transactions. Idempotent."""
        ...

    def truncate(self, name: str, cut: Position) -> None:
        """Delete all blobs that end before a cut, and all marks before the last one that the cut has passed.

        Reject a position that is not a cut or is beyond the end.
        """
        ...

    def lengths(self, name: str) -> dict[int, int]:
        """The next offset of every segment, open or sealed."""
        ...

    def open_writer(self, stream: str, writer: str, *, take_over: bool = False) -> WriterHandle:
        """Open a writer and fence off earlier handles of its id.

        Without ``take_over``, raise ``ConflictError`` while another writer holds the id. Its lease
        (``Config.writer_lease``) is renewed by every open, append, note and transaction call, and ends with
        ``close_writer``.
        """
        ...

    def append(
        self, handle: WriterHandle, sequence: int, parts: Sequence[Part], *, note: int | None = None
    ) -> dict[int, int]:
        """Append all parts or none. Return the end of each part in its segment.

        ``note`` atomically notes a time at the resulting position. A sequence that was already appended has no effect;
        it returns the same ends if it is the last one, else ``{}``, and its note is still stored. Sequences grow and
        may have gaps. Raise ``SegmentSealedError`` if a segment is sealed, ``WriterFencedError`` if the handle is not
        the latest of its id.
        """
        ...

    def read(self, stream: str, segment: int, offset: int, *, rows: int, until: int | None = None) -> list[Blob]:
        """Blobs in order, from the one that contains ``offset``, until they have ``rows`` rows from there on.

        No blob begins at ``until`` or later. Raise ``DataError`` if the offset was truncated.
        """
        ...

    def compact(self, stream: str, segment: int, offset: int) -> int:
        """Execute one step of ``compaction`` from an offset on. Return the offset of the next step."""
        ...

    def begin(self, handle: WriterHandle, *, timeout: int) -> TransactionInfo:
        """Begin a transaction that is aborted unless it is committed within ``timeout``."""
        ...

    def add(self, handle: WriterHandle, transaction: str, number: int, rows: int, body: bytes) -> None:
        """Add events to a transaction. Adding the same ``number`` again has no effect.

        ``body`` has the column ``events.POINT``, because the commit chooses the segments.
        """
        ...

    def commit(self, handle: WriterHandle, transaction: str, *, note: int | None = None) -> dict[int, int]:
        """Append the events of a transaction atomically. Return where they end in each segment. Idempotent.

        The current segments route the events. ``note`` atomically notes a time at the resulting position. Raise
        ``TransactionEndedError`` after an abort or the deadline.
        """
        ...

    def commit_batch(
        self, handle: WriterHandle, sequence: int, ids: Sequence[str], *, note: int | None = None
    ) -> dict[int, int]:
        """Commit several transactions atomically under a sequence. Return where they end in each segment.

        If the sequence was already appended, the transactions are aborted and the result is ``{}``. In that case an
        earlier note is ignored; with a new sequence it is rejected, and nothing is committed. Duplicate ids count once.
        """
        ...

    def abort(self, handle: WriterHandle, transaction: str) -> None:
        """Discard the events of a transaction. Idempotent. Raise ``TransactionEndedError`` after the commit."""
        ...

    def transactions(self, stream: str) -> list[TransactionInfo]:
        """All open transactions, and those that ended recently."""
        ...

    def expire_transactions(self) -> int:
        """Abort all transactions beyond their deadline. Return their number."""
        ...

    def close_writer(self, handle: WriterHandle) -> None:
        """Close a writer: release its id, mark its note as closed, and abort its open transactions. Idempotent.

        A writer with a generated id (``events.is_generated``) and without a note is deleted.
        """
        ...


class MarkStore(Protocol):
    """Notes and marks, the leases of controllers, and the state of reader groups."""

    def now(self) -> int:
        """The time on the store's clock."""
        ...

    def note(self, handle: WriterHandle, time: int, position: Position) -> None:
        """Note a time for a writer, subject to ``mark.advance_note``."""
        ...

    def notes(self, stream: str) -> list[Note]:
        """The last note of each writer."""
        ...

    def note_columns(self, stream: str) -> NoteColumns:
        """The same as ``notes``, in columns."""
        ...

    def put_mark(self, lease: Lease, mark: Mark, *, obsolete: Collection[tuple[str, int]] = ()) -> None:
        """Store a mark and delete the ``obsolete`` notes, as ``delete_notes`` does, atomically.

        Raise ``LeaseLostError`` if another controller owns the stream, or the mark's number is not the next one.
        """
        ...

    def delete_notes(self, lease: Lease, notes: Collection[tuple[str, int]]) -> None:
        """Delete notes by writer and ``Note.at``; newer notes of the writer stay. Raise ``LeaseLostError``."""
        ...

    def marks(self, stream: str, *, after: int = 0, limit: int | None = None) -> list[Mark]:
        """The marks with numbers above ``after``, in order, without those that were truncated."""
        ...

    def last_mark(self, stream: str) -> Mark | None:
        """The newest mark."""
        ...

    def heartbeat(self, controller: str, until: int) -> None:
        """Register a controller as alive until a time."""
        ...

    def controllers(self) -> list[str]:
        """The controllers that are alive, sorted."""
        ...

    def leave(self, controller: str) -> None:
        """Unregister a controller and release its leases."""
        ...

    def acquire(self, stream: str, controller: str, until: int) -> Lease | None:
        """Acquire or renew the lease of a stream. Return None while another controller holds it."""
        ...

    def release(self, lease: Lease) -> None:
        """Release a lease. No effect if it is already lost."""
        ...

    def leases(self) -> list[Lease]:
        """All active leases."""
        ...

    def group(self, stream: str, name: str) -> tuple[int, bytes] | None:
        """The version and the state of a reader group."""
        ...

    def put_group(self, stream: str, name: str, version: int, state: bytes) -> bool:
        """Replace the state of a group if its version is still ``version`` (0: it does not exist).

        Return whether it was replaced. The version grows by one.
        """
        ...

    def delete_group(self, stream: str, name: str) -> None:
        """Delete a group."""
        ...


class Store(EventLog, MarkStore, Protocol):
    """Events and marks in one place."""

    @property
    def url(self) -> str:
        """Its URL, without a password."""
        ...

    def close(self) -> None:
        """Close its connections."""
        ...
