"""Asynchronous calls: their options, one call with its attempts, and the calls of a whole bundle at once."""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any, TypeAlias

from eventide.errors import watermarks as errors
from eventide.time import duration

Function: TypeAlias = Callable[[Any], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Result:
    """What a call returned."""

    value: Any


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a call failed in its last attempt."""

    error: BaseException
    attempts: int


Answer: TypeAlias = Result | Failure


@dataclass(frozen=True, slots=True)
class AsyncOptions:
    """How calls are made. ``backoff`` holds the waits before the second, third, … attempt; its last repeats.

    ``across_bundles``: a bundle does not wait for its calls.
    """

    ordered: bool = True
    capacity: int = 100
    timeout: int | None = None
    retries: int = 0
    backoff: tuple[int, ...] = ()
    across_bundles: bool = False

    def wait_before(self, attempt: int) -> int:
        """How long to wait before an attempt, counted from 1.

        >>> options = async_options(retries=3, backoff=["1s", "5s"])
        >>> [options.wait_before(attempt) for attempt in (1, 2, 3, 4)]
        [0, 1000000, 5000000, 5000000]
        """
        if attempt < 2 or not self.backoff:
            return 0
        return self.backoff[min(attempt - 2, len(self.backoff) - 1)]


def async_options(
    *,
    ordered: bool = True,
    capacity: int = 100,
    timeout: str | timedelta | None = None,
    retries: int = 0,
    backoff: str | timedelta | Sequence[str | timedelta] = (),
    across_bundles: bool = False,
) -> AsyncOptions:
    """Read and check the options of an async map.

    >>> async_options(capacity=10, timeout="5 seconds").timeout
    5000000
    """
    if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 1:
        raise errors.bad_async_option("capacity", capacity, "an integer of at least 1")
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise errors.bad_async_option("retries", retries, "an integer of at least 0")
    if not isinstance(across_bundles, bool):
        raise errors.bad_async_option("across_bundles", across_bundles, "True or False")
    waits = [backoff] if isinstance(backoff, str | timedelta) else list(backoff)
    return AsyncOptions(
        ordered,
        capacity,
        None if timeout is None else duration(timeout, what="timeout of map_async()"),
        retries,
        tuple(duration(wait, what="backoff of map_async()", zero=True) for wait in waits),
        across_bundles,
    )


async def attempt(fn: Function, row: Any, options: AsyncOptions) -> Answer:
    """Call ``fn`` on a row until it returns, or has failed as often as is allowed.

    >>> async def third_of(row):
    ...     return row["n"] / 3
    >>> asyncio.run(attempt(third_of, {"n": 6}, async_options()))
    Result(value=2.0)
    """
    attempts = 1
    while True:
        try:
            async with asyncio.timeout(None if options.timeout is None else options.timeout / 1e6):
                return Result(await fn(row))
        except Exception as error:
            if attempts > options.retries:
                return Failure(error, attempts)
            attempts += 1
            await asyncio.sleep(options.wait_before(attempts) / 1e6)


def call_rows(fn: Function, rows: Sequence[Any], options: AsyncOptions) -> list[tuple[int, Answer]]:
    """Call ``fn`` on all rows, ``capacity`` at a time, and wait: the answers as they arrive, with the places of rows.

    >>> async def double(n):
    ...     return 2 * n
    >>> call_rows(double, [1, 2], async_options(capacity=1))
    [(0, Result(value=2)), (1, Result(value=4))]
    """

    async def answered() -> list[tuple[int, Answer]]:
        answers: list[tuple[int, Answer]] = []
        remaining = enumerate(rows)

        async def work() -> None:
            for place, row in remaining:  # all workers take rows from the same iterator
                answers.append((place, await attempt(fn, row, options)))

        await asyncio.gather(*(work() for _ in range(min(options.capacity, len(rows)))))
        return answers

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _runner().run(answered())
    # A notebook has a loop that runs already, and a thread can have only one.
    return _other_thread().submit(lambda: _runner().run(answered())).result()


_RUNNER: ContextVar[asyncio.Runner] = ContextVar("runner")


def _runner() -> asyncio.Runner:
    """The loop of this thread, one for all bundles: clients that calls share stay connected to it."""
    try:
        return _RUNNER.get()
    except LookupError:
        runner = asyncio.Runner()
        atexit.register(runner.close)
        _RUNNER.set(runner)
        return runner


@cache
def _other_thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "eventide-calls")
