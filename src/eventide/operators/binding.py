"""From a plan to its operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from eventide.operators.interval_join import IntervalJoin
from eventide.operators.last_rows_join import LastRowsJoin
from eventide.operators.operator import StreamOperator
from eventide.operators.processing import Processing
from eventide.operators.saving import State
from eventide.operators.window_join import WindowJoin
from eventide.operators.windowed import WindowedAggregate
from eventide.operators.with_calls import WithCalls
from eventide.plan.join_plan import JoinPlan
from eventide.plan.process_plan import ProcessPlan


def operator_of(plan: Any, *schemas: Mapping[str, pl.DataType]) -> StreamOperator:
    """The operator of a plan, bound to the columns of its inputs."""
    if any(one.calls for one in plan.edges):
        return WithCalls(plan, _kind_of(plan), *schemas)
    operator: StreamOperator = _kind_of(plan)(plan, *schemas)
    return operator


def loaded(plan: Any, saved: bytes) -> tuple[StreamOperator, State]:
    """The operator and the state that were saved. Another plan is refused, with what has changed."""
    if any(one.calls for one in plan.edges):
        return WithCalls.load(plan, _kind_of(plan), saved)
    found: tuple[StreamOperator, State] = _kind_of(plan).load(plan, saved)
    return found


def _kind_of(plan: Any) -> Any:
    if isinstance(plan, ProcessPlan):
        return Processing
    if isinstance(plan, JoinPlan):
        return IntervalJoin if plan.last is None else LastRowsJoin
    return WindowedAggregate if plan.sides is None else WindowJoin
