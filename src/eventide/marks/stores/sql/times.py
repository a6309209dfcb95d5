"""Notes and marks."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from eventide.errors import marks as errors
from eventide.marks.mark import Mark, Note, NoteColumns
from eventide.marks.notes import advanced
from eventide.marks.segments import Position
from eventide.marks.stores.sql.database import Rows, Step
from eventide.marks.stores.sql.positions import columns, packed, unpacked
from eventide.marks.stores.sql.streams import unknown
from eventide.marks.stores.sql.writers import EPOCH, KnownSegments, question, seated
from eventide.marks.stores.store import Lease, Seat

_NOTE = """
    UPDATE eventide_writers SET heard = ?, note_time = ?, note_at = ?, note_closed = 0, note_position = ?
    WHERE stream = ? AND writer = ?
"""
_NOTES = """
    SELECT w.writer, w.note_time, w.note_at, w.note_closed, w.note_position, NULLIF(w.position, w.note_position)
    FROM eventide_streams s
    LEFT JOIN eventide_writers w ON w.stream = s.id AND w.note_time IS NOT NULL WHERE s.name = ? ORDER BY w.writer
"""
_LENGTHS = """
    SELECT number, length FROM eventide_segments WHERE stream = (SELECT id FROM eventide_streams WHERE name = ?)
"""
_MARKS = """
    SELECT m.number, m.lower, m.upper, m.cut, m.at FROM eventide_streams s
    LEFT JOIN eventide_marks m ON m.stream = s.id AND m.number > ? WHERE s.name = ? ORDER BY m.number
"""
_LAST = """
    SELECT m.number, m.lower, m.upper, m.cut, m.at FROM eventide_streams s LEFT JOIN eventide_marks m
    ON m.stream = s.id AND m.number = (SELECT MAX(number) FROM eventide_marks WHERE stream = s.id) WHERE s.name = ?
"""
_LEASE = """
    SELECT s.id, l.owner, l.fence FROM eventide_streams s JOIN eventide_leases l ON l.stream = s.name
    WHERE s.name = ? FOR UPDATE OF l
"""
_LAST_NUMBER = """
    SELECT COALESCE(MAX(m.number), 0) FROM eventide_marks m JOIN eventide_streams s ON s.id = m.stream WHERE s.name = ?
"""
_FORGET = """
    UPDATE eventide_writers SET note_time = NULL, note_at = NULL, note_closed = NULL, note_position = NULL
    WHERE stream = ? AND writer = ? AND note_at = ?
"""


def note(step: Step, known: KnownSegments, seat: Seat, time: int, position: Position) -> None:
    """``TimeKeeping.note``."""
    numbers = sorted(position)
    wanted = f" AND number IN ({', '.join('?' * len(numbers)) or 'NULL'})"
    answer, lengths, epoch = step.ask(
        question(seat), (_LENGTHS + wanted, (seat.stream, *numbers)), (EPOCH, (seat.stream,))
    )
    writer = seated(step, seat, answer)
    segments = known.of(step, writer.stream, epoch[0][0])
    said = Note(seat.writer, time, position, step.now)
    kept = advanced(seat.stream, writer.before, said, segments, dict(lengths), writer.position)
    step.tell(_NOTE, (kept.at, kept.time, kept.at, packed(kept.position), writer.stream, seat.writer))


def notes(step: Step, stream: str) -> list[Note]:
    """``TimeKeeping.notes``."""
    return [
        Note(writer, time, unpacked(position), at, bool(closed), unpacked(position if written is None else written))
        for writer, time, at, closed, position, written in _noted(step, stream)
    ]


def note_columns(step: Step, stream: str) -> NoteColumns:
    """``TimeKeeping.note_columns``."""
    rows = _noted(step, stream)
    who, segment, offset = columns([*(row[4] for row in rows), *(row[5] or b"" for row in rows)])
    return NoteColumns(
        [row[0] for row in rows],
        np.array([row[1] for row in rows], dtype=np.int64),
        np.array([row[2] for row in rows], dtype=np.int64),
        np.array([row[3] for row in rows], dtype=np.bool_),
        np.where(who < len(rows), who, who - len(rows)),
        segment,
        offset,
        who < len(rows),
    )


def put_mark(step: Step, lease: Lease, mark: Mark, forgotten: Collection[tuple[str, int]]) -> None:
    """``TimeKeeping.put_mark``."""
    stream, last = _held(step, lease)
    if mark.number != last + 1:
        raise errors.lease_lost(lease.stream, lease.owner)
    step.tell(
        "INSERT INTO eventide_marks (stream, number, lower, upper, at, cut) VALUES (?, ?, ?, ?, ?, ?)",
        (stream, mark.number, mark.lower, mark.upper, mark.at, packed(mark.cut)),
    )
    _forget(step, stream, forgotten)


def forget(step: Step, lease: Lease, writers: Collection[tuple[str, int]]) -> None:
    """``TimeKeeping.forget``."""
    stream, _ = _held(step, lease)
    _forget(step, stream, writers)


def marks(step: Step, stream: str, after: int, limit: int | None) -> list[Mark]:
    """``TimeKeeping.marks``."""
    bound, values = ("", ()) if limit is None else (" LIMIT ?", (limit,))
    (rows,) = step.ask((_MARKS + bound, (after, stream, *values)))
    if not rows and limit != 0:
        raise unknown(step, stream)
    return [_mark(*row) for row in rows if row[0] is not None]


def last_mark(step: Step, stream: str) -> Mark | None:
    """``TimeKeeping.last_mark``."""
    (rows,) = step.ask((_LAST, (stream,)))
    if not rows:
        raise unknown(step, stream)
    return None if rows[0][0] is None else _mark(*rows[0])


def _mark(number: int, lower: int, upper: int, cut: bytes, at: int) -> Mark:
    return Mark(number, lower, upper, unpacked(cut), at)


def _noted(step: Step, stream: str) -> Rows:
    (rows,) = step.ask((_NOTES, (stream,)))
    if not rows:
        raise unknown(step, stream)
    return [row for row in rows if row[0] is not None]


def _held(step: Step, lease: Lease) -> tuple[int, int]:
    """The stream of a lease, which nobody can take before the step ends, and the number of its last mark."""
    held, last = step.ask((_LEASE, (lease.stream,)), (_LAST_NUMBER, (lease.stream,)))
    if not held or held[0][1:] != (lease.owner, lease.fence):
        raise errors.lease_lost(lease.stream, lease.owner)
    return held[0][0], last[0][0]


def _forget(step: Step, stream: int, writers: Collection[tuple[str, int]]) -> None:
    step.tell_each(_FORGET, [(stream, writer, at) for writer, at in sorted(writers)])
