"""Transactions, notes and marks in SQL."""

# ruff: noqa: D103 - ``Store`` documents the functions with the names of its methods

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence

import numpy as np

from eventide.marks.errors import lease_lost, stream_sealed, transaction_ended
from eventide.marks.mark import Mark, Note, NoteColumns, advance_note
from eventide.marks.segments import Position, Segments
from eventide.marks.stores.sql_database import (
    DatabaseStep,
    Rows,
    Values,
    decode_position,
    decode_positions,
    encode_position,
)
from eventide.marks.stores.sql_log import (
    STREAM_EPOCH,
    LockedWriter,
    SegmentCache,
    append_parts,
    parse_writer,
    save_writer,
    segments_query,
    writer_query,
)
from eventide.marks.stores.sql_streams import LENGTHS, STREAM_ID, lock_stream, unknown
from eventide.marks.stores.store import Lease, TransactionInfo, WriterHandle
from eventide.marks.stores.transaction_rules import (
    RETENTION,
    check_open,
    current_status,
    public_status,
    route_bodies,
)

_RENEW_WRITER = "UPDATE eventide_writers SET last_active = ? WHERE stream = ? AND writer = ?"
_INSERT_TRANSACTION = """
    INSERT INTO eventide_transactions (id, stream, writer, status, deadline, ends) VALUES (?, ?, ?, 'open', ?, ?)
"""
_TRANSACTION = f"""
    SELECT writer, status, deadline, ends FROM eventide_transactions
    WHERE id = ? AND stream = ({STREAM_ID}) FOR UPDATE
"""
_ALL_TRANSACTIONS = """
    SELECT t.id, t.writer, t.status, t.deadline FROM eventide_streams s
    LEFT JOIN eventide_transactions t ON t.stream = s.id WHERE s.name = ? ORDER BY t.deadline, t.id
"""
_EXPIRED = """
    SELECT id FROM eventide_transactions WHERE status = 'open' AND deadline <= ? ORDER BY id FOR UPDATE SKIP LOCKED
"""
_INSERT_ADDITION = """
    INSERT INTO eventide_additions (transaction_id, number, rows, body) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING
"""
_ADDITIONS = "SELECT body FROM eventide_additions WHERE transaction_id = ? ORDER BY number"
_DELETE_ADDITIONS = "DELETE FROM eventide_additions WHERE transaction_id = ?"
_END = "UPDATE eventide_transactions SET status = ?, ends = ? WHERE id = ?"
_ABORT_OPEN = "UPDATE eventide_transactions SET status = 'aborted' WHERE id = ? AND status = 'open'"
_UPDATE_NOTE = """
    UPDATE eventide_writers SET last_active = ?, note_time = ?, note_at = ?, note_closed = 0, note_position = ?
    WHERE stream = ? AND writer = ?
"""
_NOTES = """
    SELECT w.writer, w.note_time, w.note_at, w.note_closed, w.note_position, NULLIF(w.position, w.note_position)
    FROM eventide_streams s
    LEFT JOIN eventide_writers w ON w.stream = s.id AND w.note_time IS NOT NULL WHERE s.name = ? ORDER BY w.writer
"""
_DELETE_NOTE = """
    UPDATE eventide_writers SET note_time = NULL, note_at = NULL, note_closed = NULL, note_position = NULL
    WHERE stream = ? AND writer = ? AND note_at = ?
"""
_INSERT_MARK = "INSERT INTO eventide_marks (stream, number, lower, upper, at, cut) VALUES (?, ?, ?, ?, ?, ?)"
_MARKS = """
    SELECT m.number, m.lower, m.upper, m.cut, m.at FROM eventide_streams s
    LEFT JOIN eventide_marks m ON m.stream = s.id AND m.number > ? WHERE s.name = ? ORDER BY m.number
"""
_LAST_MARK = """
    SELECT m.number, m.lower, m.upper, m.cut, m.at FROM eventide_streams s LEFT JOIN eventide_marks m
    ON m.stream = s.id AND m.number = (SELECT MAX(number) FROM eventide_marks WHERE stream = s.id) WHERE s.name = ?
"""
_LAST_MARK_NUMBER = """
    SELECT COALESCE(MAX(m.number), 0) FROM eventide_marks m JOIN eventide_streams s ON s.id = m.stream WHERE s.name = ?
"""
_LEASE = """
    SELECT s.id, l.owner, l.fence FROM eventide_streams s JOIN eventide_leases l ON l.stream = s.name
    WHERE s.name = ? FOR UPDATE OF l
"""


def begin(step: DatabaseStep, handle: WriterHandle, *, timeout: int) -> TransactionInfo:
    _, segments = lock_stream(step, handle.stream, shared=True)
    (rows,) = step.query(writer_query(handle))
    writer = parse_writer(step, handle, rows)
    if segments.has_ended:
        raise stream_sealed(handle.stream)
    transaction = TransactionInfo(handle.stream, uuid.uuid4().hex, handle.writer, "open", step.now + timeout)
    values = (transaction.id, writer.stream, handle.writer, transaction.deadline, b"")
    step.execute(_INSERT_TRANSACTION, values)
    step.execute(_RENEW_WRITER, (step.now, writer.stream, handle.writer))
    return transaction


