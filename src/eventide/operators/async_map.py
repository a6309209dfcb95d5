"""Calls that take a while, many at a time, without a row becoming late on the way.

The bookkeeping is pure: it knows what is in flight and what may leave, and neither calls nor waits for
anything. ``run_async`` is the small driver that does.
"""

from __future__ import annotations

import asyncio
import atexit
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Any, Literal, TypeAlias, TypedDict, Unpack

from eventide.errors import watermarks as errors
from eventide.time import duration
from eventide.watermarks.watermark import Watermark


@dataclass(frozen=True, slots=True)
class Result:
    """What a call on an item gave."""

    item: Any
    value: Any


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An item whose call failed as often as was allowed."""

    item: Any
    error: BaseException
    attempts: int
    reason: Literal["failed"] = "failed"


Output: TypeAlias = Result | DeadLetter | Watermark


@dataclass(frozen=True, slots=True)
class AsyncOptions:
    """How calls are made. ``backoff`` holds the waits before the second, third, … attempt; its last repeats."""

    ordered: bool = True
    capacity: int = 100
    timeout: int | None = None
    retries: int = 0
    backoff: tuple[int, ...] = ()

    def wait_before(self, attempt: int) -> int:
        """How long to wait before an attempt, counted from 1.

        >>> options = async_options(retries=3, backoff=["1s", "5s"])
        >>> [options.wait_before(attempt) for attempt in (1, 2, 3, 4)]
        [0, 1000000, 5000000, 5000000]
        """
        if attempt < 2 or not self.backoff:
            return 0
        return self.backoff[min(attempt - 2, len(self.backoff) - 1)]


class AsyncArguments(TypedDict, total=False):
    """What ``async_options`` takes."""

    ordered: bool
    capacity: int
    timeout: str | timedelta | None
    retries: int
    backoff: str | timedelta | Sequence[str | timedelta]


def async_options(
    *,
    ordered: bool = True,
    capacity: int = 100,
    timeout: str | timedelta | None = None,
    retries: int = 0,
    backoff: str | timedelta | Sequence[str | timedelta] = (),
) -> AsyncOptions:
    """Read and check the options of an async map.

    >>> async_options(capacity=10, timeout="5 seconds").timeout
    5000000
    """
    if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 1:
        raise errors.bad_async_option("capacity", capacity, "an integer of at least 1")
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise errors.bad_async_option("retries", retries, "an integer of at least 0")
    waits = [backoff] if isinstance(backoff, str | timedelta) else list(backoff)
    return AsyncOptions(
        ordered,
        capacity,
        None if timeout is None else duration(timeout, what="timeout of map_async()"),
        retries,
        tuple(duration(wait, what="backoff of map_async()", zero=True) for wait in waits),
    )


@dataclass(slots=True)
class _Call:
    item: Any
    attempts: int = 1
    output: Result | DeadLetter | None = None


class InFlight:
    """The calls in flight, and what may leave. Whoever makes the calls says how each went.

    Ordered: items and watermarks leave in the order in which they came. Unordered: an item leaves as soon as
    its call is done, and a watermark when all items before it have left.

    >>> calls = InFlight(async_options(ordered=False))
    >>> slow, _, fast = calls.submit("slow"), calls.watermark(Watermark(0, 5)), calls.submit("fast")
    >>> calls.complete(fast, 1), calls.drain()
    (True, [Result(item='fast', value=1)])
    >>> calls.complete(slow, 2), calls.drain()
    (True, [Result(item='slow', value=2), Watermark(key=0, time=5)])
    """

    def __init__(self, options: AsyncOptions) -> None:
        self._options = options
        self._calls: dict[int, _Call] = {}
        self._submitted = 0
        self._left = 0
        self._exit: _InOrder | _AsDone = _InOrder() if options.ordered else _AsDone()

    @property
    def full(self) -> bool:
        """Whether nothing can be submitted now. What is done but cannot leave yet takes room too."""
        return self._submitted - self._left >= self._options.capacity

    def submit(self, item: object) -> int:
        """A call on an item begins; the number to report its end by."""
        if self.full:
            raise errors.async_map_full(self._options.capacity)
        number, self._submitted = self._submitted, self._submitted + 1
        self._calls[number] = _Call(item)
        self._exit.add(number, self._calls[number])
        return number

    def watermark(self, watermark: Watermark) -> None:
        """A watermark came after the items submitted so far."""
        self._exit.mark(watermark)

    def complete(self, number: int, value: object) -> bool:
        """A call gave a value. False: it had ended before, as when an answer comes after its time was up."""
        call = self._calls.pop(number, None)
        if call is None:
            return False
        call.output = Result(call.item, value)
        self._exit.settle(number, call.output)
        return True

    def fail(self, number: int, error: BaseException) -> int | None:
        """An attempt failed or took too long: how long to wait before the next one, None if it was the last."""
        call = self._calls.get(number)
        if call is None:
            return None
        if call.attempts <= self._options.retries:
            call.attempts += 1
            return self._options.wait_before(call.attempts)
        del self._calls[number]
        call.output = DeadLetter(call.item, error, call.attempts)
        self._exit.settle(number, call.output)
        return None

    def drain(self) -> list[Output]:
        """What may leave now."""
        leaving = self._exit.leaving()
        self._left += sum(not isinstance(output, Watermark) for output in leaving)
        return leaving


class _InOrder:
    """A queue of items and watermarks. Nothing leaves before what came before it."""

    def __init__(self) -> None:
        self._queue: deque[_Call | Watermark] = deque()

    def add(self, number: int, call: _Call) -> None:
        self._queue.append(call)

    def settle(self, number: int, output: Result | DeadLetter) -> None:
        pass

    def mark(self, watermark: Watermark) -> None:
        last = self._queue[-1] if self._queue else None
        if isinstance(last, Watermark) and last.key == watermark.key:
            self._queue[-1] = watermark
        else:
            self._queue.append(watermark)

    def leaving(self) -> list[Output]:
        leaving: list[Output] = []
        while self._queue:
            head = self._queue[0]
            output = head if isinstance(head, Watermark) else head.output
            if output is None:
                break
            leaving.append(output)
            self._queue.popleft()
        return leaving


@dataclass(slots=True)
class _Stretch:
    """Items without a watermark between them: how many are in flight, and the watermarks that follow them."""

    in_flight: int = 0
    then: dict[int, Watermark] = field(default_factory=dict)


class _AsDone:
    """Items leave when they are done. A watermark leaves when no stretch before it has items in flight."""

    def __init__(self) -> None:
        self._stretches: deque[_Stretch] = deque([_Stretch()])
        self._stretch_of: dict[int, _Stretch] = {}
        self._leaving: list[Output] = []

    def add(self, number: int, call: _Call) -> None:
        if self._stretches[-1].then:
            self._stretches.append(_Stretch())
        self._stretches[-1].in_flight += 1
        self._stretch_of[number] = self._stretches[-1]

    def settle(self, number: int, output: Result | DeadLetter) -> None:
        self._leaving.append(output)
        self._stretch_of.pop(number).in_flight -= 1
        self._release()

    def mark(self, watermark: Watermark) -> None:
        self._stretches[-1].then[watermark.key] = watermark
        self._release()

    def leaving(self) -> list[Output]:
        leaving, self._leaving = self._leaving, []
        return leaving

    def _release(self) -> None:
        while not self._stretches[0].in_flight:
            self._leaving += self._stretches[0].then.values()
            if len(self._stretches) == 1:
                self._stretches[0].then.clear()
                return
            self._stretches.popleft()


def run_async(
    fn: Callable[[Any], Awaitable[Any]], items: Iterable[Any], **options: Unpack[AsyncArguments]
) -> AsyncIterator[Output]:
    """Call ``fn`` on each item, many at a time; watermarks among the items keep their place.

    >>> async def double(n):
    ...     return 2 * n
    >>> async def main():
    ...     return [output async for output in run_async(double, [1, Watermark(0, 5), 2])]
    >>> asyncio.run(main())
    [Result(item=1, value=2), Watermark(key=0, time=5), Result(item=2, value=4)]
    """
    return _outputs(fn, items, async_options(**options))


async def _outputs(
    fn: Callable[[Any], Awaitable[Any]], items: Iterable[Any], chosen: AsyncOptions
) -> AsyncIterator[Output]:
    calls = InFlight(chosen)
    tasks: set[asyncio.Task[None]] = set()
    try:
        for item in items:
            if isinstance(item, Watermark):
                calls.watermark(item)
            else:
                while calls.full:
                    tasks = await _some_ended(tasks)
                    for output in calls.drain():
                        yield output
                tasks.add(asyncio.create_task(_call(fn, item, calls.submit(item), calls, chosen.timeout)))
            for output in calls.drain():
                yield output
        while tasks:
            tasks = await _some_ended(tasks)
            for output in calls.drain():
                yield output
    finally:
        for task in tasks:
            task.cancel()


def call_all(
    fn: Callable[[Any], Awaitable[Any]], items: Iterable[Any], **options: Unpack[AsyncArguments]
) -> list[Output]:
    """The same for callers without an event loop of their own, such as a task on a worker.

    >>> async def double(n):
    ...     return 2 * n
    >>> call_all(double, [1, 2], capacity=1)
    [Result(item=1, value=2), Result(item=2, value=4)]
    """
    return call_with(fn, items, async_options(**options))


def call_with(fn: Callable[[Any], Awaitable[Any]], items: Iterable[Any], chosen: AsyncOptions) -> list[Output]:
    """The same with options that were read before."""

    async def collected() -> list[Output]:
        return [output async for output in _outputs(fn, items, chosen)]

    def run() -> list[Output]:
        return _runner().run(collected())

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run()
    return _apart().submit(run).result()  # a notebook has a loop that runs already, and a thread can have only one


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
def _apart() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "eventide-calls")


async def _some_ended(tasks: set[asyncio.Task[None]]) -> set[asyncio.Task[None]]:
    ended, going = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in ended:
        task.result()  # a fault of the driver itself must not pass unseen
    return going


async def _call(
    fn: Callable[[Any], Awaitable[Any]], item: object, number: int, calls: InFlight, timeout: int | None
) -> None:
    while True:
        try:
            async with asyncio.timeout(None if timeout is None else timeout / 1e6):
                value = await fn(item)
        except Exception as error:
            wait = calls.fail(number, error)
            if wait is None:
                return
            await asyncio.sleep(wait / 1e6)
        else:
            calls.complete(number, value)
            return
