"""Async calls that outlive their bundle: one event loop per process makes them, in a background thread."""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections import deque
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import polars as pl

from eventide.operators.async_calls import Answer, attempt
from eventide.operators.async_map_across_bundles import CallsAcrossBundles
from eventide.operators.call_queue import NUMBER
from eventide.operators.operator import StreamOperator
from eventide.plan.async_call import AsyncMap


def attach_background_calls(operator: StreamOperator) -> BackgroundCalls | None:
    """Attach background calls to an operator whose calls outlive bundles; None: it has no such calls."""
    if not isinstance(operator, CallsAcrossBundles):
        return None
    operator.calls = calls = BackgroundCalls(operator.maps)
    return calls


class BackgroundCalls:
    """The calls of one operator. Answers are kept until they are in the state, so that a failed bundle loses none.

    ``maps`` has the function of each input. ``on_answer`` is called for each answer, in the thread of the loop.
    ``wait_for_all``: every bundle waits for all calls, because no further bundle would take their answers.
    """

    def __init__(self, maps: Mapping[int, AsyncMap]) -> None:
        self.on_answer: Callable[[], None] | None = None
        self.wait_for_all = False
        self.taken = 0  # of the arrived answers, those in the state
        self._maps = maps
        self._changed = threading.Condition()
        self._reset()

    def begin(self, edge: int, waiting: pl.DataFrame) -> None:
        """Begin the calls of new rows, and drop the answers of rows that no longer wait."""
        numbers = waiting[NUMBER].to_list()
        with self._changed:
            waiting_numbers = self._waiting[edge]
            new = [index for index, number in enumerate(numbers) if number not in waiting_numbers]
            self._waiting[edge] = waiting_numbers = set(numbers)
            self._answers[edge] = [answer for answer in self._answers[edge] if answer[0] in waiting_numbers]
        if new:
            self._begun += len(new)
            rows = waiting[new]
            calls = list(zip(rows[NUMBER].to_list(), rows.drop(NUMBER).to_dicts(), strict=True))
            _loop().call_soon_threadsafe(self._queue, self._epoch, edge, calls)

    def answers(self, edge: int, start: int = 0) -> list[tuple[int, Answer]]:
        """Return the answers for waiting rows with their numbers, in order of arrival, from the index ``start`` on."""
        with self._changed:
            if self._fault is not None:
                raise self._fault
            return self._answers[edge][start:]

    @property
    def arrived(self) -> int:
        """The number of answers that have arrived, of all inputs."""
        return self._arrived

    def wait(self, arrived: int) -> None:
        """Wait until this many answers have arrived."""
        with self._changed:
            self._changed.wait_for(lambda: self._arrived >= arrived or self._fault is not None)

    def wait_for_answers(self, answers: int | None = None) -> None:
        """Wait for this many answers that are not in the state yet; None: for the answers of all calls."""
        self.wait(self._begun if answers is None else min(self.taken + answers, self._begun))

    def cancel(self) -> None:
        """Cancel all calls. Those of rows that are still in state begin again with the next bundle."""
        with self._changed:
            tasks = self._tasks
            self._reset()
        if tasks:
            _loop().call_soon_threadsafe(lambda: [task.cancel() for task in tasks])

    def _reset(self) -> None:
        self._epoch = object()  # answers of cancelled calls belong to an earlier epoch
        self._waiting: dict[int, set[int]] = {edge: set() for edge in self._maps}
        self._answers: dict[int, list[tuple[int, Answer]]] = {edge: [] for edge in self._maps}
        self._queued: dict[int, deque[tuple[int, Any]]] = {edge: deque() for edge in self._maps}
        self._workers = dict.fromkeys(self._maps, 0)
        self._tasks: set[asyncio.Task[None]] = set()
        self._begun = self._arrived = self.taken = 0
        self._fault: BaseException | None = None

    def _queue(self, epoch: object, edge: int, rows: list[tuple[int, Any]]) -> None:
        with self._changed:
            if epoch is not self._epoch:
                return
            self._queued[edge].extend(rows)
            idle = self._maps[edge].options.capacity - self._workers[edge]
            for _ in range(min(idle, len(self._queued[edge]))):
                self._workers[edge] += 1
                task = _loop().create_task(self._work(epoch, edge))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _work(self, epoch: object, edge: int) -> None:
        """Make the queued calls one after the other."""
        call, queued = self._maps[edge], self._queued[edge]
        try:
            while queued:
                number, row = queued.popleft()
                answer = await attempt(call.fn, row, call.options)
                with self._changed:
                    if epoch is not self._epoch:
                        return
                    self._answers[edge].append((number, answer))
                    self._arrived += 1
                    self._changed.notify_all()
                if self.on_answer is not None:
                    self.on_answer()
        except BaseException as fault:
            with self._changed:
                if epoch is self._epoch:
                    self._fault = fault
                    self._changed.notify_all()
        finally:
            with self._changed:
                if epoch is self._epoch:
                    self._workers[edge] -= 1


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of this process. All queries share it, so that clients stay connected."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="eventide-calls", daemon=True)
    thread.start()
    atexit.register(_shut_down, loop, thread)
    return loop


def _shut_down(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    """Cancel the calls in flight when the process exits."""

    async def cancel() -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=1) if tasks else None
        loop.stop()

    asyncio.run_coroutine_threadsafe(cancel(), loop)
    thread.join(timeout=2)
