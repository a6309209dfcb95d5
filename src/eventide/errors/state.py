"""Messages about state that was saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eventide.errors.kinds import DataError, PlanError

_LONGEST = 200  # characters that are shown of a part


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


def plan_changed(changed: Sequence[str], *, where: str = "saved state", delivered: int | None = None) -> PlanError:
    """The state belongs to another plan, with what has changed. ``delivered`` is a batch that was still pending."""
    lines = "".join(f"\n  {line}" for line in changed)
    pending = "" if delivered is None else f"\nThe outputs of batch {delivered}, which were pending, were delivered."
    return PlanError(
        f"The {where} belongs to another pipeline:{lines}\n"
        "Its state cannot be used with the new one. Run the old pipeline and drain it, or use a new checkpoint."
        f"{pending}"
    )


def changes(was: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The parts of a plan that differ, a sentence each. Consequences of a change that is listed are left out.

    >>> changes({"window": "tumbling 1m"}, {"window": "tumbling 5m", "aggregate total": "sum(price)"})
    ['the window changed from tumbling 1m to tumbling 5m', 'the aggregate total was added: sum(price)']
    """
    changed = [name for name in dict.fromkeys([*was, *now]) if was.get(name) != now.get(name)]
    parts = {name.partition(": ")[0] for name in changed if ": " not in name}
    own = [name for name in changed if ": " not in name or name.partition(": ")[0] not in parts]
    causes = [name for name in own if not name.startswith("stored ")]
    return [_change(name, was.get(name), now.get(name)) for name in causes or own]


def _change(name: str, was: str | None, now: str | None) -> str:
    if was is None:
        return f"the {name} was added: {_short(now)}"
    if now is None:
        return f"the {name} was removed: {_short(was)}"
    return f"the {name} changed from {_short(was)} to {_short(now)}"


def _short(text: str | None) -> str:
    text = text or "none"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def other_buckets(was: int, now: int) -> PlanError:
    """The state is divided into another number of buckets."""
    return PlanError(
        f"The state of this checkpoint has {was} buckets, and the pipeline was applied with {now}. "
        f'Apply it after spark.conf.set("spark.eventide.buckets", "{was}").'
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
        f"The saved state belongs to another pipeline: it was saved {what}. Its state cannot be used with the new one. "
        "Run the old pipeline and drain it, or use a new checkpoint."
    )


