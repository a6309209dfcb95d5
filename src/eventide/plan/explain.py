"""A plan as text and HTML, for ``explain()``, ``repr`` and notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from eventide._column_refs import in_unit
from eventide._display import facts_html
from eventide.plan.join_plan import LEFT, RIGHT, JoinPlan
from eventide.plan.plan import IngestionTime, Plan
from eventide.plan.process_plan import ProcessPlan
from eventide.plan.window_plan import WindowPlan, fires_once
from eventide.time import format_duration
from eventide.triggers import Finish
from eventide.watermarks.generators import NoWatermark
from eventide.windows import Sessions, Sliding
from eventide.windows.kind import forgets

Facts: TypeAlias = list[tuple[str, str]]
"""Names and lines. A line without a name continues the one above."""

_JOINS = {
    "inner": "pairs",
    "left": "pairs, and each left row without a partner, once none can arrive",
    "right": "pairs, and each right row without a partner, once none can arrive",
    "full": "pairs, and each row of either side without a partner, once none can arrive",
}
_MODES = {
    "accumulating": "accumulating: each pane repeats the whole window",
    "discarding": "discarding: each pane has what is new since the last",
    "retracting": "retracting: each pane repeats the whole window, and the one before is retracted first",
}
_LAYOUTS = {
    "cells": "cells: partial aggregates per key and slice; each window fires once",
    "panes": "panes: one row per key and open window, with its trigger",
}
_TRANSFORM = "with .transform() on Spark: late rows and dead letters, which pipeline.run and ev.outputs keep"


def explain(plan: Plan) -> str:
    """Aligned lines, one fact each."""
    return aligned(facts(plan))


def aligned(facts: Sequence[tuple[str, str]]) -> str:
    """Facts as text, with names in one column and lines in another."""
    width = max(len(name) for name, _ in facts)
    return "\n".join(f"{name.rjust(width)}  {text}".rstrip() for name, text in facts) + "\n"


def summary(*plans: Plan) -> str:
    """One line: what the plans of a chain do, and for which key.

    >>> import eventide as ev
    >>> summary(ev.stream(time="ts", key="shop").window(ev.tumbling("1 minute")).agg(n=ev.count()).plan)
    "tumbling 1m by 'shop': n"
    """
    return "; then ".join(plan.summary() for plan in plans)


def table(plan: Plan, notes: Sequence[str] = ()) -> str:
    """The facts of a plan as an HTML table, with ``notes`` below them. Names and expressions are escaped.

    >>> import eventide as ev
    >>> html = table(ev.stream(time="ts").window(ev.tumbling("1 minute")).agg(n=ev.count()).plan)
    >>> "<caption" in html, ">tumbling 1m</td>" in html
    (True, True)
    """
    lines = facts(plan)
    losses = [name for name, line in lines if name == "may be lost" and not line.startswith("nothing")]
    others = [("" if place else "in addition", note) for place, note in enumerate(notes)]
    return facts_html("Pipeline", [*lines, *others], alarms=["warning", *losses])


def facts(plan: Plan) -> Facts:
    """What a plan does: names and lines."""
    if isinstance(plan, JoinPlan):
        return [*_join_facts(plan), *_calls(plan)]
    time = "the batch's own time" if isinstance(plan.time, IngestionTime) else f"column {plan.time!r}"
    time += "" if isinstance(plan.time, IngestionTime) else in_unit(plan.time)
    return [
        ("time", time),
        ("key", ", ".join(map(repr, plan.key)) or "none: one group"),
        *_inputs(plan),
        *_without_watermark(plan),
        *_calls(plan),
        *(_process_facts(plan) if isinstance(plan, ProcessPlan) else _window_facts(plan)),
    ]


def retention_of(plan: JoinPlan, edge: int) -> str:
    """How long rows of one side are kept, in one line."""
    retention = plan.retention[edge]
    if retention.length is None:
        return f"the last {plan.last} rows of each key"
    name, by = plan.inputs[edge].name, plan.inputs[retention.by].name
    if plan.inputs[retention.by].watermark.generator.name == "no_watermark":
        return f"until the streams end: the {by} stream has no watermark"
    if retention.by == edge:
        return f"{format_duration(retention.length)} behind the {name} watermark (keep)"
    sign = "-" if retention.length < 0 else "+"
    return f"until the {by} watermark is past {name}.time {sign} {format_duration(abs(retention.length))}"


def _join_facts(plan: JoinPlan) -> Facts:
    left, right = plan.inputs
    equal = ", ".join(f"left.{ours} = right.{theirs}" for ours, theirs in zip(left.key, right.key, strict=True))
    return [
        ("join", f"{plan.how}: {_JOINS[plan.how]}"),
        *_under("inputs", (source.describe() for source in plan.inputs)),
        ("equal", equal),
        ("within", plan.describe()),
        *([] if plan.where is None else [("where", str(plan.where))]),
        ("state", _join_state(plan)),
        ("left kept", retention_of(plan, LEFT)),
        ("right kept", retention_of(plan, RIGHT) + forgets(plan.forget_after)),
        ("limit", f"{plan.max_matches:,} pairs in one bundle"),
        *_losses(
            "pairs with a row that was no longer stored; late rows go to the late output"
            if any(retention.by == edge for edge, retention in enumerate(plan.retention))
            else "nothing: rows too late go to the late output, unusable ones to the dead letters"
        ),
    ]


def _join_state(plan: JoinPlan) -> str:
    if plan.last is not None:
        return "messages by equal fields + offset"
    if plan.slice is None:
        return "messages by equal fields + time + offset, found by equal fields: a bound is open"
    return (
        f"messages by equal fields + time + offset, found by equal fields and slices of {format_duration(plan.slice)}"
    )


def _process_facts(plan: ProcessPlan) -> Facts:
    columns = ", ".join(f"{name}: {dtype}" for name, dtype in plan.state.items())
    python = "runs Python for each row" if plan.row_by_row else "runs Python for each bundle, on columns"
    late = "passed to the processor, marked as late" if plan.late == "process" else "sent to the late output"
    return [
        ("processor", f"{plan.name} ({python})"),
        ("state", f"one row per key: {columns}" if columns else "none but timers"),
        ("timers", "on event time and the batch clock" if plan.has_clock_timers else "on event time"),
        ("gives", ", ".join(f"{name}: {dtype}" for name, dtype in plan.output.items())),
        *([("retractions", "come to the processor, as rows with diff = -1")] if plan.processor.retractions else []),
        ("late rows", late),
        ("rows that fail", "go to the dead letters" if plan.on_error == "dead" else "stop the query"),
        *_losses("nothing: unusable rows go to the dead letters"),
    ]


def _window_facts(plan: Plan) -> Facts:
    assert isinstance(plan, WindowPlan)
    return [
        *_dropped_watermark_keys(plan),
        ("windows", plan.window.describe()),
        ("trigger", plan.trigger.describe()),
        ("lateness", _lateness(plan)),
        *([] if plan.limits is None else [("state limits", plan.limits.describe())]),
        ("panes", _panes(plan)),
        *([("pane time", f"the {plan.output_time} time of its rows")] if plan.output_time != "end" else []),
        *([] if plan.sides is None else [("gives", plan.sides.describe())]),
        *(_aggregates(plan) if plan.sides is None or plan.sides.merged else []),
        ("state", _LAYOUTS[plan.layout] + ("; receives rows instead of partial aggregates" if plan.ships_rows else "")),
        *_losses(_window_losses(plan)),
    ]


def _dropped_watermark_keys(plan: WindowPlan) -> Facts:
    key = plan.watermark.options.watermark_key
    if not key and all(source.watermark_key == key for source in plan.edges):
        return []
    return [("keys", f"event time follows watermark key {key}; windows do not forward watermarks of other keys")]


def _panes(plan: WindowPlan) -> str:
    cut_anew = isinstance(plan.window, Sessions) and plan.window.max_duration
    if fires_once(plan.trigger, plan.allowed_lateness) and plan.row_grain == "windows" and not cut_anew:
        return "one per window, when it is complete" + (" or closed" if plan.bounded else "")
    return _MODES[plan.mode] + ("; only when the value changed" if plan.skip_unchanged else "")


def _lateness(plan: WindowPlan) -> str:
    if not plan.allowed_lateness:
        return "none"
    if plan.window.axis == "time":
        return format_duration(plan.allowed_lateness)
    return f"{plan.allowed_lateness} rows of the origin"


def _inputs(plan: Plan) -> Facts:
    if not plan.inputs:
        return [("watermark", plan.watermark.describe())]
    keys = {source.name: source.watermark_key for source in plan.inputs}
    lines = _under("inputs", (source.describe() for source in plan.inputs))
    return lines + [("warning", _stalled_watermark(plan, keys))] * (len(set(keys.values())) > 1)


def _without_watermark(plan: Plan) -> Facts:
    """What is stored until the stream ends, because it is declared that there is no watermark."""
    lines = []
    for source in plan.edges:
        rule = source.watermark.generator
        if not isinstance(rule, NoWatermark) or not rule.stated:
            continue
        stored = ["windows are never complete"] if isinstance(plan, WindowPlan) and plan.window.axis == "time" else []
        stored += ["ids of .deduplicate() never expire"] if source.watermark.options.ids else []
        name = f"{source.name}: " if plan.inputs else ""
        lines += [("warning", f"{name}without a watermark, {line} before the stream ends") for line in stored]
    return lines


def _stalled_watermark(plan: Plan, keys: Mapping[str, int]) -> str:
    key = plan.watermark.options.watermark_key
    others = ", ".join(repr(name) for name, other in keys.items() if other != key)
    return (
        f"event time follows watermark key {key}, which {others} does not have: it stalls while {others} is active. "
        "Use the same watermark_key for inputs whose times are comparable."
    )


def _calls(plan: Plan) -> Facts:
    single = len(plan.edges) == 1
    calls = [(source.name, call.describe()) for source in plan.edges for call in source.calls]
    return _under("calls", (line if single else f"{name}: {line}" for name, line in calls))


def _aggregates(plan: WindowPlan) -> Facts:
    lines = []
    for name, aggregate in plan.aggregates.items():
        traits = [
            "merges" if aggregate.mergeable else "does not merge",
            *(["inverts"] if aggregate.invertible else []),
            *(["keeps the rows"] if aggregate.needs_rows else []),
            *(["runs Python for each row"] if aggregate.python else []),
        ]
        lines.append(f"{name} = {aggregate} ({', '.join(traits)})")
    return _under("aggregates", lines)


def _window_losses(plan: WindowPlan) -> str:
    finish = plan.trigger.finish()
    if finish is Finish.ANY_TIME or (finish is Finish.AT_END and plan.allowed_lateness):
        return "rows that arrive after the trigger has finished are not emitted (accepted by may_lose_data)"
    dead = "unusable ones and those of closed windows" if plan.bounded else "unusable ones"
    if isinstance(plan.window, Sliding) and plan.window.every > plan.window.size:
        dead = f"those between two windows, {dead}"
    return f"nothing: rows too late go to the late output, {dead} to the dead letters"


def _losses(elsewhere: str) -> Facts:
    """What may be lost: ``elsewhere`` on the hosts that keep all outputs."""
    return [("may be lost", elsewhere), ("", _TRANSFORM)]


def _under(name: str, lines: Iterable[str]) -> Facts:
    return [("" if place else name, line) for place, line in enumerate(lines)]
