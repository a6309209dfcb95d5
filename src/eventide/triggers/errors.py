"""Messages that several modules of this package raise."""

from __future__ import annotations

from eventide.errors import PlanError, shown


def not_a_trigger(where: str, value: object) -> PlanError:
    """Something that is no trigger was given."""
    hint = f" Call it: {value.__name__}(…)." if callable(value) and hasattr(value, "__name__") else ""
    return PlanError(
        f"{where} needs a trigger such as ev.after_watermark() or ev.every('10 seconds'), not {shown(value)}.{hint}"
    )
