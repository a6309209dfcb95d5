"""A plan in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eventide.plan.explain_join import join_facts
from eventide.plan.join_plan import JoinPlan
from eventide.plan.losses import losses
from eventide.plan.plan import IngestionTime, Plan
from eventide.plan.process_plan import ProcessPlan, facts_of
from eventide.time import format_duration
from eventide.triggers import Finish

_MODES = {
    "accumulating": "accumulating: each pane repeats the whole window",
    "discarding": "discarding: each pane has what is new since the last",
    "retracting": "retracting: each pane repeats the whole window, and the one before is retracted first",
}
_LAYOUTS = {
    "cells": "cells: partial aggregates per key and slice; each window fires once",
    "panes": "panes: one row per key and open window, with its trigger",
}


def explain(plan: Plan | JoinPlan | ProcessPlan) -> str:
    """Aligned lines, one fact each."""
    return aligned(facts(plan))


def aligned(facts: Sequence[tuple[str, str]]) -> str:
    """Names and lines below each other. Without a name, a line belongs to the one above."""
    width = max(len(name) for name, _ in facts)
    return "\n".join(f"{name.rjust(width)}  {text}".rstrip() for name, text in facts) + "\n"


def facts(plan: Plan | JoinPlan | ProcessPlan) -> list[tuple[str, str]]:
    """What there is to say of a plan: pairs of a name and a line. Without a name, a line belongs to the one above."""
    return [*join_facts(plan), *_calls(plan)] if isinstance(plan, JoinPlan) else _facts(plan)


def _facts(plan: Plan | ProcessPlan) -> list[tuple[str, str]]:
    return [
        ("time", "the batch's own time" if isinstance(plan.time, IngestionTime) else f"column {plan.time!r}"),
        ("key", ", ".join(map(repr, plan.key)) or "none: one group"),
        *_inputs(plan),
        *_calls(plan),
        *(facts_of(plan) if isinstance(plan, ProcessPlan) else _windowed(plan)),
    ]


def _windowed(plan: Plan) -> list[tuple[str, str]]:
    return [
        *_dropped_keys(plan),
        ("windows", plan.window.describe()),
        ("trigger", plan.trigger.describe()),
        ("lateness", _lateness(plan)),
        *([] if plan.retention is None else [("retention", plan.retention.describe())]),
        ("panes", _MODES[plan.mode] + ("; only when the value changed" if plan.skip_unchanged else "")),
        *([("pane time", f"the {plan.output_time} time of its rows")] if plan.output_time != "end" else []),
        *([] if plan.sides is None else [("gives", plan.sides.describe())]),
        *(_aggregates(plan) if plan.sides is None or plan.sides.merged else []),
        ("state", _LAYOUTS[plan.layout] + ("; rows come to it one by one" if plan.ships_rows else "")),
        *losses(_losses(plan)),
    ]


def _dropped_keys(plan: Plan) -> list[tuple[str, str]]:
    """What becomes of other watermark keys, where a plan has one that was chosen."""
    own = plan.watermark.options.watermark_key
    if not own and all(one.watermark.options.watermark_key == own for one in plan.edges):
        return []
    return [("keys", f"time goes by watermark key {own}; watermarks of other keys end at the windows")]


def _calls(plan: Any) -> list[tuple[str, str]]:
    told = [
        call.describe() if len(plan.edges) == 1 else f"{one.name}: {call.describe()}"
        for one in plan.edges
        for call in one.calls
    ]
    return [("" if i else "calls", line) for i, line in enumerate(told)]


def _lateness(plan: Plan) -> str:
    if not plan.lateness:
        return "none"
    return format_duration(plan.lateness) if plan.window.axis == "time" else f"{plan.lateness} rows of the origin"


def _inputs(plan: Any) -> list[tuple[str, str]]:
    if not plan.inputs:
        return [("watermark", plan.watermark.describe())]
    keys = {one.name: one.watermark.options.watermark_key for one in plan.inputs}
    told = [("" if i else "inputs", one.describe()) for i, one in enumerate(plan.inputs)]
    return told + [("warning", _lonely(plan, keys))] * (len(set(keys.values())) > 1)


def _lonely(plan: Any, keys: Mapping[str, int]) -> str:
    own = plan.watermark.options.watermark_key
    others = ", ".join(repr(name) for name, key in keys.items() if key != own)
    return (
        f"time goes by watermark key {own}, which {others} does not have: it stands still while {others} is active. "
        "Give inputs the same watermark_key if their times mean the same."
    )


def _aggregates(plan: Plan) -> list[tuple[str, str]]:
    lines = []
    for i, (name, aggregate) in enumerate(plan.aggregates.items()):
        traits = [
            "merges" if aggregate.mergeable else "does not merge",
            *(["inverts"] if aggregate.invertible else []),
            *(["keeps the rows"] if aggregate.needs_rows else []),
            *(["runs Python for each row"] if aggregate.python else []),
        ]
        lines.append(("" if i else "aggregates", f"{name} = {aggregate} ({', '.join(traits)})"))
    return lines


def _losses(plan: Plan) -> str:
    finish = plan.trigger.finish()
    if finish is Finish.ANY_TIME or (finish is Finish.AT_END and plan.lateness):
        return "rows that arrive after the trigger has finished are not emitted (accepted by may_lose_data)"
    dead = "unusable ones" if plan.retention is None else "unusable ones and those out of retention"
    if plan.late_is_out_of_retention:
        return f"nothing: {dead} go to the dead letters"
    return f"nothing: rows too late go to the late output, {dead} to the dead letters"
