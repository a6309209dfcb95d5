"""The columns of a chain: what the panes of a pipeline have by their names, and what the next pipeline reads.

Types are known with the rows only, so operators check them. Names that are missing are mistakes of the chain itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import polars as pl

from eventide import _columns as c
from eventide._column_refs import SparkColumn, computed
from eventide.aggregates import Aggregate
from eventide.aggregates.aggregate import Source
from eventide.errors import PlanError, did_you_mean
from eventide.panes import DIFF, EMITTED_AT, PANE, WINDOW, WINDOW_TIME
from eventide.plan.errors import inherits_row_windows
from eventide.plan.plan import IngestionTime, Plan
from eventide.plan.process_plan import ProcessPlan
from eventide.plan.window_plan import WindowPlan
from eventide.windows import Inherit, Sessions

_UNKNOWN: pl.DataType = pl.Int64()  # in place of a type that is not known yet


@dataclass(frozen=True)
class _PaneColumns(Source):
    """The columns of panes by their names, for aggregates that ask for types. ``missing`` are those that do not exist.

    Other errors of the aggregate may come from a type that is not known yet.
    """

    missing: list[str] = field(default_factory=list)

    def dtype(self, column: str, aggregate: Aggregate) -> pl.DataType:
        if isinstance(column, str) and column not in self.schema and not isinstance(column, SparkColumn):
            self.missing.append(column)
        return super().dtype(column, aggregate)


def check_chain_columns(plan: Plan, before: Plan) -> None:
    """Reject a plan that reads columns which the panes of the plan before do not have.

    >>> import eventide as ev
    >>> minutes = ev.stream("ts", key="shop").window(ev.tumbling("1 minute")).agg(orders=ev.count())
    >>> minutes.then(ev.stream("window_time").window(ev.tumbling("1 hour")).agg(most=ev.max("order")))
    Traceback (most recent call last):
    eventide.errors.PlanError: max(order): the pipeline before has no column 'order'. Did you mean 'orders'?
    """
    names = pane_columns(before)
    if names is None:
        return
    for call in (call for edge in plan.edges for call in edge.calls):
        names |= dict.fromkeys(call.output, _UNKNOWN)
    for role, column in _columns_read(plan):
        if column not in names and column.partition(".")[0] not in names and not isinstance(column, SparkColumn):
            raise _missing(role, column, names)
    by_row = isinstance(before, WindowPlan) and before.window.axis == "rows"
    if isinstance(plan.window, Inherit) and by_row:
        raise inherits_row_windows()
    no_times = {*PANE, DIFF} - {EMITTED_AT, WINDOW_TIME} | (set(WINDOW) if by_row else set())
    if isinstance(before, WindowPlan) and plan.time in no_times:
        raise PlanError(
            f"time: {plan.time!r} is no event time of the panes of the pipeline before. Use "
            f"ev.stream({WINDOW_TIME!r}, …)."
        )
    if isinstance(plan, WindowPlan):
        for name, aggregate in plan.aggregates.items():
            _check_aggregate(name, aggregate, names)


def pane_columns(plan: Plan) -> dict[str, pl.DataType] | None:
    """Return the columns of the panes of a plan; None: they depend on the rows, as those of joined pairs."""
    if isinstance(plan, ProcessPlan):
        return dict(plan.output)
    if not isinstance(plan, WindowPlan) or plan.row_grain != "windows":
        return None
    return dict.fromkeys((*plan.key, *WINDOW, *plan.aggregates, *PANE, DIFF), _UNKNOWN)


def _columns_read(plan: Plan) -> Iterator[tuple[str, str]]:
    """What a plan reads besides the columns of its aggregates: the role and the name of each column."""
    if not isinstance(plan.time, IngestionTime):
        yield "time", plan.time
    yield from (("key", name) for name in plan.key)
    yield from ((plan.watermark.describe(), name) for name in plan.watermark.columns())
    if isinstance(plan.window, Sessions) and isinstance(plan.window.gap, str):
        yield "sessions()", plan.window.gap
    if isinstance(plan.window, Inherit):
        yield from (("inherit()", name) for name in WINDOW)


def _check_aggregate(name: str, aggregate: Aggregate, names: Mapping[str, pl.DataType]) -> None:
    if aggregate.python:
        return
    expressions = computed(aggregate)
    for column in expressions.values():
        for root in column.expression.meta.root_names():
            if root not in names:
                raise _missing(str(aggregate), root, names)
    schema = {**names, c.TIME: pl.Int64(), **dict.fromkeys(expressions, _UNKNOWN)}
    source = _PaneColumns(name, schema, c.TIME)
    with suppress(PlanError, pl.exceptions.PolarsError):
        aggregate.bind(source)
    if source.missing:
        raise _missing(str(aggregate), source.missing[0], names)


def _missing(role: str, column: str, names: Mapping[str, pl.DataType]) -> PlanError:
    columns = [name for name in names if not name.startswith("__")]
    hint = did_you_mean(column, columns)
    time = f" The event time of a pane is {WINDOW_TIME!r}." if role == "time" and WINDOW_TIME in names else ""
    return PlanError(f"{role}: the pipeline before has no column {column!r}. {hint}{time}")
