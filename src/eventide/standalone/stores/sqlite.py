"""A store in one SQLite file. A commit is a transaction.

Rows are stored in chunks: frames in the Arrow IPC format, with the number of rows still in use. Messages have an index
in the order of the layout's key, whose entries refer to rows of chunks. Windows are cached in memory, and every change
is written through.
"""

# ruff: noqa: D102 - ``MessageStore`` and ``Store`` and ``Windows`` document the methods

from __future__ import annotations

import io
import sqlite3
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from eventide import _columns as c
from eventide._formats import FORMATS
from eventide.errors import DataError
from eventide.kernels.frames import to_ipc
from eventide.standalone.stores.memory import WINDOW_NAME, MemoryWindows
from eventide.standalone.stores.store import EVERYWHERE, Range
from eventide.state.message_layout import MessageLayout, Order
from eventide.time import MIN

PATIENCE = 5.0  # seconds to wait for a lock of another process

_CHUNK_ROWS = 4096
_CACHED_CHUNKS = 64
_APPLICATION_ID = 0x45564E54  # in the header of the file


class ChunkTable:
    """A table of chunks. A row reference is the chunk and the index of the row in it."""

    def __init__(self, database: sqlite3.Connection, table: str) -> None:
        self._database = database
        self._table = table
        self._cache: OrderedDict[int, pl.DataFrame] = OrderedDict()
        database.execute(
            f"CREATE TABLE IF NOT EXISTS {table} "
            "(id INTEGER PRIMARY KEY AUTOINCREMENT, rows INTEGER, live INTEGER, body BLOB)"
        )

    def add(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Write rows, and return their references as columns ``chunk`` and ``row``."""
        references = []
        for part in frame.iter_slices(_CHUNK_ROWS):
            inserted = self._database.execute(
                f"INSERT INTO {self._table} (rows, live, body) VALUES (?, ?, ?)",
                [part.height, part.height, as_bytes(part)],
            )
            chunk = pl.lit(inserted.lastrowid, pl.Int64).alias("chunk")
            references.append(part.select(chunk, row=pl.int_range(pl.len())))
        return pl.concat(references) if references else pl.DataFrame(schema={"chunk": pl.Int64, "row": pl.Int64})

    def rows(self, references: Sequence[tuple[int, int]]) -> pl.DataFrame:
        """Return the rows with these references, at least one, in their order."""
        schema = {"chunk": pl.Int64, "row": pl.Int64}
        ordered = pl.DataFrame(references, schema=schema, orient="row").with_row_index("index")
        indexes, rows = [], []
        for (chunk,), part in ordered.partition_by("chunk", as_dict=True).items():
            indexes.append(part["index"])
            rows.append(self.whole(chunk)[part["row"]])
        return pl.concat(rows)[pl.concat(indexes).arg_sort()] if len(rows) > 1 else rows[0]

    def release(self, chunks: Iterable[int]) -> list[int]:
        """Release one row for each of these chunks. Return the chunks that are mostly unused."""
        released = Counter(chunks)
        self._database.executemany(
            f"UPDATE {self._table} SET live = live - ? WHERE id = ?", [(n, chunk) for chunk, n in released.items()]
        )
        self._database.executemany(
            f"DELETE FROM {self._table} WHERE id = ? AND live = 0", [(chunk,) for chunk in released]
        )
        mostly_unused = f"SELECT 1 FROM {self._table} WHERE id = ? AND live * 4 < rows"
        return [chunk for chunk in released if self._database.execute(mostly_unused, [chunk]).fetchone()]

    def count(self) -> int:
        """Return the number of rows in use."""
        count: int = self._database.execute(f"SELECT coalesce(sum(live), 0) FROM {self._table}").fetchone()[0]
        return count

    def bytes(self) -> int:
        """Return the size of all chunks."""
        size: int = self._database.execute(f"SELECT coalesce(sum(length(body)), 0) FROM {self._table}").fetchone()[0]
        return size

    def whole(self, number: int) -> pl.DataFrame:
        """Return all rows of a chunk, also unused ones."""
        frame = self._cache.pop(number, None)
        if frame is None:
            body = self._database.execute(f"SELECT body FROM {self._table} WHERE id = ?", [number]).fetchone()[0]
            frame = as_frame(body)
        self._cache[number] = frame
        if len(self._cache) > _CACHED_CHUNKS:
            self._cache.popitem(last=False)
        return frame


def as_bytes(frame: pl.DataFrame) -> bytes:
    """Return a frame in the Arrow IPC format.

    >>> as_frame(as_bytes(pl.DataFrame({"n": [1]})))["n"].to_list()
    [1]
    """
    return to_ipc(frame)


def as_frame(body: bytes) -> pl.DataFrame:
    """Return the frame that was written."""
    return pl.read_ipc_stream(io.BytesIO(body))


class SqliteWindows:
    """Windows in a file, cached in memory."""

    def __init__(self, database: sqlite3.Connection, *, by_session: bool) -> None:
        self._database = database
        self._chunks = ChunkTable(database, "window_chunks")
        key = "session, start, until" if by_session else "start, until, session"
        database.execute(
            "CREATE TABLE IF NOT EXISTS windows (session TEXT, start INTEGER, until INTEGER, first_offset INTEGER, "
            f"last_offset INTEGER, chunk INTEGER, row INTEGER, PRIMARY KEY ({key})) WITHOUT ROWID"
        )
        database.execute("CREATE INDEX IF NOT EXISTS window_places ON windows (chunk)")
        self._cache = MemoryWindows(by_session=by_session)
        stored = database.execute("SELECT chunk, row FROM windows").fetchall()
        if stored:
            self._cache.put(self._chunks.rows(stored))

    def put(self, windows: pl.DataFrame) -> None:
        self._cache.put(windows)
        self._remove(windows)
        self._write(windows)

    def delete(self, windows: pl.DataFrame) -> None:
        self._cache.delete(windows)
        self._remove(windows)

    def all(self) -> pl.DataFrame | None:
        return self._cache.all()

    def overlapping(self, start: int, end: int, *, session: str | None = None) -> pl.DataFrame | None:
        return self._cache.overlapping(start, end, session=session)

    def _write(self, windows: pl.DataFrame) -> None:
        references = self._chunks.add(windows)
        facts = windows.select(c.SESSION, c.START, c.END, c.START_OFFSET, c.LAST_OFFSET)
        self._database.executemany(
            "INSERT INTO windows (session, start, until, first_offset, last_offset, chunk, row) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            facts.hstack(references).iter_rows(),
        )

    def _remove(self, windows: pl.DataFrame) -> None:
        remove = "DELETE FROM windows WHERE session = ? AND start = ? AND until = ? RETURNING chunk"
        removed = (self._database.execute(remove, name).fetchone() for name in windows.select(WINDOW_NAME).iter_rows())
        for chunk in self._chunks.release(row[0] for row in removed if row is not None):
            self._rewrite(chunk)

    def _rewrite(self, chunk: int) -> None:
        """Move the used rows of a chunk to a new one."""
        moved = self._database.execute("DELETE FROM windows WHERE chunk = ? RETURNING chunk, row", [chunk]).fetchall()
        windows = self._chunks.rows(moved)
        self._chunks.release(chunk for chunk, _ in moved)
        self._write(windows)


_KEYS = {
    Order.OFFSET: "at, number",
    Order.EQUAL_OFFSET: "equal, at, number",
    Order.TIME_OFFSET: "at, number",
    Order.TIME_EQUAL_OFFSET: "at, equal, number",
    Order.EQUAL_TIME_OFFSET: "equal, at, number",
}
_COLUMNS = {c.ORIGIN: "origin", c.OFFSET: "number", c.AT: "at", c.SESSION: "session", c.EQUAL: "equal"}
_INSERT = f"INSERT INTO messages ({', '.join(_COLUMNS.values())}, chunk, row) VALUES (?, ?, ?, ?, ?, ?, ?)"


class SqliteMessages:
    """Messages in a file."""

    def __init__(self, database: sqlite3.Connection, layout: MessageLayout) -> None:
        self.layout = layout
        self._database = database
        self._chunks = ChunkTable(database, "message_chunks")
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
        self._empty = messages.clear() if self._empty is None else self._empty
        messages = messages.filter(EVERYWHERE.above(self._floor).holds())
        new = self._not_stored(messages.unique([c.ORIGIN, c.OFFSET], keep="first", maintain_order=True))
        if new.is_empty():
            return 0
        self._last |= {
            origin: max(offset, self._last.get(origin, offset))
            for origin, offset in new.group_by(c.ORIGIN).agg(pl.col(c.OFFSET).max()).iter_rows()
        }
        # Neighbours in the key are neighbours in a chunk, so that a range needs few chunks.
        new = new.sort(self._order)
        self._index(new, self._chunks.add(new))
        return new.height

    def read(
        self, within: Range = EVERYWHERE, *, session: str | None = None, equal: str | None = None
    ) -> pl.DataFrame | None:
        exact = {name: value for name, value in (("session", session), ("equal", equal)) if value is not None}
        if self.layout.equal_first and equal is not None and self._floor > MIN:
            self._delete(Range(end=self._floor), exact)
        condition, values = _where(within.above(self._floor), exact)
        references = self._references(f"{condition} ORDER BY at, number", values)
        return self._chunks.rows(references) if references else self._no_messages()

    def named(self, offsets: pl.Series, origin: str = "") -> pl.DataFrame | None:
        references = [
            reference
            for offset in offsets.sort()
            for reference in self._references("origin = ? AND number = ?", [origin, offset])
        ]
        return self._chunks.rows(references) if references else self._no_messages()

    def expire(self, before: int) -> int:
        """Delete messages before a position; lazily, if the join key is the first level."""
        if before > self._floor:
            self._floor = before
            self._database.execute("INSERT OR REPLACE INTO facts VALUES ('floor', ?)", [before])
        return 0 if self.layout.equal_first else self._delete(Range(end=before), {})

    def retire(self, ranges: pl.DataFrame) -> int:
        rows = ranges.select(c.SESSION, c.START, c.END).iter_rows()
        return sum(self._delete(Range(start, end), {"session": session}) for session, start, end in rows)

    def count(self) -> int:
        return self._chunks.count()

    def bytes(self) -> int:
        return self._chunks.bytes()

    def _index(self, messages: pl.DataFrame, references: pl.DataFrame) -> None:
        columns = [*(messages[name] for name in _COLUMNS), *references.get_columns()]
        self._database.executemany(_INSERT, zip(*(column.to_list() for column in columns), strict=True))

    def _not_stored(self, messages: pl.DataFrame) -> pl.DataFrame:
        """Return the messages that are not stored. Only offsets up to the greatest of their origin are searched for."""
        last = pl.col(c.ORIGIN).replace_strict(self._last, default=None, return_dtype=pl.Int64)
        may_be_stored = messages.select((pl.col(c.OFFSET) <= last).fill_null(False)).to_series()
        if not may_be_stored.any():
            return messages
        candidates = messages.select(c.ORIGIN, c.OFFSET).filter(may_be_stored).iter_rows()
        names = [name for name in candidates if self._references("origin = ? AND number = ?", name)]
        stored = pl.DataFrame(names, schema={c.ORIGIN: pl.String, c.OFFSET: pl.Int64}, orient="row")
        return messages.join(stored, on=[c.ORIGIN, c.OFFSET], how="anti", maintain_order="left")

    def _references(self, condition: str, values: Any) -> list[tuple[int, int]]:
        return self._database.execute(f"SELECT chunk, row FROM messages WHERE {condition}", values).fetchall()

    def _no_messages(self) -> pl.DataFrame | None:
        if self._empty is None and (reference := self._references("true LIMIT 1", [])):
            self._empty = self._chunks.rows(reference).clear()
        return self._empty

    def _delete(self, within: Range, exact: dict[str, str]) -> int:
        condition, values = _where(within, exact)
        deleted = self._database.execute(f"DELETE FROM messages WHERE {condition} RETURNING chunk", values).fetchall()
        for chunk in self._chunks.release(chunk for (chunk,) in deleted):
            self._rewrite(chunk)
        return len(deleted)

    def _rewrite(self, chunk: int) -> None:
        """Move the used rows of a chunk to a new one."""
        names = self._chunks.whole(chunk).select(c.ORIGIN, c.OFFSET).iter_rows()
        take = "DELETE FROM messages WHERE origin = ? AND number = ? AND chunk = ? RETURNING chunk, row"
        deleted = (self._database.execute(take, [*name, chunk]).fetchone() for name in names)
        moved = [reference for reference in deleted if reference is not None]
        rows = self._chunks.rows(moved)
        self._chunks.release(chunk for chunk, _ in moved)
        self._index(rows, self._chunks.add(rows))


def _where(within: Range, exact: dict[str, str]) -> tuple[str, list[Any]]:
    """Return the range as a condition that SQLite evaluates with its index."""
    conditions = [
        *(f"{name} = ?" for name in exact),
        "at >= ?",
        "at <= ?" if within.end_offset is not None else "at < ?",
    ]
    values: list[Any] = [*exact.values(), within.start, within.end]
    if within.start_offset is not None:
        conditions.append("(at > ? OR number >= ?)")
        values += [within.start, within.start_offset]
    if within.end_offset is not None:
        conditions.append("(at < ? OR number <= ?)")
        values += [within.end, within.end_offset]
    return " AND ".join(conditions), values


_TABLES = (
    "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value)",
    "CREATE TABLE IF NOT EXISTS outputs (number INTEGER PRIMARY KEY, body BLOB)",
)


class SqliteStore:
    """A store whose last commit survives a crash at any time."""

    def __init__(self, path: str | Path, layout: MessageLayout) -> None:
        self.path = str(path)
        # Any thread may call, one at a time.
        self._database = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        self._claim()
        self._begin()
        for table in _TABLES:
            self._database.execute(table)
        self.messages = SqliteMessages(self._database, layout)
        self.windows = SqliteWindows(self._database, by_session=layout.session)

    def state(self) -> bytes | None:
        row = self._database.execute("SELECT value FROM facts WHERE name = 'state'").fetchone()
        return None if row is None else row[0]

    def keep(self, number: int, output: pl.DataFrame) -> None:
        self._database.execute("INSERT OR REPLACE INTO outputs VALUES (?, ?)", [number, as_bytes(output)])

    def drop(self, up_to: int) -> None:
        self._database.execute("DELETE FROM outputs WHERE number <= ?", [up_to])

    def outputs(self) -> list[tuple[int, pl.DataFrame]]:
        rows = self._database.execute("SELECT number, body FROM outputs ORDER BY number").fetchall()
        return [(number, as_frame(body)) for number, body in rows]

    def commit(self, state: Callable[[], bytes]) -> None:
        self._database.execute("INSERT OR REPLACE INTO facts VALUES ('state', ?)", [state()])
        self._database.execute("COMMIT")
        self._begin()

    def close(self) -> None:
        if self._database.in_transaction:
            self._database.execute("ROLLBACK")
        self._database.close()

    def _begin(self) -> None:
        # A transaction is always open, so that no change becomes durable before the others.
        try:
            self._database.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as cause:
            raise self._unusable(cause) from cause

    def _unusable(self, cause: sqlite3.DatabaseError) -> Exception:
        in_use = cause.sqlite_errorcode == sqlite3.SQLITE_BUSY
        return (
            DataError(
                f"The store {self.path!r} is in use by another operator. Close it, or give each operator its own file."
            )
            if in_use
            else _not_a_store(self.path)
        )

    def _claim(self) -> None:
        """Check that the file is a store, or make it one."""
        try:
            (owner,) = self._database.execute("PRAGMA application_id").fetchone()
            (version,) = self._database.execute("PRAGMA user_version").fetchone()
            (tables,) = self._database.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if owner != _APPLICATION_ID and (owner or tables):
                raise _not_a_store(self.path)
            if owner == _APPLICATION_ID and version != FORMATS["standalone store"]:
                raise DataError(
                    f"The store {self.path!r} has format {version}, but this version of Eventide reads format "
                    f"{FORMATS['standalone store']}. Use the version that wrote it, or begin with a new file."
                )
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            if owner != _APPLICATION_ID:
                self._database.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                self._database.execute(f"PRAGMA user_version = {FORMATS['standalone store']}")
        except sqlite3.DatabaseError as cause:
            raise self._unusable(cause) from cause


def _not_a_store(path: str) -> DataError:
    return DataError(f"{path!r} is no store of Eventide. Name a new file, or one that an operator has created.")
