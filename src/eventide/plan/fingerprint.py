"""The fingerprint of a plan: the parts that stored state depends on, each as text.

Equal plans have equal fingerprints in every process. Names and texts are written out here and in
``plan/fingerprint_parts.py``; they are stored with the state and must not change.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from eventide._column_refs import expression_text, in_unit
from eventide.plan.fingerprint_parts import aggregate_text, call, span, strategy_text, trigger_text, value, window_text
from eventide.plan.join_plan import LEFT, RIGHT, JoinPlan
from eventide.plan.plan import IngestionTime, Input, Plan, Sides
from eventide.plan.process_plan import ProcessPlan
from eventide.plan.window_plan import StateLimits, WindowPlan
from eventide.time import format_duration

_LIMIT = re.compile(r"(rows|bytes)=(\d+)")
_ROWS = " rows"  # behind the lateness of windows that are counted in rows


def fingerprint(plan: Plan) -> dict[str, str]:
    """Return the parts of a plan that stored state depends on, by name.

    Calls of ``map_async`` and ``applies_diff`` are left out: they only change the rows that arrive.

    >>> import eventide as ev
    >>> minutes = ev.stream(time="ts", key="shop").window(ev.tumbling("1 minute")).agg(n=ev.count())
    >>> fingerprint(minutes.plan)["window"]
    'tumbling(1m)'
    """
    if isinstance(plan, JoinPlan):
        return _join(plan)
    if isinstance(plan, ProcessPlan):
        return _process(plan)
    assert isinstance(plan, WindowPlan)
    return _windows(plan)


def stored_limits(parts: Mapping[str, str]) -> StateLimits | None:
    """Return the state limits of a fingerprint; None if the plan has none.

    >>> stored_limits({"state limits": "limit_state(rows=10)"})
    StateLimits(rows=10, bytes=None)
    """
    if "state limits" not in parts:
        return None
    return StateLimits(**{name: int(number) for name, number in _LIMIT.findall(parts["state limits"])})


def counts_rows(parts: Mapping[str, str]) -> bool:
    """Return whether a fingerprint is of a plan whose windows are counted in rows."""
    return parts.get("lateness", "").endswith(_ROWS)


def _windows(plan: WindowPlan) -> dict[str, str]:
    lateness = plan.allowed_lateness
    parts = {
        **_stream(plan),
        "window": window_text(plan.window),
        "trigger": trigger_text(plan.trigger),
        "lateness": format_duration(lateness) if plan.window.axis == "time" else f"{lateness}{_ROWS}",
        "mode": plan.mode,
        "panes only when the value changed": "yes" if plan.skip_unchanged else "no",
        "pane time": plan.output_time,
    }
    if plan.sides is not None:
        parts |= {"rows of the inputs": _sides(plan.sides), "suffix": plan.sides.suffix}
    if plan.limits is not None:
        parts["state limits"] = call("limit_state", rows=value(plan.limits.rows), bytes=value(plan.limits.bytes))
    return parts | {f"aggregate {name}": aggregate_text(part) for name, part in plan.aggregates.items()}


def _join(plan: JoinPlan) -> dict[str, str]:
    """``max_matches`` and ``forget_after`` are left out: they may change between two starts."""
    parts = {
        **_inputs(plan.inputs),
        "key": ", ".join(plan.key),
        "join": plan.how,
        "within": _within(plan),
        "left rows stay": _retention(plan, LEFT),
        "right rows stay": _retention(plan, RIGHT),
        "suffix": plan.suffix,
    }
    return parts if plan.where is None else parts | {"where condition": expression_text(plan.where)}


def _within(plan: JoinPlan) -> str:
    if plan.last is not None:
        return f"last {plan.last} right rows"
    return f"{span(plan.lo) or 'any'} to {span(plan.hi) or 'any'}"


def _retention(plan: JoinPlan, side: int) -> str:
    retention = plan.retention[side]
    if retention.length is None:
        return "until the stream ends" if plan.last is None else f"last {plan.last} rows"
    return f"{format_duration(retention.length)} behind the watermark of {plan.inputs[retention.by].name}"


def _process(plan: ProcessPlan) -> dict[str, str]:
    """The code, the fields and the output of a processor may change between two starts, and what it does on errors."""
    columns = ", ".join(f"{name}: {dtype}" for name, dtype in plan.state.items())
    return {**_stream(plan), "processor": plan.name, "state": columns or "none"}


def _stream(plan: Plan) -> dict[str, str]:
    return {
        "time": _time(plan.time),
        "key": ", ".join(plan.key),
        "watermark": strategy_text(plan.watermark),
        **_inputs(plan.inputs),
    }


def _inputs(inputs: tuple[Input, ...]) -> dict[str, str]:
    return {
        f"input {stream.name}": call(
            "stream", time=_time(stream.time), key=value(stream.key), watermark=strategy_text(stream.watermark)
        )
        for stream in inputs
    }


def _time(time: str | IngestionTime) -> str:
    return "the time of the batch" if isinstance(time, IngestionTime) else time + in_unit(time)


def _sides(sides: Sides) -> str:
    if sides.merged:
        return "merged"
    return "groups" if sides.how is None else f"pairs of the {sides.how} join"
