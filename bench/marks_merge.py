"""Merging the notes of many writers at many segments, against bare reads of the same rows."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.measure import Line, rss_mb, timed
from eventide.marks.mark import Mark, Note
from eventide.marks.merge import merge_notes
from eventide.marks.stores import connect
from eventide.marks.stores.store import Config, Part, Store

WRITERS, SEGMENTS, LENGTH, ROUNDS = 1_000, 100, 1_000_000, 30
STREAM = "orders"
TARGETS = {"marks_merge": "at most 50 ms"}
_ROWS = "SELECT writer, note_time, note_at, note_closed, note_position FROM eventide_writers ORDER BY writer"


def marks_merge() -> Line:
    """One round of a controller for one stream, from its notes in SQLite to the mark, without keeping it."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "marks.db"
        store = connect(f"sqlite:///{file}")
        _fill(store)
        with closing(sqlite3.connect(file)) as bare:
            ours, theirs = [], []
            for _ in range(ROUNDS):
                theirs.append(timed(lambda: bare.execute(_ROWS).fetchall())[0])
                seconds, mark = timed(lambda: _merge(store))
                ours.append(seconds)
        equal = mark is not None and _is_right(mark, store.notes(STREAM))
        store.close()
    rate, peer = 1 / min(ours), 1 / min(theirs)
    details = {"merge_ms": round(min(ours) * 1000, 2), "median_ms": round(float(np.median(ours)) * 1000, 2)}
    return Line(
        "marks_merge",
        round(rate),
        round(peer),
        "bare SELECT of the notes",
        round(rate / peer, 3),
        "merges/s",
        rss_mb(),
        equal,
        details,
    )


def _merge(store: Store) -> Mark | None:
    last, notes = store.last_mark(STREAM), store.note_columns(STREAM)
    return merge_notes(store.stream(STREAM), last, notes, store.lengths(STREAM), store.now()).mark


def _fill(store: Store) -> None:
    """Each writer has come to a place of its own in every segment."""
    config = Config(schema=pa.schema({"n": pa.int64()}), segments=SEGMENTS, mark_every=0, writer_timeout=10**12)
    store.create_stream(STREAM, config)
    handle = store.open_writer(STREAM, "the one who wrote it all")
    store.append(handle, 1, [Part(number, LENGTH, b"") for number in range(SEGMENTS)])
    rng = np.random.default_rng(7)
    for number in range(WRITERS):
        position: Any = dict(enumerate(rng.integers(0, LENGTH, SEGMENTS).tolist()))
        store.note(store.open_writer(STREAM, f"writer {number}"), int(rng.integers(0, 10**12)), position)


def _is_right(mark: Mark, notes: list[Note]) -> bool:
    furthest = {number: max(note.position[number] for note in notes) for number in range(SEGMENTS)}
    times = [note.time for note in notes]
    return len(notes) == WRITERS and (mark.lower, mark.upper, dict(mark.cut)) == (min(times), max(times), furthest)


ALL = (marks_merge,)
