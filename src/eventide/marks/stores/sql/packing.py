"""Small blobs are replaced by one, within the step of an append or in one of its own.

Whoever packs holds the segment, as whoever appends or truncates does. Readers hold nothing: each of their questions is
answered from one moment, before or after.
"""

from __future__ import annotations

from collections.abc import Sequence

from eventide.marks import packing
from eventide.marks.packing import Run, Size
from eventide.marks.stores.sql.database import Step
from eventide.marks.stores.sql.streams import unknown

BLOB = "INSERT INTO eventide_blobs (stream, segment, begins, rows, writer, body) VALUES (?, ?, ?, ?, ?, ?)"
_SIZES = """
    SELECT begins, rows, LENGTH(body) FROM eventide_blobs
    WHERE stream = ? AND segment = ? AND begins >= ? ORDER BY begins LIMIT ?
"""
_BETWEEN = "stream = ? AND segment = ? AND begins >= ? AND begins < ?"
_BODIES = f"SELECT writer, body FROM eventide_blobs WHERE {_BETWEEN} ORDER BY begins"
_DROP = f"DELETE FROM eventide_blobs WHERE {_BETWEEN}"
_HOLD = """
    SELECT stream FROM eventide_segments
    WHERE stream = (SELECT id FROM eventide_streams WHERE name = ?) AND number = ? FOR UPDATE
"""


def pack_filled(step: Step, stream: int, segment: int, begins: int, ends: int) -> None:
    """Pack the stretch whose end was reached, if one was, by an append that holds the segment."""
    since = packing.PACKING.filled(begins, ends)
    if since is not None:
        runs = packing.PACKING.runs(_sizes(step, stream, segment, since))
        _pack(step, stream, segment, packing.PACKING.chosen(runs))


def pack(step: Step, name: str, segment: int, offset: int) -> int:
    """``Log.pack``."""
    there, held = step.ask(("SELECT id FROM eventide_streams WHERE name = ?", (name,)), (_HOLD, (name, segment)))
    if not there:
        raise unknown(step, name)
    sizes = _sizes(step, held[0][0], segment, offset) if held else []
    if not sizes:
        return offset
    runs, further = packing.PACKING.ahead(sizes)
    done = _pack(step, held[0][0], segment, runs)
    return further if done else max(further, sizes[-1].end)


def _sizes(step: Step, stream: int, segment: int, since: int) -> list[Size]:
    (rows,) = step.ask((_SIZES, (stream, segment, since, packing.PACKING.looked_at)))
    return [Size(*row) for row in rows]


def _pack(step: Step, stream: int, segment: int, runs: Sequence[Run]) -> bool:
    """Whether all of them could be packed: bytes that are no events stay as they are."""
    done = True
    for run in runs:
        place = (stream, segment, run[0].offset, run[-1].end)
        (blobs,) = step.ask((_BODIES, place))
        rows = run[-1].end - run[0].offset
        body = packing.packed([bytes(body) for _, body in blobs], rows)
        if body is None:
            done = False
            continue
        step.tell(_DROP, place)
        step.tell(BLOB, (stream, segment, run[0].offset, rows, packing.writer_of([one for one, _ in blobs]), body))
    return done
