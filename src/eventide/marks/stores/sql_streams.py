"""Streams and their segments, leases of controllers, and states of reader groups in SQL."""

# ruff: noqa: D103 - ``Store`` documents the functions with the names of its methods

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from eventide.marks.errors import stream_exists, unknown_stream
from eventide.marks.events import check_columns
from eventide.marks.segments import Position, Ranges, Segments, segments_from_json, segments_to_json
from eventide.marks.stores.sql_database import DatabaseStep, decode_position, encode_position
from eventide.marks.stores.store import Config, Lease, StreamInfo, is_lease_active

STREAM_ID = "SELECT id FROM eventide_streams WHERE name = ?"
LENGTHS = f"SELECT number, length FROM eventide_segments WHERE stream = ({STREAM_ID})"

_INSERT_STREAM = """
    INSERT INTO eventide_streams (name, created, schema, first_segments, writer_timeout, mark_every, writer_lease,
        epoch, segments, starts)
    VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, ?) ON CONFLICT DO NOTHING RETURNING id
"""
_STREAM = """
    SELECT created, schema, first_segments, writer_timeout, mark_every, writer_lease, segments, starts
    FROM eventide_streams WHERE name = ?
"""
_INSERT_SEGMENT = "INSERT INTO eventide_segments (stream, number, length, sealed) VALUES (?, ?, 0, 0)"
_STREAM_TABLES = ("marks", "groups", "writers", "transactions", "segments", "blobs")
_DELETE_BLOBS = "DELETE FROM eventide_blobs WHERE stream = ? AND segment = ? AND start < ? AND start + rows <= ?"
_HEARTBEAT = """
    INSERT INTO eventide_controllers (name, until, length) VALUES (?, ?, ?)
    ON CONFLICT (name) DO UPDATE SET until = excluded.until, length = excluded.length
"""
# The same rule as ``is_lease_active``; needs the time twice.
_IS_ACTIVE = "until > ? AND until - 2 * length <= ?"
_DEAD_CONTROLLERS = f"""
    SELECT name FROM eventide_controllers WHERE name <> ? AND NOT ({_IS_ACTIVE}) ORDER BY name FOR UPDATE SKIP LOCKED
"""
_INSERT_LEASE = """
    INSERT INTO eventide_leases (stream, owner, fence, until, length) VALUES (?, '', 0, 0, 0) ON CONFLICT DO NOTHING
    RETURNING fence
"""
_RELEASE_LEASE = "UPDATE eventide_leases SET owner = '', until = 0 WHERE stream = ?"
_GROUP = f"SELECT version, state FROM eventide_groups WHERE stream = ({STREAM_ID}) AND name = ?"
_INSERT_GROUP = """
    INSERT INTO eventide_groups (stream, name, version, state)
    SELECT id, ?, 1, ? FROM eventide_streams WHERE name = ? ON CONFLICT DO NOTHING RETURNING version
"""
_UPDATE_GROUP = f"""
    UPDATE eventide_groups SET version = version + 1, state = ?
    WHERE stream = ({STREAM_ID}) AND name = ? AND version = ? RETURNING version
"""


def create_stream(step: DatabaseStep, name: str, config: Config) -> StreamInfo:
    check_columns(name, config.schema)
    segments = Segments.even(config.segments)
    step.query()  # reads the clock
    created = step.now
    durations = (config.writer_timeout, config.mark_every, config.writer_lease)
    schema = bytes(config.schema.serialize())
    values = (name, created, schema, config.segments, *durations, json.dumps(segments_to_json(segments)), b"")
    (inserted,) = step.query((_INSERT_STREAM, values))
    if not inserted:
        raise stream_exists(name)
    step.execute_many(_INSERT_SEGMENT, [(inserted[0][0], segment.number) for segment in segments.all])
    return StreamInfo(name, created, config, segments)


def stream_info(step: DatabaseStep, name: str) -> StreamInfo:
    (rows,) = step.query((_STREAM, (name,)))
    if not rows:
        raise unknown(step, name)
    created, schema, first_segments, writer_timeout, mark_every, writer_lease, segments, starts = rows[0]
    config = Config(
        schema=pa.ipc.read_schema(pa.py_buffer(schema)),
        segments=first_segments,
        writer_timeout=writer_timeout,
        mark_every=mark_every,
        writer_lease=writer_lease,
    )
    return StreamInfo(name, created, config, segments_from_json(json.loads(segments)), decode_position(starts))


def stream_names(step: DatabaseStep) -> list[str]:
    (rows,) = step.query(("SELECT name FROM eventide_streams", ()))
    return sorted(name for (name,) in rows)


