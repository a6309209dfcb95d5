"""Streams and their segments."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from eventide.errors import marks as errors
from eventide.marks import events
from eventide.marks.segments import Position, Ranges, Segments, as_json, from_json
from eventide.marks.stores.sql.database import Step
from eventide.marks.stores.sql.positions import packed, unpacked
from eventide.marks.stores.store import Config, StreamInfo

_INSERT = """
    INSERT INTO eventide_streams (name, created, schema, first_segments, writer_timeout, mark_every, writer_lease,
        epoch, segments, starts)
    VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, ?) ON CONFLICT DO NOTHING RETURNING id
"""
_INFO = """
    SELECT created, schema, first_segments, writer_timeout, mark_every, writer_lease, segments, starts
    FROM eventide_streams WHERE name = ?
"""
_LENGTHS = """
    SELECT number, length FROM eventide_segments
    WHERE stream = (SELECT id FROM eventide_streams WHERE name = ?) ORDER BY number
"""
_NEW_SEGMENT = "INSERT INTO eventide_segments (stream, number, length, sealed) VALUES (?, ?, 0, 0)"
_OF_A_STREAM = ("marks", "groups", "writers", "transactions", "segments", "blobs")


def create(step: Step, name: str, config: Config) -> StreamInfo:
    """``Log.create_stream``."""
    events.check_columns(name, config.schema)
    segments = Segments.even(config.segments)
    step.ask()  # for the time
    created = step.now
    durations = (config.writer_timeout, config.mark_every, config.writer_lease)
    schema = bytes(config.schema.serialize())
    values = (name, created, schema, config.segments, *durations, json.dumps(as_json(segments)), b"")
    (inserted,) = step.ask((_INSERT, values))
    if not inserted:
        raise errors.stream_exists(name)
    step.tell_each(_NEW_SEGMENT, [(inserted[0][0], one.number) for one in segments.all])
    return StreamInfo(name, created, config, segments)


def info(step: Step, name: str) -> StreamInfo:
    """``Log.stream``."""
    (rows,) = step.ask((_INFO, (name,)))
    if not rows:
        raise unknown(step, name)
    created, schema, first, writer_timeout, mark_every, writer_lease, segments, starts = rows[0]
    config = Config(
        schema=pa.ipc.read_schema(pa.py_buffer(schema)),
        segments=first,
        writer_timeout=writer_timeout,
        mark_every=mark_every,
        writer_lease=writer_lease,
    )
    return StreamInfo(name, created, config, from_json(json.loads(segments)), unpacked(starts))


def names(step: Step) -> list[str]:
    """``Log.streams``."""
    (rows,) = step.ask(("SELECT name FROM eventide_streams", ()))
    return sorted(name for (name,) in rows)


def delete(step: Step, name: str) -> None:
    """``Log.delete_stream``."""
    stream, _ = locked(step, name)
    # Whoever holds a writer or a transaction is waited for before the segments, in the order of locks.
    step.ask(
        ("SELECT owner FROM eventide_leases WHERE stream = ? FOR UPDATE", (name,)),
        ("SELECT writer FROM eventide_writers WHERE stream = ? ORDER BY writer FOR UPDATE", (stream,)),
        ("SELECT id FROM eventide_transactions WHERE stream = ? ORDER BY id FOR UPDATE", (stream,)),
        ("SELECT number FROM eventide_segments WHERE stream = ? ORDER BY number FOR UPDATE", (stream,)),
    )
    additions = "SELECT id FROM eventide_transactions WHERE stream = ?"
    step.tell(f"DELETE FROM eventide_additions WHERE transaction_id IN ({additions})", (stream,))
    for table in _OF_A_STREAM:
        step.tell(f"DELETE FROM eventide_{table} WHERE stream = ?", (stream,))
    step.tell("UPDATE eventide_leases SET owner = '', until = 0 WHERE stream = ?", (name,))
    step.tell("DELETE FROM eventide_streams WHERE id = ?", (stream,))


def scale(step: Step, name: str, seal: Sequence[int], ranges: Ranges) -> Segments:
    """``Log.scale``."""
    stream, before = locked(step, name)
    after = before.scaled(seal, ranges)
    _close(step, stream, seal)
    step.tell_each(_NEW_SEGMENT, [(stream, one.number) for one in after.all if one.number not in before])
    _become(step, stream, after)
    return after


def seal(step: Step, name: str) -> Segments:
    """``Log.seal``."""
    stream, before = locked(step, name)
    after = before.ended()
    if not before.has_ended:
        abort_open(step, stream)
        _close(step, stream, [one.number for one in before.all if not one.sealed])
        _become(step, stream, after)
    return after


def truncate(step: Step, name: str, cut: Position) -> None:
    """``Log.truncate``."""
    stream, segments = locked(step, name)
    if not segments.is_cut(cut):
        raise errors.not_a_cut(name, cut)
    # Whoever appends is waited for: it may be packing what is dropped here, and would put it back as one blob.
    known, (starts,) = step.ask(
        (f"{_LENGTHS} FOR UPDATE", (name,)), ("SELECT starts FROM eventide_streams WHERE id = ?", (stream,))
    )
    lengths: dict[int, int] = dict(known)
    for number, offset in cut.items():
        if not 0 <= offset <= lengths[number]:
            raise errors.position_beyond(name, number, offset, lengths[number])
    before = unpacked(starts[0])
    ahead = {
        number: offset
        for number, offset in segments.must_be_read(cut, lengths).items()
        if offset > before.get(number, 0)
    }
    step.tell_each(
        "DELETE FROM eventide_blobs WHERE stream = ? AND segment = ? AND begins < ? AND begins + rows <= ?",
        [(stream, number, offset, offset) for number, offset in ahead.items()],
    )
    step.tell("UPDATE eventide_streams SET starts = ? WHERE id = ?", (packed({**before, **ahead}), stream))
    passed = _last_passed(step, stream, segments, cut)
    step.tell("DELETE FROM eventide_marks WHERE stream = ? AND number < ?", (stream, passed))


def _last_passed(step: Step, stream: int, segments: Segments, cut: Position) -> int:
    """The number of the last mark that is not beyond a cut, or less. Marks have no gaps, and their cuts never go back:
    so it is searched for.
    """
    (bounds,) = step.ask(("SELECT MIN(number), MAX(number) FROM eventide_marks WHERE stream = ?", (stream,)))
    low, high = (0, 0) if bounds[0][0] is None else (bounds[0][0] - 1, bounds[0][1])
    while low < high:
        middle = (low + high + 1) // 2
        (found,) = step.ask(("SELECT cut FROM eventide_marks WHERE stream = ? AND number = ?", (stream, middle)))
        if segments.is_at_most(unpacked(found[0][0]), cut):
            low = middle
        else:
            high = middle - 1
    return low


def lengths(step: Step, name: str) -> dict[int, int]:
    """``Log.lengths``."""
    (rows,) = step.ask((_LENGTHS, (name,)))
    if not rows:
        raise unknown(step, name)
    return dict(rows)


def locked(step: Step, name: str, *, change: bool = True) -> tuple[int, Segments]:
    """A stream that nobody else changes until the step ends; with ``change``, nobody else holds it, either."""
    lock = "UPDATE" if change else "SHARE"
    (rows,) = step.ask((f"SELECT id, segments FROM eventide_streams WHERE name = ? FOR {lock}", (name,)))
    if not rows:
        raise unknown(step, name)
    return rows[0][0], from_json(json.loads(rows[0][1]))


def unknown(step: Step, name: str) -> Exception:
    """There is no such stream."""
    return errors.unknown_stream(name, names(step))


def abort_open(step: Step, stream: int, writer: str | None = None) -> None:
    """Abort the open transactions of a stream, or of one of its writers."""
    one, values = ("", (stream,)) if writer is None else (" AND writer = ?", (stream, writer))
    (rows,) = step.ask(
        (
            "SELECT id FROM eventide_transactions WHERE stream = ? AND status = 'open'"
            + one
            + " ORDER BY id FOR UPDATE",
            values,
        )
    )
    step.tell_each("UPDATE eventide_transactions SET status = 'aborted' WHERE id = ?", rows)
    step.tell_each("DELETE FROM eventide_additions WHERE transaction_id = ?", rows)


def _close(step: Step, stream: int, numbers: Sequence[int]) -> None:
    rows = [(stream, number) for number in sorted(numbers)]
    step.tell_each("UPDATE eventide_segments SET sealed = 1 WHERE stream = ? AND number = ?", rows)


def _become(step: Step, stream: int, segments: Segments) -> None:
    step.tell(
        "UPDATE eventide_streams SET segments = ?, epoch = epoch + 1 WHERE id = ?",
        (json.dumps(as_json(segments)), stream),
    )
