"""The same from several threads that begin together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def at_once(count: int, do: Callable[[int], T]) -> list[T]:
    barrier = threading.Barrier(count)

    def one(number: int) -> T:
        barrier.wait()
        return do(number)

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(one, range(count)))
