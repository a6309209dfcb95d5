"""Events of one column ``n`` for the tests of stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from eventide.marks import events
from eventide.marks.compaction import CompactionPolicy
from eventide.marks.stores.store import Config, Part, Store

SCHEMA = pa.schema({"n": pa.int64()})
SECOND = 1_000_000
OFTEN = CompactionPolicy(short=4, long=16, min_blobs=2, target_rows=8)
"""Thresholds of compaction that a few rows reach."""


@dataclass
class Clock:
    """Advances only when a test sets it."""

    time: int = 1_000 * SECOND

    def __call__(self) -> int:
        return self.time


def config(segments: int = 1, writer_lease: int = 30 * SECOND) -> Config:
    return Config(schema=SCHEMA, segments=segments, writer_lease=writer_lease)


def part(segment: int, *numbers: int) -> Part:
    return Part(segment, len(numbers), events.encode(pa.table({"n": pa.array(numbers, pa.int64())})))


def addition(*numbers_and_points: tuple[int, float]) -> tuple[int, bytes]:
    """Rows and body of events of a transaction, each with its point."""
    numbers, points = zip(*numbers_and_points, strict=True)
    table = pa.table({"n": pa.array(numbers, pa.int64()), events.POINT: pa.array(points, pa.float64())})
    return len(numbers), events.encode(table)


def numbers_in(store: Store, stream: str, segment: int, offset: int = 0, rows: int = 1 << 40) -> list[int]:
    """What is in a segment from an offset on."""
    numbers: list[int] = []
    for blob in store.read(stream, segment, offset, rows=rows):
        values: Sequence[int] = events.decode(blob.body)["n"].to_pylist()
        assert len(values) == blob.rows
        numbers += values[max(offset - blob.offset, 0) :]
    return numbers
