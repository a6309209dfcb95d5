"""A service whose answers a test gives one by one."""

from __future__ import annotations

import asyncio
import threading
from typing import Any


class Service:
    """``service.call`` waits for ``answer(v)`` or ``fail(v)``, where ``v`` is a column of the row.

    ``calls`` has the values that were asked for, in the order of the calls.
    """

    def __init__(self) -> None:
        self.calls: list[int] = []
        self._begun = threading.Condition()
        self._open: dict[int, asyncio.Future[Any]] = {}
        self._futures: list[asyncio.Future[Any]] = []

    async def call(self, row: dict[str, Any]) -> Any:
        value = row["v"]
        future = asyncio.get_running_loop().create_future()
        with self._begun:
            self.calls.append(value)
            self._open[value] = future
            self._futures.append(future)
            self._begun.notify_all()
        return await future

    def answer(self, *values: int) -> None:
        """Return twice the value."""
        for value in values:
            self._end(value, {"w": 2 * value})

    def fail(self, value: int) -> None:
        self._end(value, ValueError("no"))

    def wait_for(self, *values: int, times: int = 1) -> None:
        """Wait until the calls for all of these have begun; with ``times``, for the second or a later time."""

        def have_begun() -> bool:
            return set(values) <= self._open.keys() and all(self.calls.count(value) >= times for value in values)

        with self._begun:
            assert self._begun.wait_for(have_begun, 120)

    def close(self) -> None:
        """End all calls that no test has ended."""
        for future in self._futures:
            future.get_loop().call_soon_threadsafe(future.cancel)

    def _end(self, value: int, answer: Any) -> None:
        self.wait_for(value)
        future = self._open.pop(value)
        end = future.set_exception if isinstance(answer, Exception) else future.set_result
        future.get_loop().call_soon_threadsafe(end, answer)
