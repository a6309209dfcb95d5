"""Messages that several modules of this package raise."""

from __future__ import annotations

from eventide.errors import PlanError, shown


def not_a_row_count(name: str, value: object) -> PlanError:
    """A row count that is no positive integer."""
    return PlanError(
        f"{name}={shown(value)} is not a number of rows: it must be an integer of at least 1. "
        "For windows in time use tumbling() or sliding()."
    )
