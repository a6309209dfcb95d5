"""Messages in SQLite: an index in the order of the layout's key, whose entries name rows of chunks."""

from __future__ import annotations

import sqlite3
from typing import Any

import polars as pl

from eventide.operators import columns as c
from eventide.standalone import columns as s
from eventide.standalone.stores.chunks import Chunks
from eventide.standalone.stores.store import EVERYWHERE, Range
from eventide.state.layouts import Layout, Order
from eventide.time import MIN

_KEYS = {
    Order.OFFSET: "at, number",
    Order.EQUAL_OFFSET: "equal, at, number",
    Order.TIME_OFFSET: "at, number",
    Order.TIME_EQUAL_OFFSET: "at, equal, number",
    Order.EQUAL_TIME_OFFSET: "equal, at, number",
}
_COLUMNS = {s.ORIGIN: "origin", s.OFFSET: "number", c.AT: "at", s.SESSION: "session", s.EQUAL: "equal"}
_INSERT = f"INSERT INTO messages ({', '.join(_COLUMNS.values())}, chunk, row) VALUES (?, ?, ?, ?, ?, ?, ?)"


class SqliteMessages:
    """Messages in a file."""

    def __init__(self, database: sqlite3.Connection, layout: Layout) -> None:
        self.layout = layout
        self._database = database
        self._chunks = Chunks(database, "message_chunks")
        self._key = ", ".join((["session"] if layout.session else []) + [_KEYS[layout.order], "origin"])
        parts = self._key.split(", ")
        self._order = sorted((n for n in _COLUMNS if _COLUMNS[n] in parts), key=lambda n: parts.index(_COLUMNS[n]))
        database.execute(
            "CREATE TABLE IF NOT EXISTS messages (origin TEXT, number INTEGER, at INTEGER, session TEXT, equal TEXT, "
            f"chunk INTEGER, row INTEGER, PRIMARY KEY ({self._key})) WITHOUT ROWID"
        )
        database.execute("CREATE UNIQUE INDEX IF NOT EXISTS message_names ON messages (origin, number)")
        self._empty: pl.DataFrame | None = None
        self._last: dict[str, int] = dict(
            database.execute("SELECT origin, max(number) FROM messages GROUP BY origin").fetchall()
        )
        floor = database.execute("SELECT value FROM facts WHERE name = 'floor'").fetchone()
        self._floor: int = MIN if floor is None else floor[0]

    def put(self, messages: pl.DataFrame) -> int:
        """Add those that are not there yet."""
        self._empty = messages.clear() if self._empty is None else self._empty
        messages = messages.filter(pl.col(c.AT) >= self._floor)
        new = self._unknown(messages.unique([s.ORIGIN, s.OFFSET], keep="first", maintain_order=True))
        if new.is_empty():
            return 0
        self._last |= {
            origin: max(offset, self._last.get(origin, offset))
            for origin, offset in new.group_by(s.ORIGIN).agg(pl.col(s.OFFSET).max()).iter_rows()
        }
        # Neighbours in the key are neighbours in a chunk, so that a range needs few chunks.
        new = new.sort(self._order)
        self._index(new, self._chunks.add(new))
        return new.height

    def read(
        self, within: Range = EVERYWHERE, *, session: str | None = None, equal: str | None = None
    ) -> pl.DataFrame | None:
        """The messages in a range."""
        exact = {name: value for name, value in (("session", session), ("equal", equal)) if value is not None}
        if self.layout.equal_first and equal is not None and self._floor > MIN:
            self._delete(Range(end=self._floor), exact)
        wanted, values = _where(within, exact)
        if self._floor > MIN:
            wanted, values = f"{wanted} AND at >= ?", [*values, self._floor]
        return self._found(f"{wanted} ORDER BY at, number", values)

    def named(self, offsets: pl.Series, origin: str = "") -> pl.DataFrame | None:
        """The messages with these offsets."""
        names = [
            name for offset in offsets.sort() for name in self._names("origin = ? AND number = ?", [origin, offset])
        ]
        return self._chunks.rows(names) if names else self._nothing()

    def expire(self, before: int) -> int:
        """Drop messages before a position; later, where the join key stands first."""
        if before > self._floor:
            self._floor = before
            self._database.execute("INSERT OR REPLACE INTO facts VALUES ('floor', ?)", [before])
        return 0 if self.layout.equal_first else self._delete(Range(end=before), {})

    def retire(self, ranges: pl.DataFrame) -> int:
        """Drop ranges of sessions."""
        rows = ranges.select(s.SESSION, c.START, c.END).iter_rows()
        return sum(self._delete(Range(start, end), {"session": session}) for session, start, end in rows)

    def count(self) -> int:
        """How many are there."""
        return self._chunks.count()

    def bytes(self) -> int:
        """How much room they take."""
        return self._chunks.bytes()

    def _index(self, messages: pl.DataFrame, names: pl.DataFrame) -> None:
        columns = [*(messages[name] for name in _COLUMNS), *names.get_columns()]
        self._database.executemany(_INSERT, zip(*(column.to_list() for column in columns), strict=True))

    def _unknown(self, messages: pl.DataFrame) -> pl.DataFrame:
        """Messages beyond an origin's greatest offset are new; the others are looked for."""
        last = pl.col(s.ORIGIN).replace_strict(self._last, default=None, return_dtype=pl.Int64)
        known = messages.select((pl.col(s.OFFSET) <= last).fill_null(False)).to_series()
        if not known.any():
            return messages
        asked = messages.select(s.ORIGIN, s.OFFSET).filter(known).iter_rows()
        there = [name for name in asked if self._names("origin = ? AND number = ?", name)]
        stored = pl.DataFrame(there, schema={s.ORIGIN: pl.String, s.OFFSET: pl.Int64}, orient="row")
        return messages.join(stored, on=[s.ORIGIN, s.OFFSET], how="anti", maintain_order="left")

    def _names(self, wanted: str, values: Any) -> list[tuple[int, int]]:
        return self._database.execute(f"SELECT chunk, row FROM messages WHERE {wanted}", values).fetchall()

    def _found(self, wanted: str, values: list[Any]) -> pl.DataFrame | None:
        names = self._names(wanted, values)
        return self._chunks.rows(names) if names else self._nothing()

    def _nothing(self) -> pl.DataFrame | None:
        if self._empty is None and (one := self._names("true LIMIT 1", [])):
            self._empty = self._chunks.rows(one).clear()
        return self._empty

    def _delete(self, within: Range, exact: dict[str, str]) -> int:
        wanted, values = _where(within, exact)
        gone = self._database.execute(f"DELETE FROM messages WHERE {wanted} RETURNING chunk", values).fetchall()
        for chunk in self._chunks.release(chunk for (chunk,) in gone):
            self._rewrite(chunk)
        return len(gone)

    def _rewrite(self, chunk: int) -> None:
        """Move what is left of a chunk, so that it can go."""
        names = self._chunks.whole(chunk).select(s.ORIGIN, s.OFFSET).iter_rows()
        take = "DELETE FROM messages WHERE origin = ? AND number = ? AND chunk = ? RETURNING chunk, row"
        found = (self._database.execute(take, [*name, chunk]).fetchone() for name in names)
        taken = [name for name in found if name is not None]
        rows = self._chunks.rows(taken)
        self._chunks.release(chunk for chunk, _ in taken)
        self._index(rows, self._chunks.add(rows))


def _where(within: Range, exact: dict[str, str]) -> tuple[str, list[Any]]:
    """The range as a condition, in a form that SQLite finds by its index."""
    wanted = [*(f"{name} = ?" for name in exact), "at >= ?", "at <= ?" if within.end_offset is not None else "at < ?"]
    values: list[Any] = [*exact.values(), within.start, within.end]
    if within.start_offset is not None:
        wanted.append("(at > ? OR number >= ?)")
        values += [within.start, within.start_offset]
    if within.end_offset is not None:
        wanted.append("(at < ? OR number <= ?)")
        values += [within.end, within.end_offset]
    return " AND ".join(wanted), values
