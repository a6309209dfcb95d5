"""Messages about triggers and accumulation."""

from __future__ import annotations

from eventide.errors.kinds import PlanError
from eventide.errors.values import shown


def not_a_count(n: object) -> PlanError:
    """A count that is no positive integer."""
    return PlanError(f"after_count({shown(n)}): the number of rows must be an integer of at least 1.")


def not_a_trigger(where: str, value: object) -> PlanError:
    """Something that is no trigger was given."""
    hint = f" Call it: {value.__name__}(…)." if callable(value) and hasattr(value, "__name__") else ""
    return PlanError(
        f"{where} needs a trigger such as ev.after_watermark() or ev.every('10 seconds'), not {shown(value)}.{hint}"
    )


def too_few_triggers(where: str, least: int, got: int) -> PlanError:
    """A combinator with too little to combine."""
    return PlanError(f"{where} needs at least {least} triggers, got {got}.")


def may_lose_data(trigger: str, lateness: str, *, at_end: bool) -> PlanError:
    """The trigger finishes while rows may still come."""
    if at_end:
        why = f"it stops at the end of the window, but lateness is {lateness}: late rows would never be emitted"
        mend = "Add late=ev.on_update() to after_watermark(), or drop .lateness()"
    else:
        why = "it can stop before the window is complete: rows that come afterwards would never be emitted"
        mend = "Wrap it in ev.repeatedly(…), or use it as early= of ev.after_watermark()"
    return PlanError(
        f"The trigger '{trigger}' may lose data: {why}. {mend}. To accept it, say .trigger(…, may_lose_data=True)."
    )


def offset_unaligned() -> PlanError:
    """An offset of periods that begin with a row."""
    return PlanError(
        "every(offset=…): the offset moves the full periods of the clock. Add aligned=True, or leave the offset out."
    )
