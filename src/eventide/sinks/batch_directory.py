"""The directory of a batch: written as a whole, and never without complete content once it has some.

A driver that was paused may write a batch again that its successor has committed, and may be killed while it does. So
equal content is kept, and other content replaces the old one in a single step.
"""

from __future__ import annotations

import filecmp
import os
import re
import shutil
import uuid
from collections.abc import Callable
from errno import EEXIST, ENOTEMPTY
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from eventide._jvm import hadoop
from eventide._paths import make_directory, sync

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FILE = "part-00000.parquet"
_MARKER = "_eventide"  # readers ignore the first character
_UNFINISHED = re.compile(r"\.batch=\d+\.[0-9a-f]{32}")


def replace_directory(
    rows: pa.Table, directory: Path, compression: str, *, check_writer: Callable[[], object] = lambda: None
) -> None:
    """Make a directory hold one Parquet file, durably. A directory that holds the same file already stays as it is.

    Readers see the old content or the new one. ``check_writer`` raises an error if this writer must not replace other
    content. If Spark has written the directory, readers may see none for a moment.
    """
    unfinished = _hidden(directory)
    make_directory(directory.parent)
    unfinished.mkdir()
    try:
        with (unfinished / _FILE).open("wb") as out:
            pq.write_table(rows, out, compression=compression, store_schema=False)
            out.flush()
            os.fsync(out.fileno())
        sync(unfinished)
        if _rename(unfinished, directory):
            sync(directory.parent)
            return
        names = {entry.name for entry in directory.iterdir()}
        if names == {_FILE} and filecmp.cmp(unfinished / _FILE, directory / _FILE, shallow=False):
            return
        check_writer()
        if names == {_FILE}:
            (unfinished / _FILE).replace(directory / _FILE)
            sync(directory)
        else:
            _exchange(unfinished, directory)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def remove_unfinished(root: Path) -> None:
    """Remove the directories that killed writers have left unfinished. Only the query's current driver may do so."""
    try:
        unfinished = [entry for entry in root.iterdir() if _UNFINISHED.fullmatch(entry.name)]
    except FileNotFoundError:
        return
    for directory in unfinished:
        shutil.rmtree(directory, ignore_errors=True)


class BatchMarker:
    """A hidden file in a directory that Spark has written completely: a digest of its rows.

    A session without access to Java has no markers, and writes a repeated batch again.
    """

    def __init__(self, directory: str, rows: pa.Table, spark: SparkSession) -> None:
        try:
            java, settings = hadoop(spark)
        except AttributeError:
            self._files = None
            return
        self._path = java.org.apache.hadoop.fs.Path(f"{directory}/{_MARKER}")
        self._files = self._path.getFileSystem(settings)
        self._digest = _digest(rows)

    def is_present(self) -> bool:
        """Return whether the directory holds these rows."""
        if self._files is None or not self._files.exists(self._path):
            return False
        stream = self._files.open(self._path)
        try:
            return bytes(stream.readNBytes(len(self._digest))) == self._digest
        finally:
            stream.close()

    def write(self) -> None:
        """Mark the directory as complete."""
        if self._files is None:
            return
        stream = self._files.create(self._path, True)
        stream.write(self._digest)
        stream.close()


def _rename(unfinished: Path, directory: Path) -> bool:
    """Rename a directory; return False if there is another with content."""
    try:
        unfinished.rename(directory)
    except OSError as cause:
        if cause.errno not in (EEXIST, ENOTEMPTY):
            raise
        return False
    return True


def _exchange(unfinished: Path, directory: Path) -> None:
    retired = _hidden(directory)
    directory.rename(retired)
    unfinished.rename(directory)
    sync(directory.parent)
    shutil.rmtree(retired, ignore_errors=True)


def _hidden(directory: Path) -> Path:
    return directory.with_name(f".{directory.name}.{uuid.uuid4().hex}")


def _digest(rows: pa.Table) -> bytes:
    """Return a digest of rows that does not depend on how they are divided into chunks."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    return sha256(sink.getvalue()).hexdigest().encode()
