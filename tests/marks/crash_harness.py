"""The programs of the crash test. Each can be killed and started again at any point."""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa

from eventide.marks import Controller, Reader, Writer, compaction
from eventide.marks.errors import SegmentsLostError
from eventide.marks.stores import connect
from eventide.time import MAX
from tests.marks.stores.cases import OFTEN

SCHEMA = pa.schema({"writer": pa.string(), "n": pa.int64(), "shop": pa.string(), "at": pa.int64()})
WRITERS = ("till", "web")
STEPS = 100
ROWS = 4
BEGIN, STEP = 1_000_000, 1000
END = BEGIN + (STEPS + 1) * STEP
"""The time that both writers note last."""


def events(writer: str, step: int) -> list[dict[str, Any]]:
    """What a writer writes in a step: all of it from the time of the step on, and before that of the next."""
    numbers = range((step - 1) * ROWS, step * ROWS)
    return [{"writer": writer, "n": n, "shop": f"shop {n % 7}", "at": time_of(step) + n % ROWS} for n in numbers]


def time_of(step: int) -> int:
    return BEGIN + step * STEP


def write(address: str, name: str, place: Path) -> None:
    """Every step once: the sequence tells which appends were stored, the store what became of a transaction."""
    writer = Writer(address, name, routing_key="shop", take_over=True)
    for step in range(writer.last_sequence + 1, STEPS + 1):
        note = time_of(step + 1)
        if step % 5 == 0:
            in_transaction(writer, events(name, step), note, place / f"{name} {step}")
        elif step % 5 == 1:
            writer.append(events(name, step), sequence=step)
            writer.note_time(note)
        else:
            writer.append(events(name, step), sequence=step, time=note)
    writer.close()


def in_transaction(writer: Writer, rows: list[dict[str, Any]], note: int, known: Path) -> None:
    if known.exists() and writer.transaction_status(known.read_text()) == "committed":
        return
    given_up = writer.begin()
    given_up.append([{**row, "n": -1} for row in rows])
    transaction = writer.begin()
    for row in rows:
        transaction.write(row)
    transaction.flush()
    unfinished = known.with_suffix(".new")
    unfinished.write_text(transaction.id)
    unfinished.replace(known)
    given_up.abort()
    transaction.commit(note)


def read(address: str, sink: Sink, name: str) -> None:
    """Into the sink, then the commit. The sink knows an event by its place, so nothing is there twice."""
    times = sorted(row["at"] for writer in WRITERS for step in range(1, STEPS + 1) for row in events(writer, step))
    before: tuple[int, int] = (0, 0)
    with Reader(address, "sink", name, reader_lease="1 second") as reader:
        while not reader.at_end:
            batch = reader.read(50, wait="100 ms")
            if batch is None:
                reader.commit()
                continue
            sink.put(batch.table.select(["_segment", "_offset", "writer", "n", "shop", "at"]).to_pylist())
            try:
                reader.commit()
            except SegmentsLostError:
                continue  # the other one has it
            window = reader.time_window()
            now = (window.lower or before[0], window.upper or before[1])
            assert now[0] >= before[0] and now[1] >= before[1], f"time went back from {before} to {now}"
            assert sink.count_before(now[0]) == bisect_left(times, now[0]), f"not all before {now[0]} was read"
            before = now


def control(address: str, name: str) -> None:
    """Until time has ended."""
    url, _, stream = address.rpartition("#")
    store = connect(url)
    with Controller(store, name, lease="500 ms", every="30 ms"):
        while (last := store.last_mark(stream)) is None or last.lower != MAX:
            time.sleep(0.02)


class Sink:
    """A table with one row per place in the stream, in the order in which they came."""

    def __init__(self, address: str) -> None:
        self._postgres = address.startswith("postgresql")
        self._raw: Any
        if self._postgres:
            self._raw = psycopg.connect(address, autocommit=True)
        else:
            self._raw = sqlite3.connect(address, timeout=30, isolation_level=None)

    def create(self) -> None:
        key = "BIGSERIAL" if self._postgres else "INTEGER"
        self._raw.execute(
            f"CREATE TABLE sink (came {key} PRIMARY KEY, segment BIGINT, place BIGINT, writer TEXT, n BIGINT, "
            "shop TEXT, at BIGINT, UNIQUE (segment, place))"
        )

    def put(self, rows: list[dict[str, Any]]) -> None:
        values = ", ".join(["%s" if self._postgres else "?"] * 6)
        order = f"INSERT INTO sink (segment, place, writer, n, shop, at) VALUES ({values}) ON CONFLICT DO NOTHING"
        cursor = self._raw.cursor()
        cursor.execute("BEGIN" if self._postgres else "BEGIN IMMEDIATE")
        cursor.executemany(order, [tuple(row.values()) for row in rows])
        cursor.execute("COMMIT")

    def count_before(self, time: int) -> int:
        return int(self._raw.execute(f"SELECT count(*) FROM sink WHERE at < {time}").fetchone()[0])

    def rows(self) -> list[tuple[int, int, str, int, str, int]]:
        cursor = self._raw.execute("SELECT segment, place, writer, n, shop, at FROM sink ORDER BY came")
        return list(cursor.fetchall())

    def close(self) -> None:
        self._raw.close()


def main(role: str, address: str, sink: str, name: str, place: Path) -> None:
    """One program. What it has to say when it fails is in its log. Blobs are compacted as often as possible."""
    compaction.POLICY = OFTEN
    with (place / f"{name}.log").open("a") as log:
        os.dup2(log.fileno(), sys.stderr.fileno())
    works: dict[str, Callable[[], None]] = {
        "writer": lambda: write(address, name, place),
        "reader": lambda: read(address, Sink(sink), name),
        "controller": lambda: control(address, name),
    }
    works[role]()