def delete_stream(step: DatabaseStep, name: str) -> None:
    stream, _ = lock_stream(step, name)
    # Wait for the holders of writers and transactions before the segments, in the order of locks.
    step.query(
        ("SELECT owner FROM eventide_leases WHERE stream = ? FOR UPDATE", (name,)),
        ("SELECT writer FROM eventide_writers WHERE stream = ? ORDER BY writer FOR UPDATE", (stream,)),
        ("SELECT id FROM eventide_transactions WHERE stream = ? ORDER BY id FOR UPDATE", (stream,)),
        ("SELECT number FROM eventide_segments WHERE stream = ? ORDER BY number FOR UPDATE", (stream,)),
    )
    transactions = "SELECT id FROM eventide_transactions WHERE stream = ?"
    step.execute(f"DELETE FROM eventide_additions WHERE transaction_id IN ({transactions})", (stream,))
    for table in _STREAM_TABLES:
        step.execute(f"DELETE FROM eventide_{table} WHERE stream = ?", (stream,))
    step.execute(_RELEASE_LEASE, (name,))
    step.execute("DELETE FROM eventide_streams WHERE id = ?", (stream,))


def scale(step: DatabaseStep, name: str, seal: Sequence[int], ranges: Ranges) -> Segments:
    stream, segments = lock_stream(step, name)
    scaled = segments.scaled(seal, ranges)
    created = [segment.number for segment in scaled.all if segment.number not in segments]
    _set_segments(step, stream, scaled, seal)
    step.execute_many(_INSERT_SEGMENT, [(stream, number) for number in created])
    return scaled


def seal(step: DatabaseStep, name: str) -> Segments:
    stream, segments = lock_stream(step, name)
    ended = segments.ended()
    if not segments.has_ended:
        abort_open(step, stream)
        _set_segments(step, stream, ended, [segment.number for segment in segments.all if not segment.sealed])
    return ended


def truncate(step: DatabaseStep, name: str, cut: Position) -> None:
    stream, segments = lock_stream(step, name)
    # Wait for appends: they may be compacting the deleted blobs and would store them again as one.
    rows, ((encoded_starts,),) = step.query(
        (f"{LENGTHS} ORDER BY number FOR UPDATE", (name,)),
        ("SELECT starts FROM eventide_streams WHERE id = ?", (stream,)),
    )
    lengths: dict[int, int] = dict(rows)
    segments.check_cut(name, cut, lengths)
    starts = decode_position(encoded_starts)
    advanced = {
        number: offset
        for number, offset in segments.must_be_read(cut, lengths).items()
        if offset > starts.get(number, 0)
    }
    step.execute_many(_DELETE_BLOBS, [(stream, number, offset, offset) for number, offset in advanced.items()])
    encoded_starts = encode_position({**starts, **advanced})
    step.execute("UPDATE eventide_streams SET starts = ? WHERE id = ?", (encoded_starts, stream))
    last_passed = _last_passed_mark(step, stream, segments, cut)
    step.execute("DELETE FROM eventide_marks WHERE stream = ? AND number < ?", (stream, last_passed))


def lengths(step: DatabaseStep, name: str) -> dict[int, int]:
    (rows,) = step.query((f"{LENGTHS} ORDER BY number", (name,)))
    if not rows:
        raise unknown(step, name)
    return dict(rows)


def heartbeat(step: DatabaseStep, controller: str, until: int) -> None:
    step.query()  # reads the clock
    (dead,) = step.query((_DEAD_CONTROLLERS, (controller, step.now, step.now)))
    step.execute_many("DELETE FROM eventide_controllers WHERE name = ?", dead)
    step.execute(_HEARTBEAT, (controller, until, until - step.now))


def controllers(step: DatabaseStep) -> list[str]:
    now = step.now
    (rows,) = step.query((f"SELECT name FROM eventide_controllers WHERE {_IS_ACTIVE}", (now, now)))
    return sorted(name for (name,) in rows)


def leave(step: DatabaseStep, controller: str) -> None:
    (streams,) = step.query(
        ("SELECT stream FROM eventide_leases WHERE owner = ? ORDER BY stream FOR UPDATE", (controller,))
    )
    step.execute_many(_RELEASE_LEASE, streams)
    step.execute("DELETE FROM eventide_controllers WHERE name = ?", (controller,))


