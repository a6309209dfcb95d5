"""An interval join in words."""

from __future__ import annotations

from eventide.plan.join_plan import LEFT, RIGHT, JoinPlan
from eventide.plan.losses import losses
from eventide.time import format_duration

_GIVES = {
    "inner": "pairs",
    "left": "pairs, and each left row that has no partner once none can come",
    "right": "pairs, and each right row that has no partner once none can come",
    "full": "pairs, and each row of either side that has no partner once none can come",
}


def join_facts(plan: JoinPlan) -> list[tuple[str, str]]:
    """One fact a line."""
    left, right = plan.inputs
    equal = ", ".join(f"left.{ours} = right.{theirs}" for ours, theirs in zip(left.key, right.key, strict=True))
    return [
        ("join", f"{plan.how}: {_GIVES[plan.how]}"),
        *(("" if i else "inputs", one.describe()) for i, one in enumerate(plan.inputs)),
        ("equal", equal),
        ("within", plan.describe()),
        *([] if plan.where is None else [("where", str(plan.where))]),
        ("state", _message_key(plan)),
        ("left kept", retention_of(plan, LEFT)),
        ("right kept", retention_of(plan, RIGHT)),
        ("limit", f"{plan.max_matches:,} pairs in one bundle"),
        *losses(_losses(plan)),
    ]


def _message_key(plan: JoinPlan) -> str:
    if plan.last is not None:
        return "messages by equal fields + offset"
    if plan.slice is None:
        return "messages by equal fields + time + offset, found by equal fields: a bound is open"
    return (
        f"messages by equal fields + time + offset, found by equal fields and slices of {format_duration(plan.slice)}"
    )


def retention_of(plan: JoinPlan, edge: int) -> str:
    """How long rows of one side are kept, in words."""
    kept = plan.kept[edge]
    if kept.length is None:
        return f"the last {plan.last} rows of each key"
    own, by = plan.inputs[edge].name, plan.inputs[kept.by].name
    if plan.inputs[kept.by].watermark.rule.name == "no_watermark":
        return f"until the streams end: the {by} stream has no watermark"
    if kept.by == edge:
        return f"{format_duration(kept.length)} behind the {own} watermark (retain)"
    sign = "-" if kept.length < 0 else "+"
    return f"until the {by} watermark is past {own}.time {sign} {format_duration(abs(kept.length))}"


def _losses(plan: JoinPlan) -> str:
    if any(kept.by == edge for edge, kept in enumerate(plan.kept)):
        return "pairs with a row that was no longer retained; late rows go to the late output"
    return "nothing: rows too late go to the late output, unusable ones to the dead letters"
