"""Whether the stream of a checkpoint has ended: a note next to it says in which batch.

Every row that arrives after the end would be late, so a drained checkpoint is rejected when a query starts.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from eventide.errors import spark as errors
from eventide.spark.notes import read_line, read_note, root_of, write_note

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NOTE = "drained"


def check_not_drained(checkpoint: str | Path, spark: SparkSession | None = None) -> None:
    """Reject a checkpoint whose stream has ended. One on another file system is read with ``spark``, if it is given."""
    if is_drained(checkpoint, spark):
        raise errors.checkpoint_drained(os.fspath(checkpoint))


def is_drained(checkpoint: str | Path, spark: SparkSession | None = None) -> bool:
    """Whether a batch that drained the stream was committed. A batch that was not is run again."""
    batch = read_note(checkpoint, _NOTE, spark)
    return batch is not None and read_line(f"{root_of(checkpoint)}/commits/{batch}", spark) is not None


def note_drained(checkpoint: str | Path, batch: int, spark: SparkSession) -> None:
    """Note that a batch has drained the stream; before Spark commits it."""
    write_note(checkpoint, _NOTE, str(batch), spark)
