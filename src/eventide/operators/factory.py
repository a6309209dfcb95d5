"""The operator of a plan, new or with a saved state."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import polars as pl

from eventide.operators.async_map import AsyncMapOperator, OperatorKind
from eventide.operators.async_map_across_bundles import (
    CallsAcrossBundles,
    divided,
    plan_behind,
    schemas_behind,
    schemas_of,
)
from eventide.operators.interval_join import IntervalJoin, LastRowsJoin
from eventide.operators.operator import StreamOperator
from eventide.operators.process import ProcessOperator
from eventide.operators.window_join import WindowJoin
from eventide.operators.windowed_aggregate import WindowedAggregate
from eventide.plan.join_plan import JoinPlan
from eventide.plan.plan import Plan, spans_bundles
from eventide.plan.process_plan import ProcessPlan
from eventide.plan.window_plan import WindowPlan
from eventide.state.operator_state import State


def operator_of(plan: Plan, *schemas: Mapping[str, pl.DataType]) -> StreamOperator:
    """The operator of a plan, bound to the columns of its inputs."""
    if spans_bundles(plan):
        return CallsAcrossBundles(plan, operator_of(plan_behind(plan), *schemas_behind(plan, schemas)), *schemas)
    if any(source.calls for source in plan.edges):
        return AsyncMapOperator(plan, _kind_of(plan), *schemas)
    return _kind_of(plan).create(*schemas)


def loaded(plan: Plan, saved: bytes) -> tuple[StreamOperator, State]:
    """The operator and the state that were saved. A state of another plan is rejected with what has changed."""
    if spans_bundles(plan):
        calls, body = divided(saved)
        schemas, (inner, state) = schemas_of(calls), loaded(plan_behind(plan), body)
        spanning = CallsAcrossBundles(plan, inner, *schemas)
        return spanning, spanning.restored(calls, state)
    if any(source.calls for source in plan.edges):
        return AsyncMapOperator.load(plan, _kind_of(plan), saved)
    return _kind_of(plan).load(saved)


def _kind_of(plan: Plan) -> OperatorKind:
    if isinstance(plan, ProcessPlan):
        return OperatorKind(partial(ProcessOperator, plan), partial(ProcessOperator.load, plan))
    if isinstance(plan, JoinPlan):
        join = IntervalJoin if plan.last is None else LastRowsJoin
        return OperatorKind(partial(join, plan), partial(join.load, plan))
    assert isinstance(plan, WindowPlan)
    windows = WindowedAggregate if plan.sides is None else WindowJoin
    return OperatorKind(partial(windows, plan), partial(windows.load, plan))
