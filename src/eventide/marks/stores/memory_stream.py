"""One stream of a memory store: its events, writers, transactions and notes. Callers serialize the calls."""

# ruff: noqa: D102 - ``Store`` documents the methods

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from eventide.marks.compaction import BlobSize, Run, compact_appended, compact_from
from eventide.marks.errors import (
    stream_sealed,
    transaction_ended,
    truncated,
    unknown_segment,
    writer_fenced,
    writer_in_use,
)
from eventide.marks.events import is_generated
from eventide.marks.mark import Mark, Note, advance_note
from eventide.marks.segments import Position, Ranges, Segments
from eventide.marks.stores.store import Blob, Part, StreamInfo, TransactionInfo, WriterHandle, is_lease_active
from eventide.marks.stores.transaction_rules import (
    RETENTION,
    check_append,
    check_open,
    current_status,
    public_status,
    route_bodies,
)


class _BlobList(list[Blob]):
    """The blobs of a segment, as ``compaction.SegmentBlobs``."""

    def sizes(self, offset: int, limit: int) -> list[BlobSize]:
        first = self._index(offset)
        return [BlobSize(blob.offset, blob.rows, len(blob.body)) for blob in self[first : first + limit]]

    def load(self, run: Run) -> list[tuple[str, bytes]]:
        first = self._index(run[0].offset)
        return [(blob.writer, blob.body) for blob in self[first : first + len(run)]]

    def replace(self, run: Run, writer: str, body: bytes) -> None:
        first = self._index(run[0].offset)
        self[first : first + len(run)] = [Blob(run[0].offset, run[-1].end - run[0].offset, body, writer)]

    def _index(self, offset: int) -> int:
        return bisect_left(self, offset, key=lambda blob: blob.offset)


@dataclass
class _Writer:
    epoch: int
    last_active: int = 0
    closed: bool = True
    sequence: int = 0
    ends: dict[int, int] = field(default_factory=dict)
    """Where the last append ended, to answer its repetition."""
    position: dict[int, int] = field(default_factory=dict)


@dataclass
class _Transaction:
    stream: str
    id: str
    writer: str
    deadline: int
    status: Literal["open", "committed", "aborted", "expired"] = "open"
    bodies: dict[int, bytes] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)

    def info(self, now: int) -> TransactionInfo:
        status = public_status(current_status(self.status, self.deadline, now))
        return TransactionInfo(self.stream, self.id, self.writer, status, self.deadline)

    def parts(self, segments: Segments) -> list[Part]:
        return route_bodies([body for _, body in sorted(self.bodies.items())], segments)

    def end(self, status: Literal["committed", "aborted", "expired"]) -> None:
        self.status = status
        self.bodies.clear()


