"""Calls to the world outside, row by row, before anything else becomes of the rows."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import polars as pl

from eventide.errors import processing as errors
from eventide.operators.async_map import AsyncOptions, async_options
from eventide.processors.fitting import declared
from eventide.watermarks import Options, Strategy
from eventide.watermarks.rules import NoWatermark


@dataclass(frozen=True)
class AsyncMap:
    """An asynchronous function, the columns that it adds to a row, and how it is called."""

    fn: Callable[[dict[str, Any]], Awaitable[Any]]
    output: Mapping[str, pl.DataType]
    options: AsyncOptions

    @property
    def name(self) -> str:
        """The function as its author knows it."""
        return str(getattr(self.fn, "__name__", repr(self.fn)))

    def after(self, schema: Mapping[str, pl.DataType]) -> dict[str, pl.DataType]:
        """The columns of the rows behind the calls."""
        for column, dtype in self.output.items():
            if schema.get(column, dtype) != dtype:
                raise errors.column_retyped(self.name, column, schema[column], dtype)
        return {**schema, **self.output}

    def describe(self) -> str:
        """One line for ``explain()``."""
        order = "in order" if self.options.ordered else "as answers come"
        gives = ", ".join(f"{name}: {dtype}" for name, dtype in self.output.items())
        spans = ", across bundles" if self.options.across_bundles else ""
        calls = f"{self.options.capacity} calls at a time, {order}{spans}"
        return f"{self.name} gives {gives}; {calls}; runs Python for each row"


def async_map(
    fn: Any,
    *,
    output: Any,
    ordered: bool,
    capacity: int,
    timeout: str | timedelta | None,
    retries: int,
    backoff: str | timedelta | Sequence[str | timedelta],
    across_bundles: bool = False,
) -> AsyncMap:
    """Check what a user says of calls."""
    if not callable(fn) or not any(map(inspect.iscoroutinefunction, (fn, fn.__call__))):
        raise errors.not_async(fn)
    if output is None:
        raise errors.no_output(".map_async()")
    options = async_options(
        ordered=ordered,
        capacity=capacity,
        timeout=timeout,
        retries=retries,
        backoff=backoff,
        across_bundles=across_bundles,
    )
    return AsyncMap(fn, declared("output", output), options)


def followed_by(calls: tuple[AsyncMap, ...], call: AsyncMap) -> tuple[AsyncMap, ...]:
    """The calls of an input with one more. Calls that span bundles must be the only ones."""
    both = (*calls, call)
    if calls and any(each.options.across_bundles for each in both):
        raise errors.calls_after_calls(calls[-1].name, call.name)
    return both


def spans_bundles(plan: Any) -> bool:
    """Whether an input of a plan has calls that span bundles."""
    return any(call.options.across_bundles for edge in plan.edges for call in edge.calls)


def plan_behind(plan: Any) -> Any:
    """The plan of the operator behind the calls: its watermarks come from the queue only."""
    if plan.inputs:
        inputs = tuple(
            replace(own, watermark=_from_queue(own.watermark), calls=_within_bundles(own.calls)) for own in plan.inputs
        )
        names = {"inputs": inputs}
        if "watermark" in type(plan).__dataclass_fields__:
            names["watermark"] = inputs[0].watermark
        return replace(plan, **names)
    return replace(plan, watermark=_from_queue(plan.watermark), calls=_within_bundles(plan.calls))


def schemas_behind(plan: Any, schemas: Sequence[Mapping[str, pl.DataType]]) -> list[Mapping[str, pl.DataType]]:
    """The columns of rows behind the calls that span bundles."""
    behind = list(schemas)
    for edge, own in enumerate(plan.edges):
        for call in own.calls:
            if call.options.across_bundles:
                behind[edge] = call.after(behind[edge])
    return behind


def _from_queue(strategy: Strategy) -> Strategy:
    key = strategy.options.watermark_key
    return Strategy(NoWatermark(), Options(watermark_key=key, max_future_skew=None))


def _within_bundles(calls: Sequence[AsyncMap]) -> tuple[AsyncMap, ...]:
    return tuple(call for call in calls if not call.options.across_bundles)
