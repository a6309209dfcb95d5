"""The emission of a window in one line, as the call that sets it."""

from __future__ import annotations

from eventide.plan.plan import Mode
from eventide.time import format_duration
from eventide.triggers import AfterProcessingTime, AfterWatermark, Repeatedly, Trigger, on_update


def emission_text(
    trigger: Trigger, allowed_lateness: int, mode: Mode | None, *, by_row: bool = False, skip_unchanged: bool = False
) -> str:
    """Return the call of ``.emit`` or ``.trigger``; or an empty text for one pane per window. None is the default mode.

    >>> import eventide as ev
    >>> emission_text(ev.after_watermark(early=ev.every("10 seconds")), 3_600_000_000, "discarding")
    "emit(early='10s', allowed_lateness='1h', mode='discarding')"
    >>> emission_text(ev.on_update(), 0, None), emission_text(ev.after_watermark(), 0, None)
    ('trigger(each time rows join)', '')
    """
    options: dict[str, str] = {}
    call = "emit" if isinstance(trigger, AfterWatermark) else "trigger"
    if isinstance(trigger, AfterWatermark):
        if trigger.early is not None:
            options["early"] = _when(trigger.early)
        if allowed_lateness:
            options["allowed_lateness"] = _lateness(allowed_lateness, by_row=by_row)
        if trigger.late is not None and trigger.late != on_update():
            options["late"] = _when(trigger.late)
    else:
        options[""] = trigger.describe()
        if allowed_lateness:
            options["allowed_lateness"] = _lateness(allowed_lateness, by_row=by_row)
    if mode is not None:
        options["mode"] = repr(mode)
    if skip_unchanged:
        options["skip_unchanged"] = "True"
    named = ", ".join(f"{name}={text}" if name else text for name, text in options.items())
    return f"{call}({named})" if options else ""


def _lateness(allowed: int, *, by_row: bool) -> str:
    return str(allowed) if by_row else repr(format_duration(allowed))


def _when(trigger: Trigger) -> str:
    """An interval as ``.emit`` takes it, or the description of the trigger."""
    match trigger:
        case Repeatedly(AfterProcessingTime(delay, aligned=False)):
            return repr(format_duration(delay))
    return trigger.describe()
