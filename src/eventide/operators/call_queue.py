"""The queue of rows whose calls span bundles and of the watermarks behind them, and the contract of those calls.

Rows have numbers in the order of their arrival. A watermark of any key waits for all rows that arrived before it.
Ordered rows leave in the order of arrival, unordered rows when their calls return: no watermark overtakes a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np
import polars as pl

from eventide.operators.async_calls import Answer, call_rows
from eventide.plan.async_call import AsyncMap
from eventide.time import MIN

NUMBER = "__number"
"""The column that has the number of a row."""

INPUT, IDLE, END = -1, -2, -3
"""Keys of marks that concern an input as a whole: its watermark, whether it is idle, its end."""


@dataclass(frozen=True)
class CallQueue:
    """The rows of one input that have not left. A value: each method returns a new queue.

    >>> rows = pl.DataFrame({"v": [7, 8]})
    >>> queue = CallQueue.empty(rows.schema, rows.schema).arrive(rows).mark(0, 50)
    >>> queue, left = queue.settle([1], queue.waiting[1:]).leave(ordered=False)
    >>> left["v"].to_list(), queue.released
    ([8], {})
    >>> queue, left = queue.settle([0], queue.waiting).leave(ordered=False)
    >>> left["v"].to_list(), queue.released
    ([7], {0: 50})
    """

    waiting: pl.DataFrame  # rows without an answer, by number
    answered: pl.DataFrame  # rows as their calls made them, in the order of the answers
    next: int = 0  # the number of the next row
    marks: tuple[tuple[int, int, int], ...] = ()  # (the first row behind it, watermark key, time), in order of arrival
    released: Mapping[int, int] = field(default_factory=dict)  # the last time of each key that nothing holds back

    @classmethod
    def empty(cls, rows: Mapping[str, pl.DataType], results: Mapping[str, pl.DataType]) -> Self:
        """A queue for rows with these columns, before and after their calls."""
        number = {NUMBER: pl.Int64()}
        return cls(pl.DataFrame(schema=number | dict(rows)), pl.DataFrame(schema=number | dict(results)))

    @property
    def in_flight(self) -> int:
        """The rows in the queue: those without an answer, and those that wait for an earlier row."""
        return self.waiting.height + self.answered[NUMBER].n_unique()

    def arrive(self, rows: pl.DataFrame) -> CallQueue:
        """Add rows."""
        numbers = pl.Series(NUMBER, np.arange(self.next, self.next + rows.height), pl.Int64)
        waiting = pl.concat([self.waiting, rows.select(numbers, pl.all())])
        return replace(self, waiting=waiting, next=self.next + rows.height)

    def mark(self, key: int, time: int) -> CallQueue:
        """Add a watermark after the rows so far. It replaces a watermark of its key if no row is in between."""
        pending = [(place, mark) for place, mark in enumerate(self.marks) if mark[1] == key]
        last = pending[-1][1][2] if pending else self.released.get(key, MIN)
        if time == last or (time < last and key != IDLE):
            return self
        marks = list(self.marks)
        if pending and pending[-1][1][0] == self.next:
            del marks[pending[-1][0]]
        return replace(self, marks=(*marks, (self.next, key, time)))

    def settle(self, numbers: list[int], results: pl.DataFrame) -> CallQueue:
        """Calls are answered. ``results`` has the rows that they made, none for a row that was dropped or failed."""
        waiting = self.waiting.filter(~pl.col(NUMBER).is_in(numbers))
        return replace(
            self, waiting=waiting, answered=pl.concat([self.answered, results.select(self.answered.columns)])
        )

    def leave(self, *, ordered: bool) -> tuple[CallQueue, pl.DataFrame]:
        """The queue without what may leave now, and the rows that leave; ``released`` has the watermarks."""
        oldest = int(self.waiting[NUMBER][0]) if self.waiting.height else self.next
        leaving, staying = self.answered, self.answered.clear()
        if ordered:
            ready = pl.col(NUMBER) < oldest
            leaving = self.answered.filter(ready).sort(NUMBER, maintain_order=True)
            staying = self.answered.filter(~ready)
        free = {key: time for first, key, time in self.marks if first <= oldest}
        marks = tuple(mark for mark in self.marks if mark[0] > oldest)
        left = replace(self, answered=staying, marks=marks, released={**self.released, **free})
        return left, leaving.drop(NUMBER)

    def bound_to(self, rows: Mapping[str, pl.DataType], results: Mapping[str, pl.DataType]) -> CallQueue:
        """The queue for rows with these columns. Columns that rows in flight did not have are null in them."""
        empty = CallQueue.empty(rows, results)
        waiting, answered = (
            pl.concat([wanted, frame], how="diagonal").select(wanted.columns)
            for frame, wanted in ((self.waiting, empty.waiting), (self.answered, empty.answered))
        )
        return replace(self, waiting=waiting, answered=answered)

    def saved(self) -> dict[str, Any]:
        """The queue as plain data and frames."""
        return {
            "waiting": self.waiting,
            "answered": self.answered,
            "next": self.next,
            "marks": [list(mark) for mark in self.marks],
            "released": [list(mark) for mark in self.released.items()],
        }

    @classmethod
    def restore(cls, saved: Mapping[str, Any]) -> Self:
        """The queue that was saved."""
        marks = tuple((first, key, time) for first, key, time in saved["marks"])
        return cls(saved["waiting"], saved["answered"], saved["next"], marks, dict(saved["released"]))


class PendingCalls(Protocol):
    """The calls of an operator. Hosts make them in the background, while bundles go on."""

    taken: int
    """Of the answers that have arrived, those that the state has."""
    wait_for_all: bool
    """Whether every bundle waits for all calls, because no further bundle would take their answers."""

    @property
    def arrived(self) -> int:
        """The number of answers that have arrived, of all inputs."""
        ...

    def begin(self, edge: int, waiting: pl.DataFrame) -> None:
        """Begin the calls of rows that are new, and forget the answers of rows that no longer wait."""
        ...

    def answers(self, edge: int, start: int = 0) -> list[tuple[int, Answer]]:
        """The answers for rows that wait, with their numbers, as they arrived; from the place ``start`` on."""
        ...

    def wait(self, arrived: int) -> None:
        """Wait until so many answers have arrived."""
        ...

    def cancel(self) -> None:
        """Cancel all calls. Those of rows that are still in state begin again with the next bundle."""
        ...


class CallsAtOnce:
    """Makes calls within a bundle: each call has been answered when the method that begins it returns."""

    taken = 0
    wait_for_all = False
    arrived = 0

    def __init__(self, maps: Mapping[int, AsyncMap]) -> None:
        self._maps = maps
        self._answers: dict[int, list[tuple[int, Answer]]] = {}

    def begin(self, edge: int, waiting: pl.DataFrame) -> None:
        """Make the calls of all rows."""
        call, numbers = self._maps[edge], waiting[NUMBER]
        answers = call_rows(call.fn, waiting.drop(NUMBER).to_dicts(), call.options)
        self._answers[edge] = [(numbers[place], answer) for place, answer in answers]

    def answers(self, edge: int, start: int = 0) -> list[tuple[int, Answer]]:
        """The answers of all rows."""
        return self._answers[edge][start:]

    def wait(self, arrived: int) -> None:
        """Nothing is left to wait for."""

    def cancel(self) -> None:
        """Cancel all calls."""
