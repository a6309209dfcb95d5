"""One stream of a memory store: its events, its writers, what they said. Calls must come one at a time."""

# ruff: noqa: D102 - ``Store`` says what each of them does

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from eventide.errors import marks as errors
from eventide.marks import events
from eventide.marks.ids import is_generated
from eventide.marks.leases import lasts
from eventide.marks.mark import Mark, Note
from eventide.marks.notes import advanced
from eventide.marks.segments import Position, Ranges, Segments
from eventide.marks.stores import memory_packing
from eventide.marks.stores.store import Blob, Part, Seat, StreamInfo, Transaction

_REMEMBERED = 3_600_000_000
"""How long after its deadline a transaction that has ended is still known."""


@dataclass
class _Writer:
    incarnation: int
    heard: int = 0
    closed: bool = True
    sequence: int = 0
    ends: dict[int, int] = field(default_factory=dict)
    """Where the last append ended: the answer to its repetition."""
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

    def shown(self) -> Transaction:
        status = "aborted" if self.status == "expired" else self.status
        return Transaction(self.stream, self.id, self.writer, status, self.deadline)

    def end(self, status: Literal["committed", "aborted", "expired"]) -> None:
        self.status = status
        self.bodies.clear()


class MemoryStream:
    """What ``Store`` says of one stream. ``now`` is the time on the store's clock."""

    def __init__(self, info: StreamInfo, number: int) -> None:
        """``number`` is one that no other stream of the store ever had."""
        self.info = info
        self.first_seat = number << 32  # a seat at a stream of the same name that was deleted is not good here
        self.blobs: dict[int, list[Blob]] = {}
        self.lengths = {one.number: 0 for one in info.segments.all}
        self.writers: dict[str, _Writer] = {}
        self.notes: dict[str, Note] = {}
        self.transactions: dict[str, _Transaction] = {}
        self.marks: list[Mark] = []

    def scale(self, seal: Sequence[int], ranges: Ranges) -> Segments:
        return self._become(self.info.segments.scaled(seal, ranges))

    def seal(self) -> Segments:
        for one in self.transactions.values():
            if one.status == "open":
                one.end("aborted")
        return self._become(self.info.segments.ended())

    def _become(self, segments: Segments) -> Segments:
        self.info = replace(self.info, segments=segments)
        self.lengths = {one.number: self.lengths.get(one.number, 0) for one in segments.all}
        return segments

    def truncate(self, cut: Position) -> None:
        segments = self.info.segments
        if not segments.is_cut(cut):
            raise errors.not_a_cut(self.info.name, cut)
        for number, offset in cut.items():
            if not 0 <= offset <= self.lengths[number]:
                raise errors.position_beyond(self.info.name, number, offset, self.lengths[number])
        starts = dict(self.info.starts)
        for number, offset in segments.must_be_read(cut, self.lengths).items():
            if offset > starts.get(number, 0):
                starts[number] = offset
                self.blobs[number] = [one for one in self.blobs.get(number, ()) if one.offset + one.rows > offset]
        self.info = replace(self.info, starts=starts)
        passed = [place for place, mark in enumerate(self.marks) if segments.is_at_most(mark.cut, cut)]
        self.marks = self.marks[passed[-1] if passed else 0 :]

    def open_writer(self, id_: str, now: int, *, take_over: bool) -> Seat:
        writer = self.writers.setdefault(id_, _Writer(self.first_seat))
        lease = self.info.config.writer_lease
        if not writer.closed and lasts(writer.heard + lease, lease, now) and not take_over:
            raise errors.writer_in_use(self.info.name, id_, writer.heard + lease)
        writer.incarnation += 1
        writer.heard, writer.closed = now, False
        if id_ in self.notes:  # it is back, so that its last note holds again
            self.notes[id_] = replace(self.notes[id_], closed=False, at=now)
        return Seat(self.info.name, id_, writer.incarnation, writer.sequence, dict(writer.position))

    def close_writer(self, seat: Seat) -> None:
        if is_generated(seat.writer) and seat.writer not in self.writers:
            return
        writer = self._seated(seat, closed=True)
        writer.closed = True
        if is_generated(seat.writer) and seat.writer not in self.notes:
            del self.writers[seat.writer]
        if seat.writer in self.notes:
            self.notes[seat.writer] = replace(self.notes[seat.writer], closed=True)
        for one in self.transactions.values():
            if one.writer == seat.writer and one.status == "open":
                one.end("aborted")

    def append(self, seat: Seat, sequence: int, parts: Sequence[Part], note: int | None, now: int) -> dict[int, int]:
        writer = self._seated(seat)
        if sequence <= writer.sequence:
            ends = writer.ends if sequence == writer.sequence else {}
            self._note(seat, note, {}, now, writer.position)
        else:
            ends = self._write(seat, parts, note, now)
            writer.sequence, writer.ends = sequence, ends
        writer.heard = now
        return dict(ends)

    def _write(self, seat: Seat, parts: Sequence[Part], note: int | None, now: int) -> dict[int, int]:
        """All or nothing: what can be refused comes first."""
        segments, lengths, ends = self.info.segments, dict(self.lengths), {}
        if segments.has_ended:
            raise errors.stream_sealed(self.info.name)
        for part in parts:
            if part.segment not in segments:
                raise errors.unknown_segment(part.segment, [one.number for one in segments.open])
            if segments[part.segment].sealed:
                raise errors.segment_sealed(self.info.name, part.segment)
            lengths[part.segment] += part.rows
            ends[part.segment] = lengths[part.segment]
        position = {**self.writers[seat.writer].position, **ends}
        self._note(seat, note, {}, now, position)
        for part in parts:
            begins, blobs = self.lengths[part.segment], self.blobs.setdefault(part.segment, [])
            if part.rows:
                blobs.append(Blob(begins, part.rows, part.body, seat.writer))
            self.lengths[part.segment] += part.rows
            memory_packing.pack_filled(blobs, begins, self.lengths[part.segment])
        self.writers[seat.writer].position = position
        return ends

    def read(self, segment: int, offset: int, rows: int, until: int | None) -> list[Blob]:
        if segment not in self.info.segments:
            raise errors.unknown_segment(segment, [one.number for one in self.info.segments.open])
        start = self.info.starts.get(segment, 0)
        if offset < start:
            raise errors.truncated(self.info.name, segment, offset, start)
        found: list[Blob] = []
        for blob in self.blobs.get(segment, ()):
            if blob.offset >= offset + rows or (until is not None and blob.offset >= until):
                break
            if blob.offset + blob.rows > offset:
                found.append(blob)
        return found

    def pack(self, segment: int, offset: int) -> int:
        return memory_packing.pack(self.blobs.get(segment, []), offset)

    def begin(self, seat: Seat, id_: str, timeout: int, now: int) -> Transaction:
        self._seated(seat).heard = now
        if self.info.segments.has_ended:
            raise errors.stream_sealed(self.info.name)
        begun = self.transactions[id_] = _Transaction(self.info.name, id_, seat.writer, now + timeout)
        return begun.shown()

    def add(self, seat: Seat, id_: str, number: int, body: bytes, now: int) -> None:
        one = self._transaction(seat, id_, now)
        if one.status != "open":
            raise errors.transaction_over(id_, one.status)
        one.bodies.setdefault(number, body)

    def commit(self, seat: Seat, id_: str, note: int | None, now: int) -> dict[int, int]:
        one = self._transaction(seat, id_, now)
        if one.status not in ("open", "committed"):
            raise errors.transaction_over(id_, one.status)
        if one.status == "open":
            one.ends = self._write(seat, _routed(one.bodies, self.info.segments), note, now)
            one.end("committed")
        return dict(one.ends)

    def commit_batch(self, seat: Seat, sequence: int, ids: Sequence[str], note: int | None, now: int) -> dict[int, int]:
        writer = self._seated(seat)
        all_ = [self._transaction(seat, id_, now) for id_ in dict.fromkeys(ids)]
        before = self.notes.get(seat.writer)
        if sequence <= writer.sequence:
            note = note if note is None or before is None else max(note, before.time)
            for one in all_:
                if one.status == "open":
                    one.end("aborted")
            self._note(seat, note, {}, now, writer.position)
            return {}
        for one in all_:
            if one.status != "open":
                raise errors.transaction_over(one.id, one.status)
        parts = [part for one in all_ for part in _routed(one.bodies, self.info.segments)]
        writer.ends = self._write(seat, parts, note, now)
        writer.sequence = sequence
        for one in all_:
            one.ends = writer.ends
            one.end("committed")
        return dict(writer.ends)

    def abort(self, seat: Seat, id_: str, now: int) -> None:
        one = self._transaction(seat, id_, now)
        if one.status == "committed":
            raise errors.transaction_over(id_, one.status)
        if one.status == "open":
            one.end("aborted")

    def expire(self, now: int) -> int:
        expired = [one for one in self.transactions.values() if one.status == "open" and one.deadline <= now]
        for one in expired:
            one.end("expired")
        self.transactions = {id_: one for id_, one in self.transactions.items() if one.deadline > now - _REMEMBERED}
        return len(expired)

    def note(self, seat: Seat, time: int, position: Position, now: int) -> None:
        writer = self._seated(seat)
        self._note(seat, time, position, now, writer.position)
        writer.heard = now

    def all_notes(self) -> list[Note]:
        return [replace(note, written=dict(self.writers[id_].position)) for id_, note in self.notes.items()]

    def forget(self, writers: Collection[tuple[str, int]]) -> None:
        for writer, at in writers:
            if writer in self.notes and self.notes[writer].at == at:
                del self.notes[writer]

    def _note(self, seat: Seat, time: int | None, position: Position, now: int, written: Position) -> None:
        if time is not None:
            note = Note(seat.writer, time, dict(position), now)
            before = self.notes.get(seat.writer)
            self.notes[seat.writer] = advanced(self.info.name, before, note, self.info.segments, self.lengths, written)

    def _seated(self, seat: Seat, *, closed: bool = False) -> _Writer:
        writer = self.writers.get(seat.writer)
        if writer is None or writer.incarnation != seat.incarnation or (writer.closed and not closed):
            raise errors.seat_taken(self.info.name, seat.writer)
        return writer

    def _transaction(self, seat: Seat, id_: str, now: int) -> _Transaction:
        self._seated(seat).heard = now
        one = self.transactions.get(id_)
        if one is None or one.writer != seat.writer:
            raise errors.transaction_over(id_, "unknown")
        if one.status == "open" and one.deadline <= now:
            one.end("expired")
        return one


def _routed(bodies: dict[int, bytes], segments: Segments) -> list[Part]:
    """The events of a transaction, in the order of their numbers, over the segments that are open now."""
    if not bodies:
        return []
    table = events.decode_all([body for _, body in sorted(bodies.items())])
    if not len(table):
        return []
    points: np.ndarray[tuple[int], np.dtype[np.float64]] = table[events.POINT].to_numpy()
    return events.parted(table.drop_columns([events.POINT]), points, segments)