class MemoryStream:
    """The calls of ``Store`` on one stream. ``now`` is the time on the store's clock."""

    def __init__(self, info: StreamInfo, number: int) -> None:
        """``number`` is unique among all streams of the store, including deleted ones."""
        self.info = info
        self.first_epoch = number << 32  # fences off handles of a deleted stream with the same name
        self.blobs: dict[int, _BlobList] = {}
        self.lengths = {segment.number: 0 for segment in info.segments.all}
        self.writers: dict[str, _Writer] = {}
        self.notes: dict[str, Note] = {}
        self.transactions: dict[str, _Transaction] = {}
        self.marks: list[Mark] = []

    def scale(self, seal: Sequence[int], ranges: Ranges) -> Segments:
        return self._set_segments(self.info.segments.scaled(seal, ranges))

    def seal(self) -> Segments:
        for transaction in self.transactions.values():
            if transaction.status == "open":
                transaction.end("aborted")
        return self._set_segments(self.info.segments.ended())

    def truncate(self, cut: Position) -> None:
        segments = self.info.segments
        segments.check_cut(self.info.name, cut, self.lengths)
        starts = dict(self.info.starts)
        for number, offset in segments.must_be_read(cut, self.lengths).items():
            if offset > starts.get(number, 0):
                starts[number] = offset
                remaining = (blob for blob in self.blobs.get(number, ()) if blob.offset + blob.rows > offset)
                self.blobs[number] = _BlobList(remaining)
        self.info = replace(self.info, starts=starts)
        passed = [index for index, mark in enumerate(self.marks) if segments.is_at_most(mark.cut, cut)]
        self.marks = self.marks[passed[-1] if passed else 0 :]

    def open_writer(self, id_: str, now: int, *, take_over: bool) -> WriterHandle:
        writer = self.writers.setdefault(id_, _Writer(self.first_epoch))
        lease = self.info.config.writer_lease
        expires = writer.last_active + lease
        if not writer.closed and is_lease_active(expires, lease, now) and not take_over:
            raise writer_in_use(self.info.name, id_, expires)
        writer.epoch += 1
        writer.last_active, writer.closed = now, False
        if id_ in self.notes:  # the last note of a returning writer counts again
            self.notes[id_] = replace(self.notes[id_], closed=False, at=now)
        return WriterHandle(self.info.name, id_, writer.epoch, writer.sequence, dict(writer.position))

    def close_writer(self, handle: WriterHandle) -> None:
        if is_generated(handle.writer) and handle.writer not in self.writers:
            return
        self._writer(handle, allow_closed=True).closed = True
        if handle.writer in self.notes:
            self.notes[handle.writer] = replace(self.notes[handle.writer], closed=True)
        elif is_generated(handle.writer):
            del self.writers[handle.writer]
        for transaction in self.transactions.values():
            if transaction.writer == handle.writer and transaction.status == "open":
                transaction.end("aborted")

    def append(
        self, handle: WriterHandle, sequence: int, parts: Sequence[Part], note: int | None, now: int
    ) -> dict[int, int]:
        writer = self._writer(handle)
        if sequence <= writer.sequence:
            ends = writer.ends if sequence == writer.sequence else {}
            self._note(handle, note, {}, now, writer.position)
        else:
            ends = self._write(handle, parts, note, now)
            writer.sequence, writer.ends = sequence, ends
        writer.last_active = now
        return dict(ends)

    def read(self, segment: int, offset: int, rows: int, until: int | None) -> list[Blob]:
        if segment not in self.info.segments:
            raise unknown_segment(segment, self.info.segments.open_numbers)
        start = self.info.starts.get(segment, 0)
        if offset < start:
            raise truncated(self.info.name, segment, offset, start)
        end = offset + rows if until is None else min(offset + rows, until)
        blobs = self.blobs.get(segment, ())
        return [blob for blob in blobs if blob.offset < end and blob.offset + blob.rows > offset]

    def compact(self, segment: int, offset: int) -> int:
        return compact_from(self.blobs.get(segment, _BlobList()), offset)

    def begin(self, handle: WriterHandle, id_: str, timeout: int, now: int) -> TransactionInfo:
        self._writer(handle).last_active = now
        if self.info.segments.has_ended:
            raise stream_sealed(self.info.name)
        self.transactions[id_] = _Transaction(self.info.name, id_, handle.writer, now + timeout)
        return self.transactions[id_].info(now)

    def add(self, handle: WriterHandle, id_: str, number: int, body: bytes, now: int) -> None:
        transaction = self._transaction(handle, id_, now)
        check_open(id_, transaction.status)
        transaction.bodies.setdefault(number, body)

    def commit(self, handle: WriterHandle, id_: str, note: int | None, now: int) -> dict[int, int]:
        transaction = self._transaction(handle, id_, now)
        if transaction.status != "committed":
            check_open(id_, transaction.status)
            transaction.ends = self._write(handle, transaction.parts(self.info.segments), note, now)
            transaction.end("committed")
        return dict(transaction.ends)

    def commit_batch(
        self, handle: WriterHandle, sequence: int, ids: Sequence[str], note: int | None, now: int
    ) -> dict[int, int]:
        writer = self._writer(handle)
        transactions = [self._transaction(handle, id_, now) for id_ in dict.fromkeys(ids)]
        if sequence <= writer.sequence:
            for transaction in transactions:
                if transaction.status == "open":
                    transaction.end("aborted")
            previous = self.notes.get(handle.writer)
            if note is not None and previous is not None:
                note = max(note, previous.time)  # later appends may have followed the first execution
            self._note(handle, note, {}, now, writer.position)
            return {}
        for transaction in transactions:
            check_open(transaction.id, transaction.status)
        parts = [part for transaction in transactions for part in transaction.parts(self.info.segments)]
        writer.ends = self._write(handle, parts, note, now)
        writer.sequence = sequence
        for transaction in transactions:
            transaction.ends = writer.ends
            transaction.end("committed")
        return dict(writer.ends)

    def abort(self, handle: WriterHandle, id_: str, now: int) -> None:
        transaction = self._transaction(handle, id_, now)
        if transaction.status == "committed":
            raise transaction_ended(id_, transaction.status)
        if transaction.status == "open":
            transaction.end("aborted")

    def expire(self, now: int) -> int:
        expired = [
            transaction
            for transaction in self.transactions.values()
            if transaction.status == "open" and transaction.deadline <= now
        ]
        for transaction in expired:
            transaction.end("expired")
        self.transactions = {
            id_: transaction for id_, transaction in self.transactions.items() if transaction.deadline > now - RETENTION
        }
        return len(expired)

    def note(self, handle: WriterHandle, time: int, position: Position, now: int) -> None:
        writer = self._writer(handle)
        self._note(handle, time, position, now, writer.position)
        writer.last_active = now

    def all_notes(self) -> list[Note]:
        return [replace(note, written=dict(self.writers[id_].position)) for id_, note in self.notes.items()]

    def delete_notes(self, notes: Collection[tuple[str, int]]) -> None:
        for writer, at in notes:
            if writer in self.notes and self.notes[writer].at == at:
                del self.notes[writer]

    def _set_segments(self, segments: Segments) -> Segments:
        self.info = replace(self.info, segments=segments)
        self.lengths = {segment.number: self.lengths.get(segment.number, 0) for segment in segments.all}
        return segments

    def _write(self, handle: WriterHandle, parts: Sequence[Part], note: int | None, now: int) -> dict[int, int]:
        """Append all parts or none: every check precedes the first change."""
        check_append(self.info.name, self.info.segments, parts)
        lengths = dict(self.lengths)
        for part in parts:
            lengths[part.segment] += part.rows
        ends = {part.segment: lengths[part.segment] for part in parts}
        writer = self.writers[handle.writer]
        position = {**writer.position, **ends}
        self._note(handle, note, {}, now, position)
        for part in parts:
            start, blobs = self.lengths[part.segment], self.blobs.setdefault(part.segment, _BlobList())
            if part.rows:
                blobs.append(Blob(start, part.rows, part.body, handle.writer))
            self.lengths[part.segment] += part.rows
            compact_appended(blobs, start, self.lengths[part.segment])
        writer.position = position
        return ends

    def _note(self, handle: WriterHandle, time: int | None, position: Position, now: int, written: Position) -> None:
        if time is not None:
            self.notes[handle.writer] = advance_note(
                self.info.name,
                self.notes.get(handle.writer),
                Note(handle.writer, time, dict(position), now),
                self.info.segments,
                self.lengths,
                written,
            )

    def _writer(self, handle: WriterHandle, *, allow_closed: bool = False) -> _Writer:
        writer = self.writers.get(handle.writer)
        if writer is None or writer.epoch != handle.epoch or (writer.closed and not allow_closed):
            raise writer_fenced(self.info.name, handle.writer)
        return writer

    def _transaction(self, handle: WriterHandle, id_: str, now: int) -> _Transaction:
        self._writer(handle).last_active = now
        transaction = self.transactions.get(id_)
        if transaction is None or transaction.writer != handle.writer:
            raise transaction_ended(id_, "unknown")
        if transaction.status == "open" and transaction.deadline <= now:
            transaction.end("expired")
        return transaction
