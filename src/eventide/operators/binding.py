"""From a plan to its operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from eventide.operators.calls_across_bundles import CallsAcrossBundles, plan_behind, schemas_behind
from eventide.operators.interval_join import IntervalJoin
from eventide.operators.last_rows_join import LastRowsJoin
from eventide.operators.operator import StreamOperator
from eventide.operators.processing import Processing
from eventide.operators.saving import State
from eventide.operators.window_join import WindowJoin
from eventide.operators.windowed import WindowedAggregate
from eventide.operators.with_calls import WithCalls
from eventide.plan.calls import spans_bundles
from eventide.plan.join_plan import JoinPlan
from eventide.plan.process_plan import ProcessPlan


def operator_of(plan: Any, *schemas: Mapping[str, pl.DataType]) -> StreamOperator:
    """The operator of a plan, bound to the columns of its inputs."""
    if spans_bundles(plan):
        return _across_bundles(plan, schemas)
    if any(one.calls for one in plan.edges):
        return WithCalls(plan, _kind_of(plan), *schemas)
    operator: StreamOperator = _kind_of(plan)(plan, *schemas)
    return operator


def loaded(plan: Any, saved: bytes) -> tuple[StreamOperator, State]:
    """The operator and the state that were saved. Another plan is refused, with what has changed."""
    if spans_bundles(plan):
        return _across_bundles(plan, CallsAcrossBundles.schemas_in(saved)).load(saved)
    if any(one.calls for one in plan.edges):
        return WithCalls.load(plan, _kind_of(plan), saved)
    found: tuple[StreamOperator, State] = _kind_of(plan).load(plan, saved)
    return found


def _across_bundles(plan: Any, schemas: Sequence[Mapping[str, pl.DataType]]) -> CallsAcrossBundles:
    inner = operator_of(plan_behind(plan), *schemas_behind(plan, schemas))
    return CallsAcrossBundles(plan, inner, *schemas)


def _kind_of(plan: Any) -> Any:
    if isinstance(plan, ProcessPlan):
        return Processing
    if isinstance(plan, JoinPlan):
        return IntervalJoin if plan.last is None else LastRowsJoin
    return WindowedAggregate if plan.sides is None else WindowJoin
