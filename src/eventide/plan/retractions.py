"""Retractions in the rows of a plan: retracted panes of another pipeline, with ``diff = -1``.

A windowed aggregate subtracts them. What cannot do that is rejected here, for chains and for panes in a frame.
"""

from __future__ import annotations

import polars as pl

from eventide.panes import DIFF
from eventide.plan.plan import Plan
from eventide.plan.process_plan import ProcessPlan
from eventide.plan.window_plan import WindowPlan
from eventide.windows import Sessions

ONCE = (
    "Let the pipeline before emit each window once (without early panes and allowed_lateness), or choose "
    'mode="discarding" there, whose panes add up.'
)


def emits_retractions(plan: Plan) -> bool:
    """Return whether rows of a plan may have ``diff = -1``. Those of a processor may, if it declares that column."""
    if isinstance(plan, ProcessPlan):
        diff = plan.output.get(DIFF)
        return diff is not None and (diff == pl.Int8 or (plan.processor.retractions and diff.is_integer()))
    return plan.mode == "retracting"


def no_retractions(plan: Plan) -> str | None:
    """Return why a plan cannot process retracted rows, and what else to do; None if it can.

    >>> import eventide as ev
    >>> panes = ev.stream("window_time", watermark="0s")
    >>> no_retractions(panes.window(ev.tumbling("1 hour")).agg(n=ev.sum("n")).plan)
    >>> print(no_retractions(panes.window(ev.rows(3)).agg(n=ev.sum("n")).plan).partition(":")[0])
    windows (every 3 rows) cannot process retracted rows
    """
    options = [source.watermark.options for source in plan.edges]
    if any(each.deduplicate or each.ids for each in options):
        return (
            ".deduplicate() would take a retraction and the pane that replaces it for repeats of the first pane. "
            "Leave it out: a pipeline emits each pane once."
        )
    if isinstance(plan, ProcessPlan):
        if plan.processor.retractions:
            return None
        return (
            f"the processor {plan.name} would take a retraction for a row. If it handles rows with diff = -1, write "
            "retractions = True in its class."
        )
    if not isinstance(plan, WindowPlan) or plan.sides is not None:
        return "a join cannot retract the pairs of a retracted row. Window the panes first."
    if plan.window.axis == "rows" or isinstance(plan.window, Sessions):
        # A retraction would have to split a session, or to renumber the rows behind it.
        return (
            f"windows ({plan.window.describe()}) cannot process retracted rows: each retraction would move the "
            "bounds of windows. Window the panes by time: ev.tumbling(…), ev.sliding(…), ev.inherit()."
        )
    if plan.limits is not None and plan.limits.rows is not None:
        return (
            ".limit_state(rows=…) would count a retraction as one more row. Leave it out, or limit the bytes: "
            ".limit_state(bytes=…)."
        )
    if plan.mode == "discarding":
        return (
            'mode="discarding" over panes that can be retracted: the rows since the last pane may be less than none, '
            'which most aggregates cannot express. Use mode="retracting" or mode="accumulating".'
        )
    return None