def add(step: DatabaseStep, handle: WriterHandle, transaction: str, number: int, rows: int, body: bytes) -> None:
    writer_rows, transaction_rows = step.query(writer_query(handle), _transaction_query(handle, transaction))
    writer = parse_writer(step, handle, writer_rows)
    check_open(transaction, _parse_status(step, handle, transaction, transaction_rows))
    step.execute(_INSERT_ADDITION, (transaction, number, rows, body))
    step.execute(_RENEW_WRITER, (step.now, writer.stream, handle.writer))


def commit(step: DatabaseStep, handle: WriterHandle, transaction: str, *, note: int | None = None) -> dict[int, int]:
    _, segments = lock_stream(step, handle.stream, shared=True)  # no scaling during the step
    writer_rows, transaction_rows = step.query(writer_query(handle), _transaction_query(handle, transaction))
    writer = parse_writer(step, handle, writer_rows)
    status = _parse_status(step, handle, transaction, transaction_rows)
    if status == "committed":
        return decode_position(transaction_rows[0][3])
    check_open(transaction, status)
    ends = _append_transactions(step, writer, [transaction], segments)
    position = {**writer.position, **ends}
    new_note = writer.next_note(note, position, step.now, segments)
    save_writer(step, writer, writer.sequence, writer.ends, position, new_note)
    return ends


def commit_batch(
    step: DatabaseStep, handle: WriterHandle, sequence: int, ids: Sequence[str], *, note: int | None = None
) -> dict[int, int]:
    transactions = list(dict.fromkeys(ids))
    _, segments = lock_stream(step, handle.stream, shared=True)
    queries = (_transaction_query(handle, transaction) for transaction in transactions)
    writer_rows, *transaction_rows = step.query(writer_query(handle), *queries)
    writer = parse_writer(step, handle, writer_rows)
    is_new = sequence > writer.sequence
    for transaction, rows in zip(transactions, transaction_rows, strict=True):
        status = _parse_status(step, handle, transaction, rows)
        if is_new:
            check_open(transaction, status)
    if is_new:
        ends = _append_transactions(step, writer, transactions, segments)
        position, encoded_ends = {**writer.position, **ends}, encode_position(ends)
    else:
        ends, position, encoded_ends = {}, writer.position, writer.ends
        step.execute_many(_ABORT_OPEN, [(transaction,) for transaction in transactions])
        step.execute_many(_DELETE_ADDITIONS, [(transaction,) for transaction in transactions])
        if note is not None and writer.note is not None:
            note = max(note, writer.note.time)  # later appends may have followed the first execution
    new_note = writer.next_note(note, position, step.now, segments)
    save_writer(step, writer, max(sequence, writer.sequence), encoded_ends, position, new_note)
    return ends


def abort(step: DatabaseStep, handle: WriterHandle, transaction: str) -> None:
    writer_rows, transaction_rows = step.query(writer_query(handle), _transaction_query(handle, transaction))
    writer = parse_writer(step, handle, writer_rows)
    status = _parse_status(step, handle, transaction, transaction_rows)
    if status == "committed":
        raise transaction_ended(transaction, status)
    if status == "open":
        step.execute(_END, ("aborted", b"", transaction))
        step.execute(_DELETE_ADDITIONS, (transaction,))
    step.execute(_RENEW_WRITER, (step.now, writer.stream, handle.writer))


def transactions(step: DatabaseStep, stream: str) -> list[TransactionInfo]:
    (rows,) = step.query((_ALL_TRANSACTIONS, (stream,)))
    if not rows:
        raise unknown(step, stream)
    now = step.now
    return [
        TransactionInfo(stream, id_, writer, public_status(current_status(status, deadline, now)), deadline)
        for id_, writer, status, deadline in rows
        if id_ is not None
    ]


def expire_transactions(step: DatabaseStep) -> int:
    step.query()  # reads the clock
    (expired,) = step.query((_EXPIRED, (step.now,)))
    step.execute_many(_END, [("expired", b"", id_) for (id_,) in expired])
    step.execute_many(_DELETE_ADDITIONS, expired)
    step.execute("DELETE FROM eventide_transactions WHERE status <> 'open' AND deadline <= ?", (step.now - RETENTION,))
    return len(expired)


def note(step: DatabaseStep, cache: SegmentCache, handle: WriterHandle, time: int, position: Position) -> None:
    numbers = sorted(position)
    lengths_query = f"{LENGTHS} AND number IN ({', '.join('?' * len(numbers)) or 'NULL'})"
    rows, lengths, epoch = step.query(
        writer_query(handle), (lengths_query, (handle.stream, *numbers)), (STREAM_EPOCH, (handle.stream,))
    )
    writer = parse_writer(step, handle, rows)
    segments = cache.load(step, writer.stream, epoch[0][0])
    declared = Note(handle.writer, time, position, step.now)
    stored = advance_note(handle.stream, writer.note, declared, segments, dict(lengths), writer.position)
    values = (stored.at, stored.time, stored.at, encode_position(stored.position))
    step.execute(_UPDATE_NOTE, (*values, writer.stream, handle.writer))


