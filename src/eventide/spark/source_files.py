"""Source files of batches that were interrupted: Spark repeats a batch without those that were deleted meanwhile.

Spark logs which files a batch has before it runs, and lists them again when it repeats the batch. A file that is gone
is left out with a line in its log, and a batch of which nothing is left is not run at all. So the files are looked for
before a query starts.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args
from urllib.parse import unquote

from eventide.errors import spark as errors
from eventide.spark.checkpoint_storage import address_exists
from eventide.spark.storage import Storage, read_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ReadText: TypeAlias = Callable[[str], str | None]
OnMissingFile: TypeAlias = Literal["fail", "skip"]

_VERSION = "v1"


def check_source_files(
    storage: Storage,
    on_missing_file: OnMissingFile,
    *,
    spark: SparkSession | None = None,
    committed: Collection[int] = (),
) -> dict[int, int]:
    """Find the files that a restart would leave out; gives how many there are in each batch that is repeated.

    Batches that are ``committed`` with their outputs read no file again. Files that are not on
    this machine are looked up with ``spark``.
    """
    if on_missing_file not in get_args(OnMissingFile):
        raise errors.unknown_choice("run()", "on_missing_file", on_missing_file, get_args(OnMissingFile))
    counts = {}
    for batch, paths in interrupted_files(storage).items():
        if batch not in committed and (missing := [path for path in paths if not address_exists(path, spark)]):
            if on_missing_file == "fail":
                raise errors.missing_files(batch, missing)
            warnings.warn(errors.skipped_files(batch, missing), stacklevel=3)
            counts[batch] = len(missing)
    return counts


def interrupted_files(storage: Storage) -> dict[int, list[str]]:
    """The source files of each batch that was planned and not committed."""
    planned, committed = (_numbers(storage.list(folder)) for folder in ("offsets", "commits"))
    pending = [batch for batch in planned if batch > max(committed, default=-1)]
    read = partial(read_text, storage)
    by_source = {batch: files_by_source(read, batch).values() for batch in pending}
    return {batch: [path for paths in found for path in paths] for batch, found in by_source.items()}


def files_by_source(read: ReadText, batch: int) -> dict[int, list[str]]:
    """The files of a batch by the number of their source, from Spark's logs. ``read`` returns a file's text."""
    ends, starts = (_file_offsets(read(f"offsets/{number}")) for number in (batch, batch - 1))
    return {
        source: [
            path for offset in range(starts.get(source, -1) + 1, end + 1) for path in _files_at(read, source, offset)
        ]
        for source, end in ends.items()
    }


def _file_offsets(text: str | None) -> dict[int, int]:
    """How far each file source of a query has been read, from Spark's log of offsets."""
    version, _, *sources = (text or "").splitlines() or ("", "")
    if version != _VERSION:
        return {}
    offsets = {}
    for number, line in enumerate(sources):
        offset = json.loads(line) if line.startswith("{") else {}
        if isinstance(offset.get("logOffset"), int):
            offsets[number] = offset["logOffset"]
    return offsets


def _files_at(read: ReadText, source: int, offset: int) -> list[str]:
    """The files that a file source found at an offset; Spark merges the log of several offsets into one file."""
    for name in (str(offset), f"{offset}.compact"):
        version, *lines = (read(f"sources/{source}/{name}") or "").splitlines() or ("",)
        if version == _VERSION:
            entries = [json.loads(line) for line in lines if line]
            return [unquote(entry["path"]) for entry in entries if entry["batchId"] == offset]
    return []


def _numbers(names: list[str]) -> list[int]:
    return sorted(int(name) for name in names if name.isdecimal())