def acquire(step: DatabaseStep, stream: str, controller: str, until: int) -> Lease | None:
    streams, _, leases = step.query(
        (f"{STREAM_ID} FOR SHARE", (stream,)),
        (_INSERT_LEASE, (stream,)),
        ("SELECT owner, fence, until, length FROM eventide_leases WHERE stream = ? FOR UPDATE", (stream,)),
    )
    if not streams:
        raise unknown(step, stream)
    ((owner, fence, current_until, length),) = leases
    if owner and is_lease_active(current_until, length, step.now):
        if owner != controller:
            return None
    else:
        fence += 1
    step.execute(
        "UPDATE eventide_leases SET owner = ?, fence = ?, until = ?, length = ? WHERE stream = ?",
        (controller, fence, until, until - step.now, stream),
    )
    return Lease(stream, controller, fence, until)


def release(step: DatabaseStep, lease: Lease) -> None:
    step.execute(f"{_RELEASE_LEASE} AND owner = ? AND fence = ?", (lease.stream, lease.owner, lease.fence))


def leases(step: DatabaseStep) -> list[Lease]:
    now = step.now
    query = f"SELECT stream, owner, fence, until FROM eventide_leases WHERE owner <> '' AND {_IS_ACTIVE}"
    (rows,) = step.query((query, (now, now)))
    return sorted(Lease(*row) for row in rows)


def group(step: DatabaseStep, stream: str, name: str) -> tuple[int, bytes] | None:
    (rows,) = step.query((_GROUP, (stream, name)))
    if not rows:
        require_stream(step, stream)
        return None
    return rows[0][0], bytes(rows[0][1])


def put_group(step: DatabaseStep, stream: str, name: str, version: int, state: bytes) -> bool:
    insert = (_INSERT_GROUP, (name, state, stream))
    (rows,) = step.query(insert if version == 0 else (_UPDATE_GROUP, (state, stream, name, version)))
    if not rows:
        require_stream(step, stream)
    return bool(rows)


def delete_group(step: DatabaseStep, stream: str, name: str) -> None:
    step.execute(f"DELETE FROM eventide_groups WHERE stream = ({STREAM_ID}) AND name = ?", (stream, name))


def lock_stream(step: DatabaseStep, name: str, *, shared: bool = False) -> tuple[int, Segments]:
    """Lock a stream until the end of the step. Return its id and segments."""
    mode = "SHARE" if shared else "UPDATE"
    (rows,) = step.query((f"SELECT id, segments FROM eventide_streams WHERE name = ? FOR {mode}", (name,)))
    if not rows:
        raise unknown(step, name)
    return rows[0][0], segments_from_json(json.loads(rows[0][1]))


def require_stream(step: DatabaseStep, name: str) -> None:
    """Raise ``UnknownStreamError`` if a stream does not exist."""
    (rows,) = step.query((STREAM_ID, (name,)))
    if not rows:
        raise unknown(step, name)


def unknown(step: DatabaseStep, name: str) -> Exception:
    """The error for a stream that does not exist."""
    return unknown_stream(name, stream_names(step))


def abort_open(step: DatabaseStep, stream: int, writer: str | None = None) -> None:
    """Abort the open transactions of a stream, or of one of its writers."""
    condition, values = ("", (stream,)) if writer is None else (" AND writer = ?", (stream, writer))
    query = f"SELECT id FROM eventide_transactions WHERE stream = ? AND status = 'open'{condition}"
    (rows,) = step.query((f"{query} ORDER BY id FOR UPDATE", values))
    step.execute_many("UPDATE eventide_transactions SET status = 'aborted' WHERE id = ?", rows)
    step.execute_many("DELETE FROM eventide_additions WHERE transaction_id = ?", rows)


def _set_segments(step: DatabaseStep, stream: int, segments: Segments, seal: Sequence[int]) -> None:
    sealed = [(stream, number) for number in sorted(seal)]
    step.execute_many("UPDATE eventide_segments SET sealed = 1 WHERE stream = ? AND number = ?", sealed)
    step.execute(
        "UPDATE eventide_streams SET segments = ?, epoch = epoch + 1 WHERE id = ?",
        (json.dumps(segments_to_json(segments)), stream),
    )


def _last_passed_mark(step: DatabaseStep, stream: int, segments: Segments, cut: Position) -> int:
    """The number of the last mark that a cut has passed, or less.

    Numbers have no gaps and cuts never go back, so a binary search finds it.
    """
    (bounds,) = step.query(("SELECT MIN(number), MAX(number) FROM eventide_marks WHERE stream = ?", (stream,)))
    low, high = (0, 0) if bounds[0][0] is None else (bounds[0][0] - 1, bounds[0][1])
    while low < high:
        middle = (low + high + 1) // 2
        (marks,) = step.query(("SELECT cut FROM eventide_marks WHERE stream = ? AND number = ?", (stream, middle)))
        if segments.is_at_most(decode_position(marks[0][0]), cut):
            low = middle
        else:
            high = middle - 1
    return low
