"""Asynchronous calls: one call with its attempts, and all calls of a bundle."""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from eventide.plan.async_call import AsyncOptions

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


async def attempt(fn: Function, row: Any, options: AsyncOptions) -> Answer:
    """Call ``fn`` on a row until it returns, or has failed as often as is allowed.

    >>> from eventide.plan.async_call import async_options
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

    >>> from eventide.plan.async_call import async_options
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
