"""Events: appended by writers, read by offset."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from eventide.errors import marks as errors
from eventide.marks.segments import Segments
from eventide.marks.stores.sql.database import Rows, Step, Values
from eventide.marks.stores.sql.packing import BLOB, pack_filled
from eventide.marks.stores.sql.positions import packed, unpacked
from eventide.marks.stores.sql.streams import unknown
from eventide.marks.stores.sql.writers import EPOCH, KnownSegments, Seated, keep, noted, question, seated
from eventide.marks.stores.store import Blob, Part, Seat

# The segments are there, and held; this way many are changed in one statement.
_LENGTH = """
    INSERT INTO eventide_segments (stream, number, length, sealed) VALUES (?, ?, ?, 0)
    ON CONFLICT (stream, number) DO UPDATE SET length = excluded.length
"""
# The offsets of a segment have no holes, so that those of the blobs tell which rows they hold.
_READ = """
    SELECT s.starts, b.begins, b.rows, b.body, b.writer
    FROM eventide_streams s LEFT JOIN eventide_blobs b ON b.stream = s.id AND b.segment = ? AND b.begins < ?
        AND b.begins + b.rows > ? AND b.begins >= (
            SELECT COALESCE(MAX(f.begins), 0) FROM eventide_blobs f
            WHERE f.stream = s.id AND f.segment = ? AND f.begins <= ?
        )
    WHERE s.name = ? ORDER BY b.begins
"""
_EXISTS = """
    SELECT g.number FROM eventide_segments g JOIN eventide_streams s ON s.id = g.stream WHERE s.name = ? AND sealed = 0
    UNION ALL
    SELECT g.number FROM eventide_segments g JOIN eventide_streams s ON s.id = g.stream WHERE s.name = ? AND number = ?
"""


def append(
    step: Step, known: KnownSegments, seat: Seat, sequence: int, parts: Sequence[Part], note: int | None
) -> dict[int, int]:
    """``Log.append``."""
    answer, lengths, epoch = step.ask(
        question(seat), segments_question(seat.stream, {part.segment for part in parts}), (EPOCH, (seat.stream,))
    )
    writer = seated(step, seat, answer)
    segments = known.of(step, writer.stream, epoch[0][0])
    ends, position, kept = {}, writer.position, writer.ends
    if sequence == writer.sequence:
        ends = unpacked(writer.ends)
    elif sequence > writer.sequence:
        ends = put(step, writer, parts, lengths, segments)
        position, kept = {**position, **ends}, packed(ends)
    keep(
        step, writer, max(sequence, writer.sequence), kept, position, noted(writer, note, position, step.now, segments)
    )
    return ends


def segments_question(stream: str, numbers: Collection[int]) -> tuple[str, Values]:
    """Holds segments, in the order of their numbers; ``put`` reads the answer."""
    return (
        "SELECT number, length, sealed FROM eventide_segments "
        "WHERE stream = (SELECT id FROM eventide_streams WHERE name = ?) "
        f"AND number IN ({', '.join('?' * len(numbers)) or 'NULL'}) ORDER BY number FOR UPDATE",
        (stream, *numbers),
    )


def put(step: Step, writer: Seated, parts: Sequence[Part], answer: Rows, segments: Segments) -> dict[int, int]:
    """Put parts behind what is in their segments; where each ends. Nothing is told before all of them are right."""
    before = {number: length for number, length, sealed in answer if not sealed}
    lengths = dict(before)
    missing = [part.segment for part in parts if part.segment not in lengths]
    if missing or segments.has_ended:
        raise _refused(segments, writer.seat.stream, missing)
    blobs = []
    for part in parts:
        begins = lengths[part.segment]
        lengths[part.segment] = begins + part.rows
        if part.rows:
            blobs.append((writer.stream, part.segment, begins, part.rows, writer.seat.writer, part.body))
    step.tell_each(BLOB, blobs)
    step.tell_each(_LENGTH, [(writer.stream, number, length) for number, length in sorted(lengths.items())])
    for number, length in sorted(lengths.items()):
        pack_filled(step, writer.stream, number, before[number], length)
    return {part.segment: lengths[part.segment] for part in parts}


def _refused(segments: Segments, stream: str, missing: Sequence[int]) -> Exception:
    if segments.has_ended:
        return errors.stream_sealed(stream)
    for number in missing:
        if number not in segments:
            return errors.unknown_segment(number, [one.number for one in segments.open])
    return errors.segment_sealed(stream, missing[0])


def read(step: Step, stream: str, segment: int, offset: int, rows: int, until: int | None) -> list[Blob]:
    """``Log.read``."""
    end = offset + rows if until is None else min(offset + rows, until)
    (found,) = step.ask((_READ, (segment, end, offset, segment, offset, stream)))
    if not found:
        raise unknown(step, stream)
    start = unpacked(found[0][0]).get(segment, 0)
    if offset < start:
        raise errors.truncated(stream, segment, offset, start)
    if found[0][1] is None:
        (numbers,) = step.ask((_EXISTS, (stream, stream, segment)))
        if (segment,) not in numbers:
            raise errors.unknown_segment(segment, [number for (number,) in numbers])
        return []
    return [Blob(begins, count, bytes(body), writer) for _, begins, count, body, writer in found]
