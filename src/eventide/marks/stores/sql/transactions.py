"""Transactions: events that wait for their commit."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from eventide.errors import marks as errors
from eventide.marks import events
from eventide.marks.segments import Segments
from eventide.marks.stores.sql.database import Rows, Step, Values
from eventide.marks.stores.sql.events import put, segments_question
from eventide.marks.stores.sql.positions import packed, unpacked
from eventide.marks.stores.sql.streams import locked, unknown
from eventide.marks.stores.sql.writers import Seated, keep, noted, question, seated
from eventide.marks.stores.store import Part, Seat, Transaction, TransactionStatus

REMEMBERED = 3_600_000_000
"""How long after its deadline a transaction that has ended is still known."""

_HEARD = "UPDATE eventide_writers SET heard = ? WHERE stream = ? AND writer = ?"
_ONE = """
    SELECT writer, status, deadline, ends FROM eventide_transactions
    WHERE id = ? AND stream = (SELECT id FROM eventide_streams WHERE name = ?) FOR UPDATE
"""
_ALL = """
    SELECT t.id, t.writer, t.status, t.deadline FROM eventide_streams s
    LEFT JOIN eventide_transactions t ON t.stream = s.id WHERE s.name = ? ORDER BY t.deadline, t.id
"""
_EXPIRED = """
    SELECT id FROM eventide_transactions WHERE status = 'open' AND deadline <= ? ORDER BY id FOR UPDATE SKIP LOCKED
"""
_ADD = """
    INSERT INTO eventide_additions (transaction_id, number, rows, body) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING
