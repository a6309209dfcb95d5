"""Messages about the stores that checkpoints are in."""

from __future__ import annotations

from eventide.errors.kinds import PlanError


def not_exclusive(location: str) -> PlanError:
    """A store that creates a name although it exists."""
    return PlanError(
        f"The store of {location} overwrites files that exist, or cannot tell whether they do. State in the driver "
        "relies on it, so that two drivers of one checkpoint never write the same batch. Use another store for the "
        "checkpoint, or give run(storage=) a store of obstore. If only one driver ever runs at a time, say so with "
        "run(single_writer=True)."
    )


def unreachable(address: str, reason: str) -> PlanError:
    """A file system that Spark cannot open."""
    return PlanError(f"Spark cannot open the file system of {address!r}: {reason}")


def unknown_store(store: object) -> PlanError:
    """Something that is not a store."""
    return PlanError(
        f"run(storage=) takes a store of obstore or a file system of fsspec, not {type(store).__name__}. "
        'For example: obstore.store.S3Store("bucket", prefix="queries").'
    )


def records_in_checkpoint(checkpoint: str, location: str) -> PlanError:
    """A store was named for a checkpoint that has its own commit records."""
    return PlanError(
        f"The commit records of {checkpoint} are in the checkpoint itself, and storage= names {location}. "
        "Leave storage= out, or start a new checkpoint."
    )


def records_elsewhere(checkpoint: str, location: str) -> PlanError:
    """A checkpoint whose commit records are in a store that was not named."""
    return PlanError(
        f"The commit records of {checkpoint} are in another store, {location}. Name it with storage=, in run() and "
        "inspect(). The command line cannot read them."
    )
