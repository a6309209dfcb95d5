"""Rows in SQLite as chunks: frames in Arrow's format, which knows every type, with a count of the rows still in use."""

from __future__ import annotations

import io
import sqlite3
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence

import polars as pl

from eventide.state.compact import to_ipc

_ROWS = 4096  # of a chunk at most
_CACHED = 64  # chunks that stay decoded


class Chunks:
    """A table of chunks. A row is named by its chunk and its place in it; whoever names it keeps the names."""

    def __init__(self, database: sqlite3.Connection, table: str) -> None:
        self._database = database
        self._table = table
        self._cache: OrderedDict[int, pl.DataFrame] = OrderedDict()
        database.execute(
            f"CREATE TABLE IF NOT EXISTS {table} "
            "(id INTEGER PRIMARY KEY AUTOINCREMENT, rows INTEGER, live INTEGER, body BLOB)"
        )

    def add(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Write rows. Gives their names, as columns ``chunk`` and ``row``."""
        names = []
        for part in frame.iter_slices(_ROWS):
            place = self._database.execute(
                f"INSERT INTO {self._table} (rows, live, body) VALUES (?, ?, ?)",
                [part.height, part.height, as_bytes(part)],
            )
            names.append(part.select(pl.lit(place.lastrowid, pl.Int64).alias("chunk"), row=pl.int_range(pl.len())))
        return pl.concat(names) if names else pl.DataFrame(schema={"chunk": pl.Int64, "row": pl.Int64})

    def rows(self, names: Sequence[tuple[int, int]]) -> pl.DataFrame:
        """The rows with these names, of which there is at least one, in their order."""
        wanted = pl.DataFrame(names, schema={"chunk": pl.Int64, "row": pl.Int64}, orient="row").with_row_index("place")
        places, found = [], []
        for (chunk,), part in wanted.partition_by("chunk", as_dict=True).items():
            places.append(part["place"])
            found.append(self.whole(chunk)[part["row"]])
        return pl.concat(found)[pl.concat(places).arg_sort()] if len(found) > 1 else found[0]

    def release(self, chunks: Iterable[int]) -> list[int]:
        """One row of each of these chunks is not named any more. Gives the chunks that have become mostly air."""
        gone = Counter(chunks)
        self._database.executemany(
            f"UPDATE {self._table} SET live = live - ? WHERE id = ?", [(n, chunk) for chunk, n in gone.items()]
        )
        self._database.executemany(f"DELETE FROM {self._table} WHERE id = ? AND live = 0", [(chunk,) for chunk in gone])
        airy = f"SELECT 1 FROM {self._table} WHERE id = ? AND live * 4 < rows"
        return [chunk for chunk in gone if self._database.execute(airy, [chunk]).fetchone()]

    def count(self) -> int:
        """Rows that are in use."""
        found: int = self._database.execute(f"SELECT coalesce(sum(live), 0) FROM {self._table}").fetchone()[0]
        return found

    def bytes(self) -> int:
        """What all chunks take."""
        found: int = self._database.execute(f"SELECT coalesce(sum(length(body)), 0) FROM {self._table}").fetchone()[0]
        return found

    def whole(self, number: int) -> pl.DataFrame:
        """All rows that a chunk was written with."""
        frame = self._cache.pop(number, None)
        if frame is None:
            body = self._database.execute(f"SELECT body FROM {self._table} WHERE id = ?", [number]).fetchone()[0]
            frame = as_frame(body)
        self._cache[number] = frame
        if len(self._cache) > _CACHED:
            self._cache.popitem(last=False)
        return frame


def as_bytes(frame: pl.DataFrame) -> bytes:
    """A frame in Arrow's format.

    >>> as_frame(as_bytes(pl.DataFrame({"n": [1]})))["n"].to_list()
    [1]
    """
    return to_ipc(frame)


def as_frame(body: bytes) -> pl.DataFrame:
    """The frame that was written."""
    return pl.read_ipc_stream(io.BytesIO(body))
