"""The event log in SQL: writers, append, read and compaction.

Appends, compaction and truncation lock the segment. Readers lock nothing: each query sees one snapshot.
"""

# ruff: noqa: D103 - ``Store`` documents the functions with the names of its methods

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from eventide.marks.compaction import BlobSize, Run, compact_appended, compact_from
from eventide.marks.errors import truncated, unknown_segment, writer_fenced, writer_in_use
from eventide.marks.events import is_generated
from eventide.marks.mark import Note, advance_note
from eventide.marks.segments import Position, Segments, segments_from_json
from eventide.marks.stores.sql_database import DatabaseStep, Rows, Values, decode_position, encode_position
from eventide.marks.stores.sql_streams import STREAM_ID, abort_open, require_stream, unknown
from eventide.marks.stores.store import Blob, Part, WriterHandle, is_lease_active
from eventide.marks.stores.transaction_rules import check_append

STREAM_EPOCH = "SELECT epoch FROM eventide_streams WHERE name = ?"

_WRITER = """
    SELECT s.id, w.epoch, w.open, w.sequence, w.ends, w.position,
        w.note_time, w.note_at, w.note_closed, w.note_position
    FROM eventide_writers w JOIN eventide_streams s ON s.id = w.stream
    WHERE s.name = ? AND w.writer = ? FOR UPDATE OF w
"""
# Stream ids are unique, so a handle to a deleted stream is fenced off from a new stream with the same name.
_INSERT_WRITER = """
    INSERT INTO eventide_writers (stream, writer, epoch, open, last_active, sequence, ends, position)
    SELECT id, ?, id * 4294967296, 0, 0, 0, ?, ? FROM eventide_streams WHERE name = ?
    ON CONFLICT DO NOTHING RETURNING stream
"""
_LOCK_WRITER = f"""
    SELECT epoch, open, last_active, sequence, position FROM eventide_writers
    WHERE stream = ({STREAM_ID}) AND writer = ? FOR UPDATE
"""
# The last note of a returning writer counts again.
_OPEN_WRITER = """
    UPDATE eventide_writers SET epoch = ?, open = 1, last_active = ?, note_closed = 0,
        note_at = CASE WHEN note_time IS NULL THEN NULL ELSE ? END
    WHERE stream = ? AND writer = ?
"""
_UPDATE_WRITER = """
    UPDATE eventide_writers SET last_active = ?, sequence = ?, ends = ?, position = ? WHERE stream = ? AND writer = ?
"""
_UPDATE_WRITER_AND_NOTE = """
    UPDATE eventide_writers SET last_active = ?, sequence = ?, ends = ?, position = ?,
        note_time = ?, note_at = ?, note_closed = 0, note_position = ? WHERE stream = ? AND writer = ?
"""
_INSERT_BLOB = "INSERT INTO eventide_blobs (stream, segment, start, rows, writer, body) VALUES (?, ?, ?, ?, ?, ?)"
# The segments exist and are locked: as an upsert, one statement updates many of them.
_SET_LENGTH = """
    INSERT INTO eventide_segments (stream, number, length, sealed) VALUES (?, ?, ?, 0)
    ON CONFLICT (stream, number) DO UPDATE SET length = excluded.length
"""
# Offsets have no gaps, so the first blob is the last one that starts at the offset or before it.
_READ = """
    SELECT s.starts, b.start, b.rows, b.body, b.writer
    FROM eventide_streams s LEFT JOIN eventide_blobs b ON b.stream = s.id AND b.segment = ? AND b.start < ?
        AND b.start + b.rows > ? AND b.start >= (
            SELECT COALESCE(MAX(f.start), 0) FROM eventide_blobs f
            WHERE f.stream = s.id AND f.segment = ? AND f.start <= ?
        )
    WHERE s.name = ? ORDER BY b.start
"""
_OPEN_SEGMENTS_AND = """
    SELECT g.number FROM eventide_segments g JOIN eventide_streams s ON s.id = g.stream WHERE s.name = ? AND sealed = 0
    UNION ALL
    SELECT g.number FROM eventide_segments g JOIN eventide_streams s ON s.id = g.stream WHERE s.name = ? AND number = ?
"""
_BLOB_SIZES = """
    SELECT start, rows, LENGTH(body) FROM eventide_blobs
    WHERE stream = ? AND segment = ? AND start >= ? ORDER BY start LIMIT ?
"""
_IN_RUN = "stream = ? AND segment = ? AND start >= ? AND start < ?"
_LOCK_SEGMENT = f"SELECT stream FROM eventide_segments WHERE stream = ({STREAM_ID}) AND number = ? FOR UPDATE"