def spanning_changed(*, added: bool) -> PlanError:
    """The saved state has calls across bundles and the plan has not, or the other way round."""
    what = "without across_bundles=True, and this plan has it" if added else "with it, and this plan is without"
    return PlanError(
        f"map_async(across_bundles=True): the state was saved {what}. Drain it with the old pipeline, or use a new "
        "checkpoint."
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


_PLACES = {"driver": "in the driver", "executors": "on the executors"}


def placement_changed(checkpoint: str, before: str, now: str) -> PlanError:
    """The state of a checkpoint is elsewhere."""
    buckets = " --buckets N" if now == "executors" else ""
    return PlanError(
        f"The state of the checkpoint {checkpoint!r} is {_PLACES[before]}, and the query starts with state={now!r}. "
        f"Start it with state={before!r}, or move the state: eventide move {checkpoint} --to {now}{buckets}"
    )


def move_buckets(to: str) -> PlanError:
    """A move with a number of buckets that does not fit its target."""
    if to == "executors":
        return PlanError("A move to the executors needs the number of buckets, such as one for each core: --buckets 8")
    return PlanError("State in the driver has no buckets. Leave out --buckets.")


def already_there(checkpoint: str, to: str) -> PlanError:
    """A move to where the state is."""
    return PlanError(f"The state of the checkpoint {checkpoint!r} is {_PLACES[to]} already. Nothing was changed.")


def move_running(checkpoint: str) -> PlanError:
    """A move of a query that is running."""
    return PlanError(f"A query is running on the checkpoint {checkpoint!r}. Stop it, then move its state.")


def remote_move(checkpoint: str) -> PlanError:
    """A move of a checkpoint that is on another file system."""
    return PlanError(
        f"The checkpoint {checkpoint!r} is not on this machine's disk. State is moved only within a checkpoint on disk."
    )


def pending_batch(checkpoint: str, batch: int) -> PlanError:
    """A move while outputs of a batch may not have reached the sinks."""
    return PlanError(
        f"Batch {batch} of the checkpoint {checkpoint!r} is pending: its outputs are recorded, and the sinks have not "
        "confirmed them. Start the query once more with its old placement, which delivers them; then move its state. "
        f"To see them: eventide outputs {checkpoint}"
    )


def remote_outputs(checkpoint: str) -> PlanError:
    """Pending outputs of a checkpoint that is on another file system."""
    return PlanError(f"The checkpoint {checkpoint!r} is not on this machine's disk. Copy it to a disk first.")


def no_records(checkpoint: str) -> PlanError:
    """Pending outputs of a query without commit records."""
    return PlanError(
        f"The checkpoint {checkpoint!r} has no commit records: it is not that of a query with state='driver'. "
        "With state on the executors, Spark computes a batch again that its sinks have not confirmed."
    )


def outputs_of_running(checkpoint: str) -> PlanError:
    """Outputs are discarded while they may be delivered."""
    return PlanError(f"A query is running on the checkpoint {checkpoint!r}. Stop it, then discard its outputs.")


def export_exists(path: str) -> PlanError:
    """An export would replace a file."""
    return PlanError(f"The file {path!r} exists. Name another directory with --export.")


def move_not_verified(checkpoint: str) -> DataError:
    """The state that was written is not the one that was to be written."""
    return DataError(
        f"The moved state of the checkpoint {checkpoint!r} differs from the old one when it is read back. "
        "Nothing was changed: the old state is still in use."
    )


def unknown_offset_log(name: str, version: str) -> DataError:
    """An offset log in another format of Spark."""
    return DataError(f"The offset log {name} has format {version!r}; state is moved with format 'v1' only.")


def damaged_record(name: str, what: str) -> DataError:
    """A commit record whose bytes are not those that were written."""
    return DataError(
        f"The commit record {name} is damaged: {what}. Restore the file from a copy of the checkpoint, "
        "or start a new checkpoint."
    )


def unknown_record(name: str, version: int, known: int) -> DataError:
    """A commit record of a later version."""
    return DataError(f"The commit record {name} has format {version}; this version of Eventide reads format {known}.")


def missing_record(batch: int, place: str) -> DataError:
    """The state before a batch is gone."""
    return DataError(
        f"Batch {batch} needs the commit record of batch {batch - 1} in {place}, and it is missing. "
        "State is never started from empty: restore the directory, or start a new checkpoint."
    )


def missing_pages(name: str) -> DataError:
    """A record whose pages are still in use was deleted."""
    return DataError(
        f"The commit record {name} is missing, and later batches refer to state in it. "
        "Restore the file from a copy of the checkpoint, or start a new checkpoint."
    )


def records_ahead(batch: int, newest: int, place: str) -> DataError:
    """Spark repeats a batch that others were built on."""
    return DataError(
        f"Spark starts batch {batch}, but {place} has commit records up to batch {newest}. "
        "The checkpoint was restored from a backup without its eventide directory, or the other way round. "
        "Restore both from the same copy."
    )


def other_offsets(batch: int, recorded: str, current: str) -> DataError:
    """Spark repeats a batch under the same number with other offsets."""
    return DataError(
        f"Batch {batch} was committed with other source offsets (digest {recorded}) than Spark repeats it with "
        f"(digest {current}). The offset log of the checkpoint was lost or replaced; restore it from the same copy "
        "as the eventide directory."
    )


def fenced(epoch: int, newer: int) -> DataError:
    """Another driver has taken over the checkpoint."""
    return DataError(
        f"Another driver (epoch {newer}) runs the query of this checkpoint now. "
        f"This driver (epoch {epoch}) stops before it writes to any sink."
    )
