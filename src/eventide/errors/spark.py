"""Messages about Spark and its DataFrames."""

from __future__ import annotations

from collections.abc import Sequence

from eventide.errors.kinds import PlanError


def duplicate_columns(names: Sequence[str]) -> PlanError:
    """Two columns of one name."""
    return PlanError(f"The DataFrame has more than one column {names[0]!r}. Rename one of them before the pipeline.")


def cannot_travel(name: str, dtype: str) -> PlanError:
    """A type that does not go through Arrow."""
    return PlanError(
        f"The column {name!r} has the type {dtype}, which cannot be sent to Python. "
        "Cast it, or drop it before the pipeline."
    )
