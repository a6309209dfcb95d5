"""A stream of orders in memory, with a clock that is set by hand and a store that can fail."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from eventide.marks import Mark, Stream
from eventide.marks.errors import StoreFailedError, UnreachableError
from eventide.marks.events import decode
from eventide.marks.stores.memory import MemoryStore
from eventide.marks.stores.store import Config

SCHEMA = pa.schema({"shop": pa.string(), "n": pa.int64()})
UNANSWERED = (UnreachableError, StoreFailedError)
"""What stores raise when nobody knows whether a call was done."""
SHOPS = ["kiel", "bonn", "ulm", "jena", "trier", "gera", "emden", "celle"]


class Clock:
    def __init__(self, now: int = 1_000_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


class FailingStore(MemoryStore):
    """A store whose calls fail on demand: ``fail("append")`` before it does anything, ``lose("append")`` after."""

    def __init__(self, clock: Callable[[], int]) -> None:
        super().__init__(clock)
        self._failing: list[str] = []
        self._losing: list[str] = []
        self._faults: dict[str, tuple[int, BaseException]] = {}
        self.calls: list[str] = []

    def fail(self, name: str) -> None:
        self._failing.append(name)

    def lose(self, name: str) -> None:
        self._losing.append(name)

    def fail_at(self, name: str, call: int, fault: BaseException | None = None) -> None:
        """The call that comes as the first, second … of that name from now on."""
        self._faults[name] = call, fault or ConnectionError("the network is down")

    def __getattribute__(self, name: str) -> Any:
        attribute = super().__getattribute__(name)
        if name.startswith("_") or name in ("fail", "fail_at", "lose", "calls", "now", "url"):
            return attribute

        def called(*args: Any, **options: Any) -> Any:
            self.calls.append(name)
            if name in self._failing:
                self._failing.remove(name)
                raise UnreachableError("The controller at http://marks does not answer: the network is down.")
            if name in self._faults:
                call, fault = self._faults.pop(name)
                if call == 1:
                    raise fault
                self._faults[name] = call - 1, fault
            answer = attribute(*args, **options)
            if name in self._losing:
                self._losing.remove(name)
                raise StoreFailedError("The store postgresql://marks failed: no answer came.")
            return answer

        return called


def orders(segments: int = 1, clock: Clock | None = None, **config: Any) -> Stream:
    store = FailingStore(clock or Clock())
    store.create_stream("orders", Config(schema=SCHEMA, segments=segments, **config))
    return Stream(store, "orders")


def order(n: int, shop: str | None = None) -> dict[str, Any]:
    return {"shop": SHOPS[n % len(SHOPS)] if shop is None else shop, "n": n}


def stored(stream: Stream, segment: int | None = None) -> list[dict[str, Any]]:
    """All events of a stream (or a segment), in the order of segments and offsets."""
    lengths = stream.store.lengths(stream.name)
    return [
        row
        for number in sorted(lengths)
        if segment in (None, number)
        for blob in stream.store.read(stream.name, number, 0, rows=lengths[number] or 1)
        for row in decode(blob.body).to_pylist()
    ]


def numbers(stream: Stream) -> list[int]:
    return [row["n"] for row in stored(stream)]


def noted(stream: Stream) -> list[tuple[int, dict[int, int]]]:
    """The last notes of writers: times and positions."""
    return [(note.time, dict(note.position)) for note in stream.store.notes(stream.name)]


def mark(stream: Stream, lower: int, upper: int, cut: dict[int, int]) -> None:
    """What a controller would do."""
    lease = stream.store.acquire(stream.name, "controller", stream.store.now() + 1_000_000)
    assert lease is not None
    last = stream.store.last_mark(stream.name)
    number = 1 if last is None else last.number + 1
    stream.store.put_mark(lease, Mark(number, lower, upper, cut, stream.store.now()))


def eventually(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Wait for another thread or process."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.001)
