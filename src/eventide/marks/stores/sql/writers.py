"""Seats of writers: who may write under an id."""

from __future__ import annotations

import json
from dataclasses import dataclass

from eventide.errors import marks as errors
from eventide.marks.ids import is_generated
from eventide.marks.leases import lasts
from eventide.marks.mark import Note
from eventide.marks.notes import advanced
from eventide.marks.segments import Position, Segments, from_json
from eventide.marks.stores.sql.database import Rows, Step, Values
from eventide.marks.stores.sql.positions import packed, unpacked
from eventide.marks.stores.sql.streams import abort_open, unknown
from eventide.marks.stores.store import Seat

_WRITER = """
    SELECT s.id, w.incarnation, w.open, w.sequence, w.ends, w.position,
        w.note_time, w.note_at, w.note_closed, w.note_position
    FROM eventide_writers w JOIN eventide_streams s ON s.id = w.stream
    WHERE s.name = ? AND w.writer = ? FOR UPDATE OF w
"""
# A seat at a stream of the same name that was deleted is not good at this one: no two have the same id, ever.
_NEW = """
    INSERT INTO eventide_writers (stream, writer, incarnation, open, heard, sequence, ends, position)
    SELECT id, ?, id * 4294967296, 0, 0, 0, ?, ? FROM eventide_streams WHERE name = ?
    ON CONFLICT DO NOTHING RETURNING stream
"""
_OPEN = """
    SELECT incarnation, open, heard, sequence, position FROM eventide_writers
    WHERE stream = (SELECT id FROM eventide_streams WHERE name = ?) AND writer = ? FOR UPDATE
"""
# It is back, so that its last note, if it is not forgotten, holds again.
_OPENED = """
    UPDATE eventide_writers SET incarnation = ?, open = 1, heard = ?, note_closed = 0,
        note_at = CASE WHEN note_time IS NULL THEN NULL ELSE ? END
    WHERE stream = ? AND writer = ?
"""
_APPENDED = """
    UPDATE eventide_writers SET heard = ?, sequence = ?, ends = ?, position = ? WHERE stream = ? AND writer = ?
"""
_NOTED = """
    UPDATE eventide_writers SET heard = ?, sequence = ?, ends = ?, position = ?,
        note_time = ?, note_at = ?, note_closed = 0, note_position = ? WHERE stream = ? AND writer = ?
"""


@dataclass(frozen=True, slots=True)
class Seated:
    """What is known of a writer whose seat is good. No other step changes it meanwhile."""

    seat: Seat
    stream: int
    sequence: int
    ends: bytes
    position: dict[int, int]
    before: Note | None


def question(seat: Seat) -> tuple[str, Values]:
    """Holds a writer; ``seated`` reads the answer."""
    return _WRITER, (seat.stream, seat.writer)


def seated(step: Step, seat: Seat, answer: Rows, *, closed: bool = False) -> Seated:
    """The writer of a seat. Refused if another one has it now, or it was closed (unless ``closed`` is all right)."""
    if not answer:
        (there,) = step.ask(("SELECT id FROM eventide_streams WHERE name = ?", (seat.stream,)))
        raise errors.seat_taken(seat.stream, seat.writer) if there else unknown(step, seat.stream)
    stream, incarnation, open_, sequence, ends, position, time, at, note_closed, noted = answer[0]
    if incarnation != seat.incarnation or not (open_ or closed):
        raise errors.seat_taken(seat.stream, seat.writer)
    before = None if time is None else Note(seat.writer, time, unpacked(noted), at, bool(note_closed))
    return Seated(seat, stream, sequence, bytes(ends), unpacked(position), before)


def open_writer(step: Step, stream: str, writer: str, take_over: bool) -> Seat:
    """``Log.open_writer``."""
    streams, _, writers = step.ask(
        ("SELECT id, writer_lease FROM eventide_streams WHERE name = ? FOR SHARE", (stream,)),
        (_NEW, (writer, b"", b"", stream)),
        (_OPEN, (stream, writer)),
    )
    if not streams:
        raise unknown(step, stream)
    ((id_, lease),) = streams
    ((incarnation, open_, heard, sequence, position),) = writers
    if open_ and not take_over and lasts(heard + lease, lease, step.now):
        raise errors.writer_in_use(stream, writer, heard + lease)
    step.tell(_OPENED, (incarnation + 1, step.now, step.now, id_, writer))
    return Seat(stream, writer, incarnation + 1, sequence, unpacked(position))


def close_writer(step: Step, seat: Seat) -> None:
    """``Log.close_writer``."""
    (answer,) = step.ask(question(seat))
    if not answer and is_generated(seat.writer):
        return
    writer = seated(step, seat, answer, closed=True)
    over = is_generated(seat.writer) and writer.before is None
    order = "DELETE FROM eventide_writers" if over else "UPDATE eventide_writers SET open = 0, note_closed = 1"
    step.tell(f"{order} WHERE stream = ? AND writer = ?", (writer.stream, seat.writer))
    abort_open(step, writer.stream, seat.writer)


def keep(step: Step, writer: Seated, sequence: int, ends: bytes, position: Position, note: Note | None) -> None:
    """What a writer has done."""
    done = (step.now, sequence, ends, packed(position))
    whose = (writer.stream, writer.seat.writer)
    if note is None:
        step.tell(_APPENDED, (*done, *whose))
    else:
        step.tell(_NOTED, (*done, note.time, note.at, packed(note.position), *whose))


class KnownSegments:
    """The segments of streams, read again only when they have changed."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, Segments]] = {}

    def of(self, step: Step, stream: int, epoch: int) -> Segments:
        """The segments of a stream after so many changes, or more."""
        found = self._known.get(stream)
        if found is None or found[0] < epoch:
            (rows,) = step.ask(("SELECT epoch, segments FROM eventide_streams WHERE id = ?", (stream,)))
            found = self._known[stream] = (rows[0][0], from_json(json.loads(rows[0][1])))
        return found[1]


EPOCH = "SELECT epoch FROM eventide_streams WHERE name = ?"


def noted(writer: Seated, time: int | None, position: Position, now: int, segments: Segments) -> Note | None:
    """A note at a position that the writer itself has come to, if it says a time."""
    if time is None:
        return None
    note = Note(writer.seat.writer, time, {}, now)
    return advanced(writer.seat.stream, writer.before, note, segments, {}, position)
