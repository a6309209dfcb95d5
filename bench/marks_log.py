"""The log of marks: appends and notes, against the bare statements that put the same bytes into the same database."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from bench.measure import Line, rss_mb, timed
from eventide.marks import events
from eventide.marks.stores import connect
from eventide.marks.stores.store import Config, Part, Store, WriterHandle

BATCH = 1_000
BATCHES = 100
NOTES = 200
ROUNDS = 12


class Bare(Protocol):
    """A database without a store: one table for blobs, one row to update; each statement is durable."""

    def insert(self, body: bytes) -> None: ...

    def update(self, time: int) -> None: ...

    def bodies(self) -> list[bytes]: ...


def batches() -> list[pa.Table]:
    """Orders: a time, a shop, a price."""
    rng = np.random.default_rng(7)
    rows = BATCH * BATCHES
    table = pa.table(
        {
            "ts": pa.array(np.arange(rows) * 1000, pa.int64()),
            "shop": pa.array([f"shop {number}" for number in rng.integers(0, 1000, rows)]),
            "price": pa.array(rng.random(rows)),
        }
    )
    return [table.slice(start, BATCH) for start in range(0, rows, BATCH)]


def _append(name: str, peer_name: str, store: Store, bare: Bare) -> Line:
    tables = batches()
    bodies = [events.encode(table) for table in tables]
    store.create_stream("orders", Config(schema=tables[0].schema))
    handle = store.open_writer("orders", "till")
    sequence = 0

    def ours() -> None:
        nonlocal sequence
        for table in tables:
            sequence += 1
            store.append(handle, sequence, [Part(0, len(table), events.encode(table))])

    def theirs() -> None:
        for body in bodies:
            bare.insert(body)

    rate, peer = _rates(ours, theirs, BATCH * BATCHES)
    stored = [blob.body for blob in store.read("orders", 0, 0, rows=1 << 40)]
    equal = events.decode_all(stored).equals(events.decode_all(bare.bodies()))  # ours are packed
    ratio = round(rate / peer, 2)
    return Line(name, round(rate), round(peer), peer_name, ratio, "events/s", rss_mb(), equal)


def _note_time(name: str, peer_name: str, store: Store, bare: Bare) -> Line:
    store.create_stream("orders", Config(schema=pa.schema({"n": pa.int64()})))
    handle: WriterHandle = store.open_writer("orders", "till")
    store.append(handle, 1, [Part(0, 1, b"an event")])
    times = iter(range(1 << 40))

    def ours() -> None:
        for _ in range(NOTES):
            store.note(handle, next(times), {0: 1})

    def theirs() -> None:
        for time in range(NOTES):
            bare.update(time)

    rate, peer = _rates(ours, theirs, NOTES)
    (note,) = store.notes("orders")
    equal = note.time == next(times) - 1
    return Line(name, round(rate), round(peer), peer_name, round(rate / peer, 2), "notes/s", rss_mb(), equal)


def _rates(ours: Callable[[], None], theirs: Callable[[], None], count: int) -> tuple[float, float]:
    mine, others = [], []
    for _ in range(ROUNDS):
        others.append(timed(theirs)[0])
        mine.append(timed(ours)[0])
    return count / min(mine), count / min(others)


class BareSqlite:
    def __init__(self, path: str) -> None:
        self.raw = sqlite3.connect(path, isolation_level=None)
        self.raw.execute("PRAGMA journal_mode = WAL")
        self.raw.execute("PRAGMA synchronous = FULL")
        self.raw.execute("CREATE TABLE blobs (number INTEGER PRIMARY KEY, body BLOB)")
        self.raw.execute("CREATE TABLE notes (writer TEXT PRIMARY KEY, time INTEGER)")
        self.raw.execute("INSERT INTO notes VALUES ('till', 0)")

    def insert(self, body: bytes) -> None:
        self.raw.execute("INSERT INTO blobs (body) VALUES (?)", [body])

    def update(self, time: int) -> None:
        self.raw.execute("UPDATE notes SET time = ? WHERE writer = 'till'", [time])

    def bodies(self) -> list[bytes]:
        return [body for (body,) in self.raw.execute("SELECT body FROM blobs ORDER BY number")]


class BarePostgres:
    def __init__(self, url: str) -> None:
        import psycopg

        self.raw: psycopg.Connection[tuple[Any, ...]] = psycopg.connect(url, autocommit=True)
        self.raw.execute("CREATE TABLE blobs (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea)")
        self.raw.execute("CREATE TABLE notes (writer text PRIMARY KEY, time bigint)")
        self.raw.execute("INSERT INTO notes VALUES ('till', 0)")

    def insert(self, body: bytes) -> None:
        self.raw.execute("INSERT INTO blobs (body) VALUES (%b)", [body])

    def update(self, time: int) -> None:
        self.raw.execute("UPDATE notes SET time = %s WHERE writer = 'till'", [time])

    def bodies(self) -> list[bytes]:
        return [body for (body,) in self.raw.execute("SELECT body FROM blobs ORDER BY number")]


@contextmanager
def _sqlite() -> Iterator[tuple[Store, Bare]]:
    with tempfile.TemporaryDirectory() as place:
        yield connect(f"sqlite:///{place}/marks.db"), BareSqlite(f"{place}/bare.db")


@contextmanager
def _postgres() -> Iterator[tuple[Store, Bare]]:
    from tests.postgres import cluster

    with cluster(durable=True) as url:
        yield connect(url), BarePostgres(url)


def append_sqlite() -> Line:
    """Batches of a thousand events, encoded and appended, each durable."""
    with _sqlite() as (store, bare):
        return _append("append_sqlite", "INSERT of the same blobs", store, bare)


def append_postgres() -> Line:
    """The same on PostgreSQL."""
    with _postgres() as (store, bare):
        return _append("append_postgres", "INSERT of the same blobs", store, bare)


def note_time_sqlite() -> Line:
    """Notes of one writer."""
    with _sqlite() as (store, bare):
        return _note_time("note_time_sqlite", "UPDATE of one row", store, bare)


def note_time_postgres() -> Line:
    """The same on PostgreSQL."""
    with _postgres() as (store, bare):
        return _note_time("note_time_postgres", "UPDATE of one row", store, bare)


TARGETS = {
    "append_sqlite": "at least 0.3",
    "append_postgres": "at least 0.3",
    "note_time_sqlite": "none",
    "note_time_postgres": "none",
}
ALL = (append_sqlite, append_postgres, note_time_sqlite, note_time_postgres)
