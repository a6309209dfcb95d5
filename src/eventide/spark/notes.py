"""Small notes next to a checkpoint, in files of one line: which batch drained the stream, which one repairs it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from eventide.spark.control import local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def root_of(checkpoint: str | Path) -> str:
    """The address of a checkpoint, to which names can be appended."""
    return os.fspath(checkpoint).rstrip("/")


def read_note(checkpoint: str | Path, name: str, spark: SparkSession | None = None) -> str | None:
    """A note; None where there is none. One on another file system is read with ``spark``, if it is given."""
    return read_line(f"{root_of(checkpoint)}/eventide/{name}", spark)


def write_note(checkpoint: str | Path, name: str, text: str, spark: SparkSession | None) -> None:
    """Replace a note."""
    address = f"{root_of(checkpoint)}/eventide/{name}"
    local = local_path(address, spark)
    if local is not None:
        local.parent.mkdir(parents=True, exist_ok=True)
        local.write_text(f"{text}\n", encoding="utf-8")
        return
    from pyspark.sql import SparkSession

    session = spark or SparkSession.builder.getOrCreate()
    session.createDataFrame([(text,)], "value string").coalesce(1).write.mode("overwrite").text(address)


def read_line(address: str, spark: SparkSession | None) -> str | None:
    """The first line of a file; None where there is no file."""
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
