"""Windows in SQLite: what is known is at hand in memory, and every change is written through."""

from __future__ import annotations

import sqlite3

import polars as pl

from eventide.operators import columns as c
from eventide.standalone import columns as s
from eventide.standalone.stores.chunks import Chunks
from eventide.standalone.stores.windows import NAME, MemoryWindows


class SqliteWindows:
    """Windows in a file."""

    def __init__(self, database: sqlite3.Connection, *, by_session: bool) -> None:
        self._database = database
        self._chunks = Chunks(database, "window_chunks")
        key = "session, start, until" if by_session else "start, until, session"
        database.execute(
            "CREATE TABLE IF NOT EXISTS windows (session TEXT, start INTEGER, until INTEGER, first_offset INTEGER, "
            f"last_offset INTEGER, chunk INTEGER, row INTEGER, PRIMARY KEY ({key})) WITHOUT ROWID"
        )
        database.execute("CREATE INDEX IF NOT EXISTS window_places ON windows (chunk)")
        self._at_hand = MemoryWindows(by_session=by_session)
        stored = database.execute("SELECT chunk, row FROM windows").fetchall()
        if stored:
            self._at_hand.put(self._chunks.rows(stored))

    def put(self, windows: pl.DataFrame) -> None:
        """Add windows, or replace what is known of them."""
        self._at_hand.put(windows)
        self._remove(windows)
        self._write(windows)

    def delete(self, windows: pl.DataFrame) -> None:
        """Forget these windows."""
        self._at_hand.delete(windows)
        self._remove(windows)

    def all(self) -> pl.DataFrame | None:
        """Every window."""
        return self._at_hand.all()

    def overlapping(self, start: int, end: int, *, session: str | None = None) -> pl.DataFrame | None:
        """The windows that share a position with a range."""
        return self._at_hand.overlapping(start, end, session=session)

    def _write(self, windows: pl.DataFrame) -> None:
        names = self._chunks.add(windows)
        facts = windows.select(s.SESSION, c.START, c.END, s.START_OFFSET, s.LAST_OFFSET)
        self._database.executemany(
            "INSERT INTO windows (session, start, until, first_offset, last_offset, chunk, row) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            facts.hstack(names).iter_rows(),
        )

    def _remove(self, windows: pl.DataFrame) -> None:
        remove = "DELETE FROM windows WHERE session = ? AND start = ? AND until = ? RETURNING chunk"
        found = (self._database.execute(remove, name).fetchone() for name in windows.select(NAME).iter_rows())
        for airy in self._chunks.release(one[0] for one in found if one is not None):
            self._rewrite(airy)

    def _rewrite(self, chunk: int) -> None:
        """Move what is left of a chunk, so that it can go."""
        taken = self._database.execute("DELETE FROM windows WHERE chunk = ? RETURNING chunk, row", [chunk]).fetchall()
        windows = self._chunks.rows(taken)
        self._chunks.release(chunk for chunk, _ in taken)
        self._write(windows)