class SegmentCache:
    """The segments of streams, read again only when they have changed."""

    def __init__(self) -> None:
        self._cache: dict[int, tuple[int, Segments]] = {}

    def load(self, step: DatabaseStep, stream: int, epoch: int) -> Segments:
        """The segments of a stream at an epoch or later."""
        cached = self._cache.get(stream)
        if cached is None or cached[0] < epoch:
            (rows,) = step.query(("SELECT epoch, segments FROM eventide_streams WHERE id = ?", (stream,)))
            cached = self._cache[stream] = (rows[0][0], segments_from_json(json.loads(rows[0][1])))
        return cached[1]


@dataclass(frozen=True, slots=True)
class LockedWriter:
    """The row of a writer whose handle is valid, locked for the current step."""

    handle: WriterHandle
    stream: int
    sequence: int
    ends: bytes
    position: dict[int, int]
    note: Note | None

    def next_note(self, time: int | None, position: Position, now: int, segments: Segments) -> Note | None:
        """The note after this one at a position that the writer has reached; None without a time."""
        if time is None:
            return None
        return advance_note(
            self.handle.stream, self.note, Note(self.handle.writer, time, {}, now), segments, {}, position
        )


def writer_query(handle: WriterHandle) -> tuple[str, Values]:
    """The query that locks a writer for ``parse_writer``."""
    return _WRITER, (handle.stream, handle.writer)


def parse_writer(step: DatabaseStep, handle: WriterHandle, rows: Rows, *, allow_closed: bool = False) -> LockedWriter:
    """The writer of a handle. Raise ``WriterFencedError`` if the handle is fenced off or closed."""
    if not rows:
        require_stream(step, handle.stream)
        raise writer_fenced(handle.stream, handle.writer)
    stream, epoch, is_open, sequence, ends, position, time, at, is_closed, noted = rows[0]
    if epoch != handle.epoch or not (is_open or allow_closed):
        raise writer_fenced(handle.stream, handle.writer)
    note = None if time is None else Note(handle.writer, time, decode_position(noted), at, bool(is_closed))
    return LockedWriter(handle, stream, sequence, bytes(ends), decode_position(position), note)


def save_writer(
    step: DatabaseStep, writer: LockedWriter, sequence: int, ends: bytes, position: Position, note: Note | None
) -> None:
    """Store the progress of a writer."""
    values = (step.now, sequence, ends, encode_position(position))
    key = (writer.stream, writer.handle.writer)
    if note is None:
        step.execute(_UPDATE_WRITER, (*values, *key))
    else:
        step.execute(_UPDATE_WRITER_AND_NOTE, (*values, note.time, note.at, encode_position(note.position), *key))


def open_writer(step: DatabaseStep, stream: str, writer: str, *, take_over: bool = False) -> WriterHandle:
    streams, _, writers = step.query(
        ("SELECT id, writer_lease FROM eventide_streams WHERE name = ? FOR SHARE", (stream,)),
        (_INSERT_WRITER, (writer, b"", b"", stream)),
        (_LOCK_WRITER, (stream, writer)),
    )
    if not streams:
        raise unknown(step, stream)
    ((id_, lease),) = streams
    ((epoch, is_open, last_active, sequence, position),) = writers
    if is_open and not take_over and is_lease_active(last_active + lease, lease, step.now):
        raise writer_in_use(stream, writer, last_active + lease)
    step.execute(_OPEN_WRITER, (epoch + 1, step.now, step.now, id_, writer))
    return WriterHandle(stream, writer, epoch + 1, sequence, decode_position(position))


def close_writer(step: DatabaseStep, handle: WriterHandle) -> None:
    (rows,) = step.query(writer_query(handle))
    if not rows and is_generated(handle.writer):
        return
    writer = parse_writer(step, handle, rows, allow_closed=True)
    is_obsolete = is_generated(handle.writer) and writer.note is None
    action = "DELETE FROM eventide_writers" if is_obsolete else "UPDATE eventide_writers SET open = 0, note_closed = 1"
    step.execute(f"{action} WHERE stream = ? AND writer = ?", (writer.stream, handle.writer))
    abort_open(step, writer.stream, handle.writer)


