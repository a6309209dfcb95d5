"""Messages about state that was saved."""

from __future__ import annotations

from collections.abc import Mapping

from eventide.errors.kinds import DataError, PlanError


def not_a_snapshot() -> DataError:
    """Bytes of another kind."""
    return DataError("These bytes are not a state that Eventide saved. Give what query.save() returned, unchanged.")


def unknown_format(found: int, *known: int) -> DataError:
    """A snapshot of another version."""
    read = f"format{'s' if len(known) > 1 else ''} {' and '.join(map(str, known))}"
    return DataError(
        f"The saved state has format {found}, but this version of Eventide reads {read}. "
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


def not_a_head() -> DataError:
    """A state that was saved whole, where the head of one in pages is wanted."""
    return DataError("These bytes are a state that was saved whole, not the head of one in pages. Use load() for them.")


def not_whole() -> DataError:
    """The head of a state in pages, where a whole one is wanted."""
    return DataError("These bytes are the head of a state in pages, and not the state. Use read(), with the pages.")


def calls_changed(*, added: bool) -> PlanError:
    """The saved state has calls in front of it and the plan has not, or the other way round."""
    what = "without .map_async, and this plan has it" if added else "with .map_async, and this plan has none"
    return PlanError(
        f"The saved state belongs to another plan: it was saved {what}. Calls cannot be "
        f"{'added' if added else 'removed'} under a state. Open with the old plan and drain it, or start anew."
    )


def missing_page(number: int) -> DataError:
    """The head names a page that the store does not have."""
    return DataError(
        f"Page {number} of the state is missing: the head names it, but the store has no such page. "
        "Go back to a checkpoint that has both, or start anew."
    )


def another_page(number: int) -> DataError:
    """The store has other bytes under the number of a page."""
    return DataError(
        f"Page {number} of the state is not the one that was written: its check sum differs. "
        "Head and pages must come from the same checkpoint."
    )


def no_pages_open(number: int) -> DataError:
    """A page is wanted outside of the time for which the host lent its store."""
    return DataError(
        f"Page {number} of the state is needed, but no store is open. Run the step inside `with ledger.open(pages):`."
    )


def another_ledger() -> DataError:
    """The ledger does not describe what the state came from."""
    return DataError(
        "The ledger belongs to another state. Give the one that came with the state that this bundle began with."
    )
