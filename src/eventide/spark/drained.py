"""Whether the stream of a checkpoint has ended: a small file next to it says in which batch.

Every row that arrives after the end would be late, so a drained checkpoint is rejected when a query starts.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from eventide.errors import spark as errors
from eventide.spark.control import local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_not_drained(checkpoint: str | Path, spark: SparkSession | None = None) -> None:
    """Reject a checkpoint whose stream has ended. One on another file system is read with ``spark``, if it is given."""
    if is_drained(checkpoint, spark):
        raise errors.checkpoint_drained(os.fspath(checkpoint))


def is_drained(checkpoint: str | Path, spark: SparkSession | None = None) -> bool:
    """Whether a batch that drained the stream was committed. A batch that was not is run again."""
    batch = _read(_marker(checkpoint), spark)
    return batch is not None and _read(f"{_root(checkpoint)}/commits/{batch.strip()}", spark) is not None


def note_drained(checkpoint: str | Path, batch: int, spark: SparkSession) -> None:
    """Note that a batch has drained the stream; before Spark commits it."""
    marker = _marker(checkpoint)
    local = local_path(marker, spark)
    if local is not None:
        local.parent.mkdir(parents=True, exist_ok=True)
        local.write_text(f"{batch}\n", encoding="ascii")
        return
    spark.createDataFrame([(str(batch),)], "value string").coalesce(1).write.mode("overwrite").text(marker)


def _marker(checkpoint: str | Path) -> str:
    return f"{_root(checkpoint)}/eventide/drained"


def _root(checkpoint: str | Path) -> str:
    return os.fspath(checkpoint).rstrip("/")


def _read(address: str, spark: SparkSession | None) -> str | None:
    """The first line of a file; None where there is none."""
    local = local_path(address, spark)
    if local is not None:
        return local.read_text(encoding="utf-8").partition("\n")[0] if local.is_file() else None
    if spark is None:
        return None
    from pyspark.errors import AnalysisException

    try:
        line = spark.read.text(address).first()
    except AnalysisException:  # there is no such path
        return None
    return None if line is None else str(line["value"])
