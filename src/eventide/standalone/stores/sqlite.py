"""A store in one file of SQLite, which comes with Python. A commit is a transaction over all that it holds."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import polars as pl

from eventide.errors import standalone as errors
from eventide.standalone.stores.chunks import as_bytes, as_frame
from eventide.standalone.stores.sqlite_messages import SqliteMessages
from eventide.standalone.stores.sqlite_windows import SqliteWindows
from eventide.state.layouts import Layout

FORMAT = 1
PATIENCE = 5.0  # seconds, while another process lets go
_APPLICATION = 0x45564E54  # in the header of the file: whose it is
_TABLES = (
    "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value)",
    "CREATE TABLE IF NOT EXISTS outputs (number INTEGER PRIMARY KEY, body BLOB)",
)


class SqliteStore:
    """Survives the death of its process at any instant, with the state of the last commit."""

    def __init__(self, path: str | Path, layout: Layout) -> None:
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
        """What was given to the last commit."""
        found = self._database.execute("SELECT value FROM facts WHERE name = 'state'").fetchone()
        return None if found is None else found[0]

    def keep(self, number: int, output: pl.DataFrame) -> None:
        """Keep an output until it is taken."""
        self._database.execute("INSERT OR REPLACE INTO outputs VALUES (?, ?)", [number, as_bytes(output)])

    def drop(self, up_to: int) -> None:
        """Outputs up to this number were taken."""
        self._database.execute("DELETE FROM outputs WHERE number <= ?", [up_to])

    def outputs(self) -> list[tuple[int, pl.DataFrame]]:
        """The outputs that were not taken yet, by number."""
        found = self._database.execute("SELECT number, body FROM outputs ORDER BY number").fetchall()
        return [(number, as_frame(body)) for number, body in found]

    def commit(self, state: Callable[[], bytes]) -> None:
        """Make everything since the last commit durable."""
        self._database.execute("INSERT OR REPLACE INTO facts VALUES ('state', ?)", [state()])
        self._database.execute("COMMIT")
        self._begin()

    def close(self) -> None:
        """Let go of the file."""
        if self._database.in_transaction:
            self._database.execute("ROLLBACK")
        self._database.close()

    def _begin(self) -> None:
        # A transaction is always open, so that nothing becomes durable before the rest does.
        try:
            self._database.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as cause:
            raise self._unusable(cause) from cause

    def _unusable(self, cause: sqlite3.DatabaseError) -> Exception:
        in_use = cause.sqlite_errorcode == sqlite3.SQLITE_BUSY
        return errors.store_in_use(self.path) if in_use else errors.not_a_store(self.path)

    def _claim(self) -> None:
        """Make the file ours, or find out that it is another's."""
        try:
            (owner,) = self._database.execute("PRAGMA application_id").fetchone()
            (found,) = self._database.execute("PRAGMA user_version").fetchone()
            (tables,) = self._database.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if owner != _APPLICATION and (owner or tables):
                raise errors.not_a_store(self.path)
            if owner == _APPLICATION and found != FORMAT:
                raise errors.unknown_store_format(self.path, found, FORMAT)
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            if owner != _APPLICATION:
                self._database.execute(f"PRAGMA application_id = {_APPLICATION}")
                self._database.execute(f"PRAGMA user_version = {FORMAT}")
        except sqlite3.DatabaseError as cause:
            raise self._unusable(cause) from cause
