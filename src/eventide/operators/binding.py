"""From a plan to its operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from eventide.operators.calls_across_bundles import CallsAcrossBundles
from eventide.operators.interval_join import IntervalJoin
from eventide.operators.last_rows_join import LastRowsJoin
from eventide.operators.operator import StreamOperator
from eventide.operators.processing import Processing
from eventide.operators.saved_calls import divided, schemas_of
from eventide.operators.saving import State
from eventide.operators.window_join import WindowJoin
from eventide.operators.windowed import WindowedAggregate
from eventide.operators.with_calls import WithCalls
from eventide.plan.calls import plan_behind, schemas_behind, spans_bundles
from eventide.plan.join_plan import JoinPlan
from eventide.plan.process_plan import ProcessPlan


def operator_of(plan: Any, *schemas: Mapping[str, pl.DataType]) -> StreamOperator:
    """The operator of a plan, bound to the columns of its inputs."""
    if spans_bundles(plan):
        return CallsAcrossBundles(plan, operator_of(plan_behind(plan), *schemas_behind(plan, schemas)), *schemas)
    if any(one.calls for one in plan.edges):
        return WithCalls(plan, _kind_of(plan), *schemas)
    operator: StreamOperator = _kind_of(plan)(plan, *schemas)
    return operator


def loaded(plan: Any, saved: bytes) -> tuple[StreamOperator, State]:
    """The operator and the state that were saved. Another plan is refused, with what has changed."""
    if spans_bundles(plan):
        calls, behind = divided(saved)
        schemas, (inner, state) = schemas_of(calls), loaded(plan_behind(plan), behind)
        spanning = CallsAcrossBundles(plan, inner, *schemas)
        return spanning, spanning.restored(calls, state)
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