"""
_END = "UPDATE eventide_transactions SET status = ?, ends = ? WHERE id = ?"
_ABORT = "UPDATE eventide_transactions SET status = 'aborted' WHERE id = ? AND status = 'open'"
_ADDITIONS = "SELECT body FROM eventide_additions WHERE transaction_id = ? ORDER BY number"
_EMPTY = "DELETE FROM eventide_additions WHERE transaction_id = ?"


def begin(step: Step, seat: Seat, timeout: int) -> Transaction:
    """``Log.begin``."""
    _, segments = locked(step, seat.stream, change=False)
    (answer,) = step.ask(question(seat))
    writer = seated(step, seat, answer)
    if segments.has_ended:
        raise errors.stream_sealed(seat.stream)
    begun = Transaction(seat.stream, uuid.uuid4().hex, seat.writer, "open", step.now + timeout)
    step.tell(
        "INSERT INTO eventide_transactions (id, stream, writer, status, deadline, ends) VALUES (?, ?, ?, 'open', ?, ?)",
        (begun.id, writer.stream, seat.writer, begun.deadline, b""),
    )
    step.tell(_HEARD, (step.now, writer.stream, seat.writer))
    return begun


def add(step: Step, seat: Seat, transaction: str, number: int, rows: int, body: bytes) -> None:
    """``Log.add``."""
    answer, found = step.ask(question(seat), _one(seat, transaction))
    writer = seated(step, seat, answer)
    status, _ = _status(step, seat, transaction, found)
    if status != "open":
        raise errors.transaction_over(transaction, status)
    step.tell(_ADD, (transaction, number, rows, body))
    step.tell(_HEARD, (step.now, writer.stream, seat.writer))


def commit(step: Step, seat: Seat, transaction: str, note: int | None) -> dict[int, int]:
    """``Log.commit``."""
    _, segments = locked(step, seat.stream, change=False)  # no scaling between here and the end
    answer, found = step.ask(question(seat), _one(seat, transaction))
    writer = seated(step, seat, answer)
    status, ends_before = _status(step, seat, transaction, found)
    if status == "committed":
        return unpacked(ends_before)
    if status != "open":
        raise errors.transaction_over(transaction, status)
    ends = _put_all(step, writer, [transaction], segments)
    position = {**writer.position, **ends}
    keep(step, writer, writer.sequence, writer.ends, position, noted(writer, note, position, step.now, segments))
    return ends


def commit_batch(step: Step, seat: Seat, sequence: int, ids: Sequence[str], note: int | None) -> dict[int, int]:
    """``Log.commit_batch``."""
    transactions = list(dict.fromkeys(ids))
    _, segments = locked(step, seat.stream, change=False)
    answer, *found = step.ask(question(seat), *(_one(seat, transaction) for transaction in transactions))
    writer = seated(step, seat, answer)
    for transaction, one in zip(transactions, found, strict=True):
        status, _ = _status(step, seat, transaction, one)
        if status != "open" and sequence > writer.sequence:
            raise errors.transaction_over(transaction, status)
    if sequence > writer.sequence:
        ends = _put_all(step, writer, transactions, segments)
        position, last, kept = {**writer.position, **ends}, sequence, packed(ends)
    else:
        ends, position, last, kept = {}, writer.position, writer.sequence, writer.ends
        step.tell_each(_ABORT, [(transaction,) for transaction in transactions])
        step.tell_each(_EMPTY, [(transaction,) for transaction in transactions])
    if sequence <= writer.sequence and note is not None and writer.before is not None:
        note = max(note, writer.before.time)  # what is repeated may have been followed by more
    keep(step, writer, last, kept, position, noted(writer, note, position, step.now, segments))
    return ends


def _put_all(step: Step, writer: Seated, transactions: Sequence[str], segments: Segments) -> dict[int, int]:
    """Make the events of open transactions visible."""
    additions = step.ask(*((_ADDITIONS, (transaction,)) for transaction in transactions))
    parts = [part for found in additions for (body,) in found for part in _routed(body, segments)]
    (lengths,) = step.ask(segments_question(writer.seat.stream, {part.segment for part in parts}))
    ends = put(step, writer, parts, lengths, segments)
    step.tell_each(_END, [("committed", packed(ends), transaction) for transaction in transactions])
    step.tell_each(_EMPTY, [(transaction,) for transaction in transactions])
    return ends


def abort(step: Step, seat: Seat, transaction: str) -> None:
    """``Log.abort``."""
    answer, found = step.ask(question(seat), _one(seat, transaction))
    writer = seated(step, seat, answer)
    status, _ = _status(step, seat, transaction, found)
    if status == "committed":
        raise errors.transaction_over(transaction, status)
    if status == "open":
        step.tell(_END, ("aborted", b"", transaction))
        step.tell(_EMPTY, (transaction,))
    step.tell(_HEARD, (step.now, writer.stream, seat.writer))


def listed(step: Step, stream: str) -> list[Transaction]:
    """``Log.transactions``."""
    (rows,) = step.ask((_ALL, (stream,)))
    if not rows:
        raise unknown(step, stream)
    now = step.now
    return [
        Transaction(stream, id_, writer, _shown(status, deadline, now), deadline)
        for id_, writer, status, deadline in rows
        if id_ is not None
    ]


def expire(step: Step) -> int:
    """``Log.expire_transactions``."""
    step.ask()  # for the time
    (expired,) = step.ask((_EXPIRED, (step.now,)))
    step.tell_each(_END, [("expired", b"", id_) for (id_,) in expired])
    step.tell_each(_EMPTY, expired)
    step.tell("DELETE FROM eventide_transactions WHERE status <> 'open' AND deadline <= ?", (step.now - REMEMBERED,))
    return len(expired)


def _one(seat: Seat, transaction: str) -> tuple[str, Values]:
    return _ONE, (transaction, seat.stream)


def _status(step: Step, seat: Seat, transaction: str, found: Rows) -> tuple[str, bytes]:
    if not found or found[0][0] != seat.writer:
        raise errors.transaction_over(transaction, "unknown")
    _, status, deadline, ends = found[0]
    return ("expired" if status == "open" and deadline <= step.now else status), bytes(ends)


def _shown(status: str, deadline: int, now: int) -> TransactionStatus:
    if status == "committed":
        return "committed"
    return "open" if status == "open" and now < deadline else "aborted"


def _routed(body: bytes, segments: Segments) -> list[Part]:
    table = events.decode(bytes(body))
    where = table[events.POINT].to_numpy()
    return events.parted(table.drop_columns([events.POINT]), where, segments)
