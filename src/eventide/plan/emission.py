"""The arguments of ``.emit(…)``: triggers in short form, and the default of the accumulation mode."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeAlias, get_args

from eventide.errors import plan as errors
from eventide.errors import triggers as trigger_errors
from eventide.plan.plan import Mode, fires_once
from eventide.triggers import Trigger, after_watermark, every, on_update

When: TypeAlias = str | timedelta | Trigger


def emission(early: When | None, late: When | None, *, has_lateness: bool) -> Trigger:
    """Return the trigger of ``.emit(early=…, late=…)``.

    >>> emission("10 seconds", None, has_lateness=True).describe()
    'when the watermark passes the end; early: repeatedly (10s of ...); late: each time rows join'
    """
    if late is not None and not has_lateness:
        raise errors.late_without_lateness()
    last = _trigger("late", late) if late is not None else on_update() if has_lateness else None
    return after_watermark(early=None if early is None else _trigger("early", early), late=last)


def default_mode(trigger: Trigger, lateness: int) -> Mode:
    """Return the mode of a plan that names none: the diffs of all panes always sum to the table."""
    return "accumulating" if fires_once(trigger, lateness) else "retracting"


def check_mode(mode: object) -> None:
    """Reject a mode that does not exist."""
    if mode not in get_args(Mode):
        raise errors.bad_mode(mode, get_args(Mode))


def _trigger(name: str, when: When) -> Trigger:
    if isinstance(when, (str, timedelta)):
        return every(when)
    if not hasattr(when, "compile"):
        raise trigger_errors.not_a_trigger(f".emit({name}=…)", when)
    return when
