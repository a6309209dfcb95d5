"""What marks need of a store. One protocol for the log of events, one for what is known of time, one for both.

A stream's log may lie elsewhere than its marks: topics and partitions can take the place of streams and segments, if
they can do what ``Log`` asks. Whatever is written is durable when the call returns. Calls may come from several
threads and processes; where two contradict each other, one of them is refused.

Clocks: ``now()`` is the store's own, so that leases mean the same to all who share it. Times are microseconds.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

import pyarrow as pa

from eventide.marks.mark import Mark, Note, NoteColumns
from eventide.marks.segments import Position, Ranges, Segments


@dataclass(frozen=True, kw_only=True)
class Config:
    """How a stream behaves. Durations are microseconds."""

    schema: pa.Schema
    """The columns of its events."""
    segments: int = 1
    """How many it begins with."""
    writer_timeout: int = 60_000_000
    """After this long without a note a writer is forgotten: time goes on without it."""
    mark_every: int = 5_000_000
    """How often notes are merged into a mark. Also how long a new stream waits before its first mark."""
    writer_lease: int = 30_000_000
    """How long a writer that says nothing keeps others from taking its id."""


@dataclass(frozen=True)
class StreamInfo:
    """What a stream is."""

    name: str
    created: int
    config: Config
    segments: Segments
    starts: Position = field(default_factory=dict)
    """The first offset that was not truncated, of each segment that was truncated."""


class Part(NamedTuple):
    """Events for one segment, as an Arrow IPC stream (``events.encode``)."""

    segment: int
    rows: int
    body: bytes


class Blob(NamedTuple):
    """Events as they lie in a segment: from ``offset`` on, by ``writer`` (empty if several wrote them)."""

    offset: int
    rows: int
    body: bytes
    writer: str


class Seat(NamedTuple):
    """A writer's place at a stream: the right to append under its id. A later seat of the same id ends it."""

    stream: str
    writer: str
    incarnation: int
    sequence: int
    """The highest sequence that was appended under this id; 0 if none was."""
    position: Position
    """Where its last append to each segment ended."""


TransactionStatus = Literal["open", "committed", "aborted"]


class Transaction(NamedTuple):
    """Events that are not visible yet."""

    stream: str
    id: str
    writer: str
    status: TransactionStatus
    deadline: int


class Lease(NamedTuple):
    """The right to make marks for a stream. ``fence`` grows with each new owner."""

    stream: str
    owner: str
    fence: int
    until: int


class Log(Protocol):
    """Streams, their segments, and the events in them."""

    def create_stream(self, name: str, config: Config) -> StreamInfo:
        """A new stream. Refused (``errors.stream_exists``) if there is one of that name, or if its schema names a
        column twice or ``events.POINT``.
        """
        ...

    def stream(self, name: str) -> StreamInfo:
        """A stream as it is now. Refused (``errors.unknown_stream``) if there is none."""
        ...

    def streams(self) -> list[str]:
        """The names of all streams, sorted."""
        ...

    def delete_stream(self, name: str) -> None:
        """Forget a stream and all that belongs to it."""
        ...

    def scale(self, name: str, seal: Sequence[int], ranges: Ranges) -> Segments:
        """``Segments.scaled``, at once for all: an append to a sealed segment that comes later is refused."""
        ...

    def seal(self, name: str) -> Segments:
        """End a stream: ``Segments.ended``. Again is harmless. Open transactions are aborted."""
        ...

    def truncate(self, name: str, cut: Position) -> None:
        """Drop all events before a cut (refused if it is none, or beyond the end). Blobs that reach beyond it stay.
        Of the marks that the cut has passed, all but the last one go, too.
        """
        ...

    def lengths(self, name: str) -> dict[int, int]:
        """The offset of the next event in every segment that the stream ever had."""
        ...

    def open_writer(self, stream: str, writer: str, *, take_over: bool = False) -> Seat:
        """A seat for a writer. Refused (``errors.writer_in_use``) while another one of that id holds its lease
        (``Config.writer_lease`` since its last open, append, note, or transaction step), unless ``take_over``.
        The id is free at once when its writer was closed.
        """
        ...

    def append(self, seat: Seat, sequence: int, parts: Sequence[Part], *, note: int | None = None) -> dict[int, int]:
        """Append all parts or none; where each part ends in its segment. ``note`` also notes a time at the position
        that results, in the same step.

        A sequence that was appended before changes nothing, and gives the same answer if it is the last one (else
        ``{}``); the note, if given, is still taken. Sequences grow, and may have gaps. Refused with
        ``errors.segment_sealed`` (``SegmentSealedError``) if a segment is sealed, with ``errors.seat_taken``
        (``SeatTakenError``) if the seat is not the last one of its id.
        """
        ...

    def read(self, stream: str, segment: int, offset: int, *, rows: int, until: int | None = None) -> list[Blob]:
        """Blobs in order, from the one that holds ``offset``: so many that they have ``rows`` rows from there on, or
        all there are, but none that begins at ``until`` or beyond. Refused (``errors.truncated``) if the offset was
        truncated.
        """
        ...

    def pack(self, stream: str, segment: int, offset: int) -> int:
        """Make larger blobs of small neighbours (``packing``) that appends have left so, from an offset on, as far as
        one step should go; where to go on. Events and their offsets stay the same.
        """
        ...

    def begin(self, seat: Seat, *, timeout: int) -> Transaction:
        """A new transaction, which is aborted unless it is committed within ``timeout``."""
        ...

    def add(self, seat: Seat, transaction: str, number: int, rows: int, body: bytes) -> None:
        """Put events into a transaction. ``body`` has the point of each row beside it (``events.POINT``): segments
        are chosen at the commit. A ``number`` that was added before changes nothing.
        """
        ...

    def commit(self, seat: Seat, transaction: str, *, note: int | None = None) -> dict[int, int]:
        """Make a transaction's events visible, all at once, after what is there; where they end in each segment. Its
        events are routed by the segments of that moment. ``note`` notes a time at that position, in the same step.
        Committing again is harmless; after an abort or the deadline it is refused (``errors.transaction_over``).
        """
        ...

    def commit_batch(self, seat: Seat, sequence: int, ids: Sequence[str], *, note: int | None = None) -> dict[int, int]:
        """Commit several transactions in one step, under a sequence: where they end in each segment.

        If that sequence was appended before, nothing of them becomes visible: they are aborted, and the answer is
        ``{}``; a note that goes back is then ignored, while with a new sequence it is refused, and nothing becomes
        visible. An id that is there twice counts once.
        """
        ...

    def abort(self, seat: Seat, transaction: str) -> None:
        """Forget a transaction's events. Again is harmless; after the commit it is refused."""
        ...

    def transactions(self, stream: str) -> list[Transaction]:
        """All that are open, and those that ended lately."""
        ...

    def expire_transactions(self) -> int:
        """Abort all transactions beyond their deadline; how many."""
        ...

    def close_writer(self, seat: Seat) -> None:
        """The writer is done: its id is free, its note (if any) is marked ``closed``, its open transactions abort. What
        is known of one that has no id of its own (``ids.is_generated``) and no note is forgotten. Again is harmless.
        """
        ...


