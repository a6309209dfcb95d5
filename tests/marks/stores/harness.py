"""Concurrent threads, and a writer that runs in its own process."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from eventide.marks import compaction
from eventide.marks.errors import SegmentSealedError
from eventide.marks.stores import connect
from eventide.marks.stores.store import Store, WriterHandle
from tests.marks.stores.cases import OFTEN, SECOND, addition, part

BATCH = 3
T = TypeVar("T")


def run_concurrently(count: int, call: Callable[[int], T]) -> list[T]:
    """The results of calls from several threads that start together."""
    barrier = threading.Barrier(count)

    def run(number: int) -> T:
        barrier.wait()
        return call(number)

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(run, range(count)))


def work(url: str, stream: str, writer: int, batches: int) -> None:
    """Write ``batches`` times three numbers, some in transactions, some twice, wherever their points belong."""
    compaction.POLICY = OFTEN
    store = connect(url)
    handle = store.open_writer(stream, f"writer {writer}")
    chance = random.Random(writer)
    for batch in range(1, batches + 1):
        numbers = [writer * 1_000_000 + batch * BATCH + place for place in range(BATCH)]
        points = [chance.random() for _ in numbers]
        if chance.random() < 0.3:
            begun = store.begin(handle, timeout=60 * SECOND)
            store.add(handle, begun.id, 1, *addition(*zip(numbers, points, strict=True)))
            first = store.commit(handle, begun.id)
            assert store.commit(handle, begun.id) == first
        else:
            append(store, handle, batch, numbers, points, again=chance.random() < 0.3)
    store.close_writer(handle)
    store.close()


def append(
    store: Store, handle: WriterHandle, sequence: int, numbers: list[int], points: list[float], *, again: bool
) -> None:
    while True:
        segments = store.stream(handle.stream).segments
        routed: dict[int, list[int]] = {}
        for number, segment in zip(numbers, segments.route(np.array(points)).tolist(), strict=True):
            routed.setdefault(segment, []).append(number)
        parts = [part(segment, *content) for segment, content in routed.items()]
        try:
            ends = store.append(handle, sequence, parts)
        except SegmentSealedError:
            continue
        if again:
            assert store.append(handle, sequence, parts) == ends
        return


def endless(url: str, stream: str, sequence: int) -> None:
    """Append to two segments until killed; tell each sequence that was acknowledged."""
    compaction.POLICY = OFTEN
    store = connect(url)
    handle = store.open_writer(stream, "endless", take_over=True)
    for number in range(sequence, sys.maxsize):
        store.append(handle, number, [part(0, number), part(1, number)], note=number)
        print(number, flush=True)


if __name__ == "__main__":
    endless(sys.argv[1], sys.argv[2], int(sys.argv[3]))
