"""What an operator asks of whoever makes the calls that span bundles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import polars as pl

from eventide.operators.async_map import Answer, call_rows
from eventide.operators.call_queue import NUMBER
from eventide.plan.calls import AsyncMap


class PendingCalls(Protocol):
    """The calls of an operator. Hosts that live from bundle to bundle make them beside the bundles."""

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
    """Calls of an operator whose host makes none between bundles: they are all answered when they have begun."""

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
        """No call goes on."""
