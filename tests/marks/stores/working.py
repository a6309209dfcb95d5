"""A writer in a process of its own."""

from __future__ import annotations

import random
import sys

import numpy as np

from eventide.errors.marks import SegmentSealedError
from eventide.marks import packing
from eventide.marks.stores import connect
from eventide.marks.stores.store import Seat, Store
from tests.marks.stores.parts import OFTEN, SECOND, addition, part

BATCH = 3


def work(url: str, stream: str, writer: int, batches: int) -> None:
    """Write ``batches`` times three numbers, some in transactions, some twice, wherever their points belong."""
    packing.PACKING = OFTEN
    store = connect(url)
    seat = store.open_writer(stream, f"writer {writer}")
    chance = random.Random(writer)
    for batch in range(1, batches + 1):
        numbers = [writer * 1_000_000 + batch * BATCH + place for place in range(BATCH)]
        points = [chance.random() for _ in numbers]
        if chance.random() < 0.3:
            begun = store.begin(seat, timeout=60 * SECOND)
            store.add(seat, begun.id, 1, *addition(*zip(numbers, points, strict=True)))
            first = store.commit(seat, begun.id)
            assert store.commit(seat, begun.id) == first
        else:
            append(store, seat, batch, numbers, points, again=chance.random() < 0.3)
    store.close_writer(seat)
    store.close()


def append(store: Store, seat: Seat, sequence: int, numbers: list[int], points: list[float], *, again: bool) -> None:
    while True:
        segments = store.stream(seat.stream).segments
        routed: dict[int, list[int]] = {}
        for number, segment in zip(numbers, segments.route(np.array(points)).tolist(), strict=True):
            routed.setdefault(segment, []).append(number)
        parts = [part(segment, *own) for segment, own in routed.items()]
        try:
            ends = store.append(seat, sequence, parts)
        except SegmentSealedError:
            continue
        if again:
            assert store.append(seat, sequence, parts) == ends
        return


def endless(url: str, stream: str, sequence: int) -> None:
    """Append to two segments until killed; tell each sequence that was acknowledged."""
    packing.PACKING = OFTEN
    store = connect(url)
    seat = store.open_writer(stream, "endless", take_over=True)
    for one in range(sequence, sys.maxsize):
        store.append(seat, one, [part(0, one), part(1, one)], note=one)
        print(one, flush=True)


if __name__ == "__main__":
    endless(sys.argv[1], sys.argv[2], int(sys.argv[3]))
