"""Whether the stream of a checkpoint has ended: a note next to it says in which batch.

Every row that arrives after the end would be late, so a drained checkpoint is rejected when a query starts.
"""

from __future__ import annotations

from eventide.errors import spark as errors
from eventide.spark.storage import Storage, read_text

_NOTE = "eventide/drained"


def check_not_drained(storage: Storage, checkpoint: str) -> None:
    """Reject a checkpoint whose stream has ended."""
    if is_drained(storage):
        raise errors.checkpoint_drained(checkpoint)


def is_drained(storage: Storage) -> bool:
    """Return whether a batch that drained the stream was committed. A batch that was not is run again."""
    batch = read_text(storage, _NOTE)
    return batch is not None and storage.exists(f"commits/{int(batch)}")


def note_drained(storage: Storage, batch: int) -> None:
    """Note that a batch has drained the stream; before Spark commits it."""
    storage.replace(_NOTE, f"{batch}\n".encode())
