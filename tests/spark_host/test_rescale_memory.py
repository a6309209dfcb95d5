"""A rescale has one operator and one new bucket in memory, however many there are."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

import eventide as ev
from eventide.operators.redistribution import BucketSnapshot, divide
from eventide.spark.inspection import StoredOperator
from eventide.spark.rescale import divide_operators
from eventide.spark.shuffle_pages import Stage
from eventide.spark.staged_state import RecordedBuckets
from eventide.spark.stamp import split_rows, stamp_to_pages
from eventide.spark.state_import import StateImport
from eventide.spark.storage import LocalStorage
from eventide.state import format as snapshot
from eventide.time import MIN
from tests.spark.harness import Buckets

SCHEMA = {"t": pl.Int64(), "key": pl.Int64()}
WINDOWS = ev.stream(time="t", key="key", watermark="1 second").window(ev.tumbling("1 minute")).agg(n=ev.count()).plan


class Alive:
    """Counts the objects that still exist."""

    def __init__(self) -> None:
        self._references: list[weakref.ref[Any]] = []
        self.most = 0

    def add(self, value: Any) -> None:
        gc.collect()
        self._references.append(weakref.ref(value))
        self.most = max(self.most, sum(reference() is not None for reference in self._references))


def stored(buckets: int) -> list[tuple[bytes, BucketSnapshot]]:
    operator = Buckets(Stage("memory", WINDOWS, (SCHEMA,), buckets))
    rows = pl.DataFrame({"t": range(2_000), "key": range(2_000)}, schema=SCHEMA)
    operator.step(list(stamp_to_pages(operator.stage, rows, 3_000, 0, MIN)))
    return operator.stored()


def test_old_buckets_are_read_one_after_the_other() -> None:
    alive, old = Alive(), stored(6)

    def taken() -> Iterator[tuple[bytes, BucketSnapshot]]:
        while old:
            head, pages = old.pop(0)
            alive.add(pages)
            yield head, pages
            del pages

    division = divide(taken(), 4, split_rows)
    assert len(list(division.buckets)) == 4 and alive.most <= 2


def test_the_pages_of_an_operator_are_released_when_they_are_divided() -> None:
    parts = stored(3)
    pages = {number: dict(bucket.bodies) for number, (_, bucket) in enumerate(parts)}
    operator = StoredOperator(0, 1, 3, {number: head for number, (head, _) in enumerate(parts)}, pages)
    (division,) = divide_operators([operator], 5)
    assert division.count == 5 and operator.pages == {}


class NewBuckets:
    """Six new buckets that are written when they are taken."""

    count = 6
    tracker = None

    def __init__(self, alive: Alive) -> None:
        self._alive = alive

    @property
    def buckets(self) -> Iterator[BucketSnapshot]:
        for number in range(self.count):
            bucket = BucketSnapshot(snapshot.dump({"kind": "head"}), {1: bytes([number])})
            self._alive.add(bucket)
            yield bucket
            del bucket


def test_new_buckets_are_written_one_after_the_other(tmp_path: Path) -> None:
    alive = Alive()
    operator = RecordedBuckets(NewBuckets(alive))
    StateImport(None, 7, LocalStorage(tmp_path)).add(operator)  # type: ignore[arg-type]
    assert alive.most <= 2
    assert len(operator.written.buckets) == 6 == len(set(operator.written.buckets.values()))
