"""Small files of a checkpoint, read and written on the driver: on this machine's disk, or where Hadoop finds them."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventide.spark.control import default_scheme, on_disk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class CheckpointFiles:
    """The files below a checkpoint directory. Names are relative to it."""

    def __init__(self, checkpoint: str, spark: SparkSession) -> None:
        self._checkpoint = checkpoint.rstrip("/")
        self._spark = spark

    def read(self, name: str) -> str | None:
        """The text of a file; None if there is none."""
        if (path := self._local(name)) is not None:
            return path.read_text(encoding="utf-8") if path.is_file() else None
        path, files = self._remote(name)
        if not files.exists(path):
            return None
        row = self._spark.read.option("wholetext", "true").text(path.toString()).first()
        return None if row is None else str(row["value"])

    def write(self, name: str, text: str) -> None:
        """Create or replace a file; a reader sees all of it or the one before."""
        if (path := self._local(name)) is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
            unfinished.write_text(text, encoding="utf-8")
            unfinished.replace(path)
            return
        path, files = self._remote(name)
        stream = files.create(path, True)
        try:
            stream.write(text.encode())
        finally:
            stream.close()

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder, without hidden ones; none if there is no such folder."""
        if (path := self._local(folder)) is not None:
            names = [file.name for file in path.iterdir()] if path.is_dir() else []
        else:
            path, files = self._remote(folder)
            statuses = files.listStatus(path) if files.exists(path) else []
            names = [status.getPath().getName() for status in statuses]
        return sorted(name for name in names if not name.startswith((".", "_")))

    def missing(self, addresses: list[str]) -> list[str]:
        """Those of some files that do not exist. Addresses are absolute, and nothing in them is escaped."""
        return [address for address in addresses if not self._exists(address)]

    def _exists(self, address: str) -> bool:
        if (local := on_disk(address)) is not None and self._is_local(address):
            return Path(local).exists()
        path, files = self._hadoop(address)
        return bool(files.exists(path))

    def _local(self, name: str) -> Any:
        address = f"{self._checkpoint}/{name}"
        local = on_disk(address)
        return Path(local) if local is not None and self._is_local(address) else None

    def _remote(self, name: str) -> Any:
        return self._hadoop(f"{self._checkpoint}/{name}")

    def _hadoop(self, address: str) -> Any:
        """A path of Hadoop's, and the file system that it is in."""
        context = self._spark.sparkContext
        java = context._jvm
        assert java is not None
        path = java.org.apache.hadoop.fs.Path(address)
        return path, path.getFileSystem(context._jsc.hadoopConfiguration())

    def _is_local(self, address: str) -> bool:
        """Whether a path without a scheme is on this machine's disk, and not in Hadoop's default file system."""
        if address.startswith("file:"):
            return True
        return default_scheme(self._spark.sparkContext) == "file"
