"""The emission of a window: trigger, allowed lateness and mode, as ``.emit``, ``.trigger`` and joins take them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias, get_args

from eventide._arguments import MAX_SPAN, check_flags, is_integer
from eventide.errors import PlanError, did_you_mean, shown
from eventide.plan.emission_text import emission_text
from eventide.plan.errors import too_long
from eventide.plan.plan import Mode, Window
from eventide.plan.window_plan import fires_once
from eventide.time import duration, format_duration
from eventide.triggers import Finish, Trigger, after_watermark, every, on_update
from eventide.triggers.trigger import not_a_trigger
from eventide.windows import Axis
from eventide.windows.rows import not_a_row_count

When: TypeAlias = str | timedelta | Trigger
AllowedLateness: TypeAlias = str | timedelta | int

_COMPLETE = after_watermark()


@dataclass(frozen=True)
class Emission:
    """When panes are emitted, and how they relate; by default one pane when the window is complete."""

    trigger: Trigger = _COMPLETE
    allowed_lateness: int = 0
    unit: Axis | None = None  # of the allowed lateness; None: not set
    mode: Mode | None = None
    skip_unchanged: bool = False
    may_lose_data: bool = False

    def mode_or_default(self) -> Mode:
        """Return the mode. Where none is named, the diffs of all panes always sum to the table."""
        if self.mode is not None:
            return self.mode
        return "accumulating" if fires_once(self.trigger, self.allowed_lateness) else "retracting"

    def describe(self) -> str:
        """The call that sets it; an empty text for one pane per window.

        >>> emission(".emit()", early="10 seconds", allowed_lateness=100).describe()
        "emit(early='10s', allowed_lateness=100)"
        """
        return emission_text(
            self.trigger,
            self.allowed_lateness,
            self.mode,
            by_row=self.unit == "rows",
            skip_unchanged=self.skip_unchanged,
        )

    def check(self, window: Window) -> None:
        """Reject an allowed lateness on another axis than the windows, and a trigger that may lose rows."""
        if window.axis == "rows" and getattr(window, "by", None) is None:
            if self.allowed_lateness:
                raise PlanError(
                    "allowed_lateness= has no meaning for windows counted in rows: rows are counted as they arrive, "
                    "and none is late. Remove it, or window by offset: ev.rows(…, by='offset')."
                )
        elif self.unit is not None and self.unit != window.axis:
            raise _lateness_on_other_axis(window, rows=self.unit == "rows")
        finish = self.trigger.finish()
        loses = finish is Finish.ANY_TIME or (finish is Finish.AT_END and self.allowed_lateness > 0)
        if loses and not self.may_lose_data:
            by_row = self.unit == "rows"
            lateness = f"{self.allowed_lateness} rows" if by_row else format_duration(self.allowed_lateness)
            raise _may_lose_data(self.trigger, lateness, at_end=finish is Finish.AT_END)


def emission(
    where: str,
    *,
    trigger: Trigger | None = None,
    early: When | None = None,
    late: When | None = None,
    allowed_lateness: AllowedLateness | None = None,
    mode: Mode | None = None,
    skip_unchanged: bool = False,
    may_lose_data: bool = False,
) -> Emission:
    """Return the checked emission of a call such as ``.emit()``: either a trigger, or early and late panes.

    >>> emission(".emit()", early="10 seconds", allowed_lateness="1 hour").trigger.describe()
    'when the watermark passes the end; early: repeatedly (10s of ...); late: each time rows join'
    """
    check_flags(where, skip_unchanged=skip_unchanged, may_lose_data=may_lose_data)
    lateness, unit = _lateness(where, allowed_lateness)
    if mode is not None and mode not in get_args(Mode):
        raise PlanError(f"{where}: mode={shown(mode)} is not known. {did_you_mean(str(mode).lower(), get_args(Mode))}")
    if trigger is None:
        if late is not None and allowed_lateness is None:
            raise PlanError(
                f"{where}: late=… emits panes for late rows, but no row may be late. "
                "Add allowed_lateness='1 hour', or remove late=."
            )
        last = on_update() if late is None and lateness else _trigger(where, "late", late)
        trigger = after_watermark(early=_trigger(where, "early", early), late=last)
    elif early is not None or late is not None:
        raise PlanError(
            f"{where}: trigger= replaces early= and late=. Remove them, or use "
            "trigger=ev.after_watermark(early=…, late=…)."
        )
    elif not hasattr(trigger, "compile"):
        raise not_a_trigger(where, trigger)
    return Emission(trigger, lateness, unit, mode, skip_unchanged, may_lose_data)


def _lateness(where: str, value: Any) -> tuple[int, Axis | None]:
    """The allowed lateness and its axis. An integer counts rows: a duration always has a unit."""
    if value is None:
        return 0, None
    if is_integer(value):
        if not 0 <= value <= MAX_SPAN:
            raise not_a_row_count("allowed_lateness", value)
        return value, "rows"
    length = duration(value, what=f"allowed_lateness of {where}", zero=True)
    if length > MAX_SPAN:
        raise too_long(f"allowed_lateness of {where}", length)
    return length, "time"


def _trigger(where: str, name: str, when: When | None) -> Trigger | None:
    if when is None:
        return None
    if isinstance(when, (str, timedelta, int, float)):
        duration(when, what=f"{name} of {where}")  # names the argument in the message
        return every(when)
    if not hasattr(when, "compile"):
        raise not_a_trigger(f"{where.removesuffix('()')}({name}=…)", when)
    return when


def _lateness_on_other_axis(window: Window, *, rows: bool) -> PlanError:
    fix = "allowed_lateness='1 hour'" if rows else "allowed_lateness=100, a number of rows"
    return PlanError(
        f"The allowed lateness is given in {'rows' if rows else 'time'}, but the windows ({window.describe()}) are "
        f"not. Use {fix}."
    )


def _may_lose_data(trigger: Trigger, lateness: str, *, at_end: bool) -> PlanError:
    """The trigger finishes while rows may still arrive."""
    if at_end:
        why = f"it finishes at the end of the window, but rows may be {lateness} late: late rows would never be emitted"
        fix = "Add late=ev.on_update() to after_watermark(), or remove allowed_lateness="
    else:
        why = "it can finish before the window is complete: rows that arrive afterwards would never be emitted"
        fix = "Wrap it in ev.repeatedly(…), or use it as early= of ev.after_watermark()"
    return PlanError(
        f"The trigger '{trigger.describe()}' may lose data: {why}. {fix}. "
        "To accept it, use .trigger(…, may_lose_data=True)."
    )
