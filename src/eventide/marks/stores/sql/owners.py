"""Who makes the marks of a stream, and what groups of readers know together."""

from __future__ import annotations

from eventide.marks.leases import lasts
from eventide.marks.stores.sql.database import Step
from eventide.marks.stores.sql.streams import unknown
from eventide.marks.stores.store import Lease

_BEAT = """
    INSERT INTO eventide_controllers (name, until, length) VALUES (?, ?, ?)
    ON CONFLICT (name) DO UPDATE SET until = excluded.until, length = excluded.length
"""
_NEW_LEASE = """
    INSERT INTO eventide_leases (stream, owner, fence, until, length) VALUES (?, '', 0, 0, 0) ON CONFLICT DO NOTHING
    RETURNING fence
"""
# As ``leases.lasts`` says it; needs the time twice.
_LASTS = "until > ? AND until - 2 * length <= ?"
_DEAD = f"""
    SELECT name FROM eventide_controllers WHERE name <> ? AND NOT ({_LASTS}) ORDER BY name FOR UPDATE SKIP LOCKED
"""
_STREAM = "SELECT id FROM eventide_streams WHERE name = ?"
_GROUP = f"SELECT version, state FROM eventide_groups WHERE stream = ({_STREAM}) AND name = ?"
_NEW_GROUP = """
    INSERT INTO eventide_groups (stream, name, version, state)
    SELECT id, ?, 1, ? FROM eventide_streams WHERE name = ? ON CONFLICT DO NOTHING RETURNING version
"""
_NEXT_GROUP = f"""
    UPDATE eventide_groups SET version = version + 1, state = ?
    WHERE stream = ({_STREAM}) AND name = ? AND version = ? RETURNING version
"""


def beat(step: Step, controller: str, until: int) -> None:
    """``TimeKeeping.beat``."""
    step.ask()  # for the time
    (dead,) = step.ask((_DEAD, (controller, step.now, step.now)))
    step.tell_each("DELETE FROM eventide_controllers WHERE name = ?", dead)
    step.tell(_BEAT, (controller, until, until - step.now))


def controllers(step: Step) -> list[str]:
    """``TimeKeeping.controllers``."""
    now = step.now
    (rows,) = step.ask((f"SELECT name FROM eventide_controllers WHERE {_LASTS}", (now, now)))
    return sorted(name for (name,) in rows)


def leave(step: Step, controller: str) -> None:
    """``TimeKeeping.leave``."""
    (held,) = step.ask(("SELECT stream FROM eventide_leases WHERE owner = ? ORDER BY stream FOR UPDATE", (controller,)))
    step.tell_each("UPDATE eventide_leases SET owner = '', until = 0 WHERE stream = ?", held)
    step.tell("DELETE FROM eventide_controllers WHERE name = ?", (controller,))


def acquire(step: Step, stream: str, controller: str, until: int) -> Lease | None:
    """``TimeKeeping.acquire``."""
    found, _, leases = step.ask(
        (f"{_STREAM} FOR SHARE", (stream,)),
        (_NEW_LEASE, (stream,)),
        ("SELECT owner, fence, until, length FROM eventide_leases WHERE stream = ? FOR UPDATE", (stream,)),
    )
    if not found:
        raise unknown(step, stream)
    ((owner, fence, held_until, length),) = leases
    if owner and lasts(held_until, length, step.now):
        if owner != controller:
            return None
    else:
        fence += 1
    step.tell(
        "UPDATE eventide_leases SET owner = ?, fence = ?, until = ?, length = ? WHERE stream = ?",
        (controller, fence, until, until - step.now, stream),
    )
    return Lease(stream, controller, fence, until)


def release(step: Step, lease: Lease) -> None:
    """``TimeKeeping.release``."""
    step.tell(
        "UPDATE eventide_leases SET owner = '', until = 0 WHERE stream = ? AND owner = ? AND fence = ?",
        (lease.stream, lease.owner, lease.fence),
    )


def leases(step: Step) -> list[Lease]:
    """``TimeKeeping.leases``."""
    now = step.now
    question = f"SELECT stream, owner, fence, until FROM eventide_leases WHERE owner <> '' AND {_LASTS}"
    (rows,) = step.ask((question, (now, now)))
    return sorted(Lease(*row) for row in rows)


def group(step: Step, stream: str, name: str) -> tuple[int, bytes] | None:
    """``TimeKeeping.group``."""
    (rows,) = step.ask((_GROUP, (stream, name)))
    if not rows:
        _require(step, stream)
        return None
    return rows[0][0], bytes(rows[0][1])


def put_group(step: Step, stream: str, name: str, version: int, state: bytes) -> bool:
    """``TimeKeeping.put_group``."""
    new = (_NEW_GROUP, (name, state, stream))
    (rows,) = step.ask(new if version == 0 else (_NEXT_GROUP, (state, stream, name, version)))
    if not rows:
        _require(step, stream)
    return bool(rows)


def delete_group(step: Step, stream: str, name: str) -> None:
    """``TimeKeeping.delete_group``."""
    step.tell(f"DELETE FROM eventide_groups WHERE stream = ({_STREAM}) AND name = ?", (stream, name))


def _require(step: Step, stream: str) -> None:
    (found,) = step.ask((_STREAM, (stream,)))
    if not found:
        raise unknown(step, stream)
