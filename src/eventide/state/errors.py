"""Errors that several modules raise about stored state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eventide.errors import DataError, PlanError

PLACEMENTS = {"driver": "in the driver", "executors": "on the executors"}

_MAX_SHOWN = 200  # characters of a part of a plan


def plan_changed(changes: Sequence[str], *, where: str = "saved state", delivered: int | None = None) -> PlanError:
    """The state belongs to another plan. ``delivered`` is a pending batch that was delivered before."""
    lines = "".join(f"\n  {line}" for line in changes)
    pending = "" if delivered is None else f"\nThe outputs of batch {delivered}, which were pending, were delivered."
    return PlanError(
        f"The {where} belongs to another pipeline:{lines}\n"
        "Its state cannot be used with the new one. Run the old pipeline and drain it, or use a new checkpoint."
        f"{pending}"
    )


def plan_changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return a sentence for each part of a plan that differs. Consequences of a listed change are left out.

    >>> plan_changes({"window": "tumbling(1m)"}, {"window": "tumbling(5m)", "aggregate total": "sum(price)"})
    ['the window changed from tumbling(1m) to tumbling(5m)', 'the aggregate total was added: sum(price)']
    """
    changed = [name for name in dict.fromkeys([*before, *after]) if before.get(name) != after.get(name)]
    causes = [name for name in changed if not name.startswith("stored ")]
    return [_change(name, before.get(name), after.get(name)) for name in causes or changed]


def _change(name: str, before: str | None, after: str | None) -> str:
    if before is None:
        return f"the {name} was added: {_short(after)}"
    if after is None:
        return f"the {name} was removed: {_short(before)}"
    return f"the {name} changed from {_short(before)} to {_short(after)}"


def _short(text: str | None) -> str:
    text = text or "none"
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def other_buckets(stored: int, configured: int) -> PlanError:
    """The state is divided into another number of buckets."""
    return PlanError(
        f"The state of this checkpoint has {stored} buckets, and the pipeline was applied with {configured}. "
        f'Apply it after spark.conf.set("spark.eventide.buckets", "{stored}"), or rescale the stopped query: '
        f"eventide rescale CHECKPOINT --buckets {configured}"
    )


def not_a_header() -> DataError:
    """A state that was saved whole is read as the header of a state in pages."""
    return DataError("These bytes are a state that was saved whole, not the header of a state in pages. Use load().")


def not_whole() -> DataError:
    """The header of a state in pages is loaded as a whole state."""
    return DataError("These bytes are the header of a state in pages, not a whole state. Use read(), with the pages.")


def calls_changed(*, added: bool) -> PlanError:
    """``map_async`` was added to the plan or removed from it."""
    difference = "without .map_async, and this plan has it" if added else "with .map_async, and this plan has none"
    return PlanError(
        f"The saved state belongs to another pipeline: it was saved {difference}. "
        "Its state cannot be used with the new one. Run the old pipeline and drain it, or use a new checkpoint."
    )


def spanning_changed(*, added: bool) -> PlanError:
    """``across_bundles=True`` was added to the plan or removed from it."""
    difference = "without across_bundles=True, and this plan has it" if added else "with it, and this plan is without"
    return PlanError(
        f"map_async(across_bundles=True): the state was saved {difference}. Drain it with the old pipeline, or use a "
        "new checkpoint."
    )


def rescale_target(to: str | None) -> PlanError:
    """The arguments of a rescale name no number of buckets, or one that does not fit the placement."""
    if to == "driver":
        return PlanError("State in the driver has no buckets. Leave out --buckets (buckets=).")
    return PlanError(
        "State on the executors needs the number of buckets, such as one for each core: --buckets 8 (buckets=8). "
        'For state in the driver: --to driver (to="driver").'
    )