def notes(step: DatabaseStep, stream: str) -> list[Note]:
    return [
        Note(
            writer,
            time,
            decode_position(position),
            at,
            bool(closed),
            decode_position(position if written is None else written),
        )
        for writer, time, at, closed, position, written in _note_rows(step, stream)
    ]


def note_columns(step: DatabaseStep, stream: str) -> NoteColumns:
    rows = _note_rows(step, stream)
    index, segment, offset = decode_positions([*(row[4] for row in rows), *(row[5] or b"" for row in rows)])
    is_noted = index < len(rows)
    return NoteColumns(
        [row[0] for row in rows],
        np.array([row[1] for row in rows], dtype=np.int64),
        np.array([row[2] for row in rows], dtype=np.int64),
        np.array([row[3] for row in rows], dtype=np.bool_),
        np.where(is_noted, index, index - len(rows)),
        segment,
        offset,
        is_noted,
    )


def put_mark(step: DatabaseStep, lease: Lease, mark: Mark, *, obsolete: Collection[tuple[str, int]] = ()) -> None:
    stream, last_number = _lock_lease(step, lease)
    if mark.number != last_number + 1:
        raise lease_lost(lease.stream, lease.owner)
    values = (stream, mark.number, mark.lower, mark.upper, mark.at, encode_position(mark.cut))
    step.execute(_INSERT_MARK, values)
    _delete_notes(step, stream, obsolete)


def delete_notes(step: DatabaseStep, lease: Lease, notes: Collection[tuple[str, int]]) -> None:
    stream, _ = _lock_lease(step, lease)
    _delete_notes(step, stream, notes)


def marks(step: DatabaseStep, stream: str, *, after: int = 0, limit: int | None = None) -> list[Mark]:
    clause, values = ("", ()) if limit is None else (" LIMIT ?", (limit,))
    (rows,) = step.query((_MARKS + clause, (after, stream, *values)))
    if not rows and limit != 0:
        raise unknown(step, stream)
    return [_parse_mark(*row) for row in rows if row[0] is not None]


def last_mark(step: DatabaseStep, stream: str) -> Mark | None:
    (rows,) = step.query((_LAST_MARK, (stream,)))
    if not rows:
        raise unknown(step, stream)
    return None if rows[0][0] is None else _parse_mark(*rows[0])


def _transaction_query(handle: WriterHandle, transaction: str) -> tuple[str, Values]:
    return _TRANSACTION, (transaction, handle.stream)


def _parse_status(step: DatabaseStep, handle: WriterHandle, transaction: str, rows: Rows) -> str:
    if not rows or rows[0][0] != handle.writer:
        raise transaction_ended(transaction, "unknown")
    _, status, deadline, _ = rows[0]
    return current_status(status, deadline, step.now)


def _append_transactions(
    step: DatabaseStep, writer: LockedWriter, ids: Sequence[str], segments: Segments
) -> dict[int, int]:
    """Append the events of open transactions. Return where they end in each segment."""
    additions = step.query(*((_ADDITIONS, (id_,)) for id_ in ids))
    bodies = ([bytes(body) for (body,) in rows] for rows in additions)
    parts = [part for some in bodies for part in route_bodies(some, segments)]
    (lengths,) = step.query(segments_query(writer.handle.stream, {part.segment for part in parts}))
    ends = append_parts(step, writer, parts, lengths, segments)
    step.execute_many(_END, [("committed", encode_position(ends), id_) for id_ in ids])
    step.execute_many(_DELETE_ADDITIONS, [(id_,) for id_ in ids])
    return ends


def _note_rows(step: DatabaseStep, stream: str) -> Rows:
    (rows,) = step.query((_NOTES, (stream,)))
    if not rows:
        raise unknown(step, stream)
    return [row for row in rows if row[0] is not None]


def _delete_notes(step: DatabaseStep, stream: int, notes: Collection[tuple[str, int]]) -> None:
    step.execute_many(_DELETE_NOTE, [(stream, writer, at) for writer, at in sorted(notes)])


def _lock_lease(step: DatabaseStep, lease: Lease) -> tuple[int, int]:
    """Lock a lease until the end of the step. Return the id of its stream and the number of the last mark."""
    leases, numbers = step.query((_LEASE, (lease.stream,)), (_LAST_MARK_NUMBER, (lease.stream,)))
    if not leases or leases[0][1:] != (lease.owner, lease.fence):
        raise lease_lost(lease.stream, lease.owner)
    return leases[0][0], numbers[0][0]


def _parse_mark(number: int, lower: int, upper: int, cut: bytes, at: int) -> Mark:
    return Mark(number, lower, upper, decode_position(cut), at)