def append(
    step: DatabaseStep,
    cache: SegmentCache,
    handle: WriterHandle,
    sequence: int,
    parts: Sequence[Part],
    time: int | None,
) -> dict[int, int]:
    rows, lengths, epoch = step.query(
        writer_query(handle),
        segments_query(handle.stream, {part.segment for part in parts}),
        (STREAM_EPOCH, (handle.stream,)),
    )
    writer = parse_writer(step, handle, rows)
    segments = cache.load(step, writer.stream, epoch[0][0])
    ends, position, encoded_ends = {}, writer.position, writer.ends
    if sequence == writer.sequence:
        ends = decode_position(writer.ends)
    elif sequence > writer.sequence:
        ends = append_parts(step, writer, parts, lengths, segments)
        position, encoded_ends = {**position, **ends}, encode_position(ends)
    note = writer.next_note(time, position, step.now, segments)
    save_writer(step, writer, max(sequence, writer.sequence), encoded_ends, position, note)
    return ends


def segments_query(stream: str, numbers: Collection[int]) -> tuple[str, Values]:
    """The query that locks segments, in the order of their numbers, for ``append_parts``."""
    return (
        f"SELECT number, length FROM eventide_segments WHERE stream = ({STREAM_ID}) "
        f"AND number IN ({', '.join('?' * len(numbers)) or 'NULL'}) ORDER BY number FOR UPDATE",
        (stream, *numbers),
    )


def append_parts(
    step: DatabaseStep, writer: LockedWriter, parts: Sequence[Part], rows: Rows, segments: Segments
) -> dict[int, int]:
    """Append parts to their segments. Return where each ends. Every check precedes the first statement."""
    check_append(writer.handle.stream, segments, parts)
    starts: dict[int, int] = dict(rows)
    lengths = dict(starts)
    blobs = []
    for part in parts:
        start = lengths[part.segment]
        lengths[part.segment] = start + part.rows
        if part.rows:
            blobs.append((writer.stream, part.segment, start, part.rows, writer.handle.writer, part.body))
    step.execute_many(_INSERT_BLOB, blobs)
    step.execute_many(_SET_LENGTH, [(writer.stream, number, length) for number, length in sorted(lengths.items())])
    for number, length in sorted(lengths.items()):
        compact_appended(_SqlBlobs(step, writer.stream, number), starts[number], length)
    return {part.segment: lengths[part.segment] for part in parts}


def read(
    step: DatabaseStep, stream: str, segment: int, offset: int, *, rows: int, until: int | None = None
) -> list[Blob]:
    end = offset + rows if until is None else min(offset + rows, until)
    (blobs,) = step.query((_READ, (segment, end, offset, segment, offset, stream)))
    if not blobs:
        raise unknown(step, stream)
    start = decode_position(blobs[0][0]).get(segment, 0)
    if offset < start:
        raise truncated(stream, segment, offset, start)
    if blobs[0][1] is None:
        (numbers,) = step.query((_OPEN_SEGMENTS_AND, (stream, stream, segment)))
        if (segment,) not in numbers:
            raise unknown_segment(segment, [number for (number,) in numbers])
        return []
    return [Blob(begin, count, bytes(body), writer) for _, begin, count, body, writer in blobs]


def compact(step: DatabaseStep, stream: str, segment: int, offset: int) -> int:
    streams, segments = step.query((STREAM_ID, (stream,)), (_LOCK_SEGMENT, (stream, segment)))
    if not streams:
        raise unknown(step, stream)
    return compact_from(_SqlBlobs(step, segments[0][0], segment), offset) if segments else offset


@dataclass(frozen=True, slots=True)
class _SqlBlobs:
    """The blobs of a locked segment, as ``compaction.SegmentBlobs``."""

    step: DatabaseStep
    stream: int
    segment: int

    def sizes(self, offset: int, limit: int) -> list[BlobSize]:
        (rows,) = self.step.query((_BLOB_SIZES, (self.stream, self.segment, offset, limit)))
        return [BlobSize(*row) for row in rows]

    def load(self, run: Run) -> list[tuple[str, bytes]]:
        query = f"SELECT writer, body FROM eventide_blobs WHERE {_IN_RUN} ORDER BY start"
        (rows,) = self.step.query((query, self._key(run)))
        return [(writer, bytes(body)) for writer, body in rows]

    def replace(self, run: Run, writer: str, body: bytes) -> None:
        rows = run[-1].end - run[0].offset
        self.step.execute(f"DELETE FROM eventide_blobs WHERE {_IN_RUN}", self._key(run))
        self.step.execute(_INSERT_BLOB, (self.stream, self.segment, run[0].offset, rows, writer, body))

    def _key(self, run: Run) -> Values:
        return self.stream, self.segment, run[0].offset, run[-1].end