class TimeKeeping(Protocol):
    """Notes, marks, and who makes them."""

    def now(self) -> int:
        """The time on the store's clock."""
        ...

    def note(self, seat: Seat, time: int, position: Position) -> None:
        """What a writer says of time, kept if ``notes.advanced`` takes it: neither may go back. In one step."""
        ...

    def notes(self, stream: str) -> list[Note]:
        """The last note of each writer that is not forgotten."""
        ...

    def note_columns(self, stream: str) -> NoteColumns:
        """The same as ``notes``, as columns. ``NoteColumns.of(notes)`` will do where few writers are expected."""
        ...

    def put_mark(self, lease: Lease, mark: Mark, *, forget: Collection[tuple[str, int]] = ()) -> None:
        """Keep a mark, and forget notes (writer and ``Note.at``; a note that is newer stays), in one step. Refused
        with ``errors.lease_lost`` (``LeaseLostError``) if another has the stream now, or the mark's number is not the
        next one.
        """
        ...

    def forget(self, lease: Lease, writers: Collection[tuple[str, int]]) -> None:
        """Forget notes without a mark. The same refusals."""
        ...

    def marks(self, stream: str, *, after: int = 0, limit: int | None = None) -> list[Mark]:
        """The marks with numbers above ``after``, in order. The first ones may be gone (``truncate``)."""
        ...

    def last_mark(self, stream: str) -> Mark | None:
        """The newest mark."""
        ...

    def beat(self, controller: str, until: int) -> None:
        """A controller is alive until then."""
        ...

    def controllers(self) -> list[str]:
        """Those that are alive, sorted."""
        ...

    def leave(self, controller: str) -> None:
        """A controller goes: it is alive no more, and its leases end."""
        ...

    def acquire(self, stream: str, controller: str, until: int) -> Lease | None:
        """The lease of a stream, new or prolonged; None while another one has it."""
        ...

    def release(self, lease: Lease) -> None:
        """Give a lease back; harmless if it is lost already."""
        ...

    def leases(self) -> list[Lease]:
        """All leases that have not ended."""
        ...

    def group(self, stream: str, name: str) -> tuple[int, bytes] | None:
        """What a group of readers knows together, and its version."""
        ...

    def put_group(self, stream: str, name: str, version: int, state: bytes) -> bool:
        """Replace it if its version is still ``version`` (0: there is none yet), which grows by one. False if not."""
        ...

    def delete_group(self, stream: str, name: str) -> None:
        """Forget a group."""
        ...


class Store(Log, TimeKeeping, Protocol):
    """Log and time in one place."""

    @property
    def url(self) -> str:
        """Its address, without a password."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...
