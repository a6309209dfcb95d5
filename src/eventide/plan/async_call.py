"""Asynchronous calls for each row of a stream: their options, and the columns that they add."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import polars as pl

from eventide._arguments import is_integer
from eventide.errors import PlanError, shown
from eventide.processors.declared_columns import declared
from eventide.processors.errors import no_output
from eventide.time import duration


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


@dataclass(frozen=True)
class AsyncMap:
    """An asynchronous function, the columns that it adds to a row, and how it is called."""

    fn: Callable[[dict[str, Any]], Awaitable[Any]]
    output: Mapping[str, pl.DataType]
    options: AsyncOptions

    @property
    def name(self) -> str:
        """The function's name."""
        return str(getattr(self.fn, "__name__", repr(self.fn)))

    def schema_after(self, schema: Mapping[str, pl.DataType]) -> dict[str, pl.DataType]:
        """The columns of the rows after the calls."""
        for column, dtype in self.output.items():
            if schema.get(column, dtype) != dtype:
                raise PlanError(
                    f".map_async({self.name}): the rows have a column {column!r} of type {schema[column]}, but "
                    f"output= declares {dtype}. A column that is replaced keeps its type; choose another name."
                )
        return {**schema, **self.output}

    def describe(self) -> str:
        """One line for ``explain()``."""
        order = "in order" if self.options.ordered else "in order of completion"
        columns = ", ".join(f"{name}: {dtype}" for name, dtype in self.output.items())
        spans = ", across bundles" if self.options.across_bundles else ""
        calls = f"{self.options.capacity} calls at a time, {order}{spans}"
        return f"{self.name} gives {columns}; {calls}; runs Python for each row"


def async_options(
    *,
    ordered: bool = True,
    capacity: int = 100,
    timeout: str | timedelta | None = None,
    retries: int = 0,
    backoff: str | timedelta | Sequence[str | timedelta] = (),
    across_bundles: bool = False,
) -> AsyncOptions:
    """Return checked options of ``map_async``.

    >>> async_options(capacity=10, timeout="5 seconds").timeout
    5000000
    """
    for name, value, least in (("capacity", capacity, 1), ("retries", retries, 0)):
        if not is_integer(value, at_least=least):
            raise PlanError(f"map_async(): {name}={shown(value)} must be an integer of at least {least}.")
    if not isinstance(across_bundles, bool):
        raise PlanError(f"map_async(): across_bundles={shown(across_bundles)} must be True or False.")
    waits = [backoff] if isinstance(backoff, str | timedelta) else list(backoff)
    return AsyncOptions(
        ordered,
        capacity,
        None if timeout is None else duration(timeout, what="timeout of map_async()"),
        retries,
        tuple(duration(wait, what="backoff of map_async()", zero=True) for wait in waits),
        across_bundles,
    )


def async_map(fn: Any, *, output: Any, **options: Any) -> AsyncMap:
    """Return a checked call of ``fn``; ``options`` are those of ``async_options``."""
    if not callable(fn) or not any(map(inspect.iscoroutinefunction, (fn, fn.__call__))):
        raise PlanError(f".map_async({shown(fn)}): pass a function that is defined with `async def`.")
    if output is None:
        raise no_output(".map_async()")
    return AsyncMap(fn, declared("output", output), async_options(**options))


def followed_by(calls: tuple[AsyncMap, ...], call: AsyncMap) -> tuple[AsyncMap, ...]:
    """Return the calls of an input with one more. Calls that span bundles must be the only ones."""
    both = (*calls, call)
    if calls and any(each.options.across_bundles for each in both):
        raise PlanError(
            f".map_async({call.name}) follows .map_async({calls[-1].name}), and across_bundles=True allows one "
            ".map_async per input: make both calls in one function."
        )
    return both
