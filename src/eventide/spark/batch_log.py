"""What Spark logged of a batch before it started: its time, the files that it reads, and how large it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from eventide.spark.addresses import on_disk
from eventide.spark.control import FOLDER
from eventide.spark.source_files import files_by_source
from eventide.spark.storage import Storage, read_text

_BYTES_PER_MESSAGE = 200  # of Kafka, in memory; a guess that errs on the large side


class BatchLog:
    """Spark's logs of a batch."""

    def __init__(self, storage: Storage, batch: int, time: int) -> None:
        self._storage = storage
        self.batch = batch
        self.time = time
        """The logged time of the batch, in microseconds."""

    def files(self, source: int) -> list[str]:
        """Return the files that a file source reads in the batch. Sources are numbered as in the query."""
        return self._files.get(source, [])

    def size_of(self, path: str) -> int | None:
        """Return the bytes of a file, or None if it is not on this machine."""
        local = on_disk(path)
        try:
            return None if local is None else Path(local).stat().st_size
        except OSError:
            return None

    @cached_property
    def size(self) -> int | None:
        """About how many bytes the batch reads, or None if a source does not tell.

        File sources log their files, Kafka its offsets. A source without new data adds nothing, and neither do files of
        the control directory: they only start batches.
        """
        paths = [path for paths in self._files.values() for path in paths if f"/{FOLDER}/" not in path]
        sizes = [self.size_of(path) for path in paths]
        total = None if None in sizes else sum(size or 0 for size in sizes)
        before = self._offsets(self.batch - 1)
        for number, offset in enumerate(self._offsets(self.batch)):
            previous = before[number] if number < len(before) else None
            if total is None or offset in (None, previous) or _is_file_offset(offset):
                continue
            messages = _messages(offset, previous)
            total = None if messages is None else total + messages * _BYTES_PER_MESSAGE
        return total

    @cached_property
    def _files(self) -> dict[int, list[str]]:
        return files_by_source(self._read, self.batch)

    def _offsets(self, batch: int) -> list[Any]:
        lines = (self._read(f"offsets/{batch}") or "").splitlines()[2:]
        return [json.loads(line) if line.startswith("{") else None if line == "-" else line for line in lines]

    def _read(self, name: str) -> str | None:
        return read_text(self._storage, name)


def _is_file_offset(offset: Any) -> bool:
    return isinstance(offset, Mapping) and "logOffset" in offset


def _messages(offset: Any, previous: Any) -> int | None:
    """Messages between two offsets of Kafka: topic, partition, position. None: it is not an offset of Kafka."""
    try:
        return sum(
            int(position - previous[topic].get(partition, 0))
            for topic, partitions in offset.items()
            for partition, position in partitions.items()
        )
    except (AttributeError, KeyError, TypeError):
        return None
