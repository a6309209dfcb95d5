"""The batches of a query that this process runs, and what a second start of the query does with the first one."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from eventide.spark import query_batches
from eventide.spark.query_batches import QueryBatches, local_batches


class Outputs:
    """Sinks that record why they are closed."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.history: list[Any] = []
        self.closed: list[Outputs | None] = []
        self._functions: list[Callable[[], None]] = []

    def guarded(self, write: Any) -> Any:
        return write

    def when_closed(self, function: Callable[[], None]) -> None:
        self._functions.append(function)

    def close(self, *, successor: Outputs | None = None) -> None:
        self.closed.append(successor)
        for function in self._functions:
            function()
        if self.fails:
            raise OSError("not flushed")


def batches(outputs: Outputs) -> QueryBatches:
    control = SimpleNamespace(show_running=lambda: None)
    return local_batches(lambda batch, batch_id: None, outputs, control, SimpleNamespace(fail=print), None)  # type: ignore[arg-type]


def writer(query: str = "one") -> Any:
    return SimpleNamespace(start=lambda: SimpleNamespace(id=query))


@pytest.mark.parametrize("fails", [False, True], ids=["", "a sink fails to close"])
def test_a_second_start_closes_the_sinks_of_the_first(fails: bool) -> None:
    first, second = Outputs(fails=fails), Outputs()
    batches(first).start(writer())
    batches(second).start(writer())
    assert first.closed == [second] and second.closed == []
    second.close()
    assert not query_batches._started


def test_the_sinks_of_a_query_that_starts_twice_to_drain_stay_open() -> None:
    outputs = Outputs()
    twice = batches(outputs)
    twice.start(writer())
    twice.start(writer())
    assert outputs.closed == []
    twice.close()
    assert not query_batches._started


def test_another_query_closes_nothing() -> None:
    first, second = Outputs(), Outputs()
    batches(first).start(writer("one"))
    batches(second).start(writer("two"))
    assert first.closed == second.closed == []
    first.close()
    second.close()
