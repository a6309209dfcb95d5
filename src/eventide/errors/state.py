"""Messages about state that was saved."""

from __future__ import annotations

from collections.abc import Mapping

from eventide.errors.kinds import DataError, PlanError


def not_a_snapshot() -> DataError:
    """Bytes of another kind."""
    return DataError("These bytes are not a state that Eventide saved. Give what query.save() returned, unchanged.")


def unknown_format(found: int, known: int) -> DataError:
    """A snapshot of another version."""
    return DataError(
        f"The saved state has format {found}, but this version of Eventide reads format {known}. "
        "Use the version that saved it, or start anew."
    )


def cut_off(expected: int, found: int) -> DataError:
    """A snapshot that lost its tail, or gained one."""
    return DataError(f"The saved state is damaged: it should have {expected} bytes and has {found}.")


def plan_changed(differences: Mapping[str, tuple[object, object]]) -> PlanError:
    """The snapshot belongs to another plan."""
    told = {n: pair for n, pair in differences.items() if n.removesuffix(" in full") == n or n[:-8] not in differences}
    if len(told) > 1:
        told.pop("accumulators", None)
    lines = "".join(f"\n  {name}: was {was!r}, is {now!r}" for name, (was, now) in told.items())
    return PlanError(
        f"The saved state belongs to another plan:{lines}\n"
        "State cannot follow such a change. Open with the old plan and drain it, or start anew."
    )
