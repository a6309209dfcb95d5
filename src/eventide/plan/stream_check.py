"""The check of a plan that is applied to a stream: without a watermark, most plans would never emit anything."""

from __future__ import annotations

from typing import Any

from eventide.errors import plan as errors
from eventide.plan.join_plan import JoinPlan
from eventide.plan.plan import Input, Plan
from eventide.triggers import AfterWatermark, InOrder, Never, Parallel, Repeatedly, Trigger
from eventide.watermarks.rules import NoWatermark


def check_watermarks(plan: Any) -> None:
    """Reject a plan that waits for the watermark of an input that names none.

    ``ev.no_watermark()`` is accepted: it states that there is no watermark. Tables need none, because they end.
    """
    for edge, source in enumerate(plan.edges):
        rule = source.watermark.rule
        if isinstance(rule, NoWatermark) and not rule.stated and _waits_for(plan, edge):
            raise errors.no_watermark_on_stream(_label(plan, source))


def emits_without_watermark(trigger: Trigger) -> bool:
    """Whether a trigger emits panes although no window is ever complete.

    >>> import eventide as ev
    >>> emits_without_watermark(ev.after_watermark()), emits_without_watermark(ev.after_watermark(early=ev.on_update()))
    (False, True)
    """
    match trigger:
        case AfterWatermark():
            return trigger.early is not None and emits_without_watermark(trigger.early)
        case Repeatedly():
            return emits_without_watermark(trigger.inner)
        case Parallel():
            emits = [emits_without_watermark(part) for part in trigger.triggers]
            return all(emits) if trigger.need_all else any(emits)
        case InOrder():
            return emits_without_watermark(trigger.triggers[0])
        case Never():
            return False
    return True


def _waits_for(plan: Any, edge: int) -> bool:
    if isinstance(plan, JoinPlan):  # rows of a side are dropped by a watermark, and outer rows are padded then
        return any(side.by == edge and side.length is not None for side in plan.kept)
    if isinstance(plan, Plan):
        return plan.window.axis == "time" and not emits_without_watermark(plan.trigger)
    return False  # a processor emits what it likes


def _label(plan: Any, source: Input) -> str:
    return f"The input {source.name!r}" if plan.inputs else "The stream"
