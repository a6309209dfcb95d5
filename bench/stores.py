"""The stores of standalone operators: one window out of many, against a scan of all messages."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from bench.measure import Line, rss_mb, timed
from eventide import _columns as c
from eventide import _columns as s
from eventide.standalone.stores import MemoryStore, Range, SqliteStore, Store
from eventide.state.message_layout import layout_of

WINDOWS = 1_000
WINDOW = 60_000_000
BUNDLE = 100_000
LAYOUT = layout_of("time", "aggregate")

Read = Callable[[Range], pl.DataFrame]


def generate(rows: int) -> list[pl.DataFrame]:
    """Bundles of messages whose times advance through all windows, with a minute of disorder."""
    rng = np.random.default_rng(7)
    at = np.linspace(0, (WINDOWS - 1) * WINDOW, rows, dtype=np.int64) + rng.integers(0, WINDOW, rows)
    frame = pl.DataFrame({c.AT: at, s.OFFSET: np.arange(rows), "value": rng.random(rows)}).with_columns(
        *(pl.lit("").alias(name) for name in (s.ORIGIN, s.SESSION, s.EQUAL)),
        pl.format("customer {}", pl.Series(rng.integers(0, 1000, rows))).alias("name"),
    )
    return [frame.slice(start, BUNDLE) for start in range(0, rows, BUNDLE)]


def _compared(name: str, store: Store, rows: int, everything: Callable[[], pl.DataFrame], scans: int) -> Line:
    """Windows per second: read as a range, and found in a scan of all messages."""
    ranges = [Range(i * WINDOW, (i + 1) * WINDOW) for i in np.random.default_rng(1).permutation(WINDOWS).tolist()]

    def read(within: Range) -> pl.DataFrame:
        messages = store.messages.read(within)
        assert messages is not None
        return messages

    def scan(within: Range) -> pl.DataFrame:
        return everything().filter(within.holds()).sort(c.AT, s.OFFSET)

    equal = all(read(within).equals(scan(within)) for within in ranges[:3])
    ours, theirs = [], []
    for start in range(0, 5 * scans, scans):
        part = ranges[start : start + scans]
        theirs.append(timed(partial(_all, scan, part))[0] / scans)
        ours.append(timed(partial(_all, read, ranges[:100]))[0] / 100)
    rate, peer = 1 / min(ours), 1 / min(theirs)
    peer_name = f"scan of {rows:,} messages"
    return Line(name, round(rate), round(peer, 2), peer_name, round(rate / peer, 1), "windows/s", rss_mb(), equal)


def _all(read: Read, ranges: list[Range]) -> int:
    return sum(read(within).height for within in ranges)


def message_store() -> Line:
    """In memory: sorted runs, against a filter over one frame of all messages."""
    bundles = generate(4_000_000)
    store = MemoryStore(LAYOUT)
    for bundle in bundles:
        store.messages.put(bundle)
    everything = pl.concat(bundles)
    return _compared("message_store", store, everything.height, lambda: everything, scans=20)


def message_store_sqlite() -> Line:
    """In SQLite: the index of the message key, against reading every message of the same store."""
    rows = 500_000
    with tempfile.TemporaryDirectory() as place:
        store = SqliteStore(Path(place) / "messages.db", LAYOUT)
        for bundle in generate(rows):
            store.messages.put(bundle)
        store.commit(bytes)

        def everything() -> pl.DataFrame:
            messages = store.messages.read()
            assert messages is not None
            return messages

        line = _compared("message_store_sqlite", store, rows, everything, scans=1)
        store.close()
    return line


TARGETS = {"message_store": "at least 50", "message_store_sqlite": "at least 50"}
ALL = (message_store, message_store_sqlite)
