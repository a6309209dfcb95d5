"""How large a batch is, as far as Spark's logs tell before anything is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from eventide.spark.addresses import on_disk
from eventide.spark.source_files import ReadText, files_of_batch
from eventide.spark.storage import Storage, read_text

_BYTES_PER_MESSAGE = 200  # of Kafka, in memory; a guess that errs on the large side


def logged_bytes(storage: Storage, batch: int) -> int | None:
    """Return about how many bytes a batch reads, or None if a source does not tell.

    File sources log their files, Kafka its offsets. A source without new data adds nothing.
    """
    read = partial(read_text, storage)
    sizes = [_size(path) for path in files_of_batch(read, batch)]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    before = _offsets(read, batch - 1)
    for number, offset in enumerate(_offsets(read, batch)):
        previous = before[number] if number < len(before) else None
        if total is None or offset in (None, previous) or _is_file_offset(offset):
            continue
        messages = _messages(offset, previous)
        total = None if messages is None else total + messages * _BYTES_PER_MESSAGE
    return total


def _offsets(read: ReadText, batch: int) -> list[Any]:
    lines = (read(f"offsets/{batch}") or "").splitlines()[2:]
    return [json.loads(line) if line.startswith("{") else None if line == "-" else line for line in lines]


def _is_file_offset(offset: Any) -> bool:
    return isinstance(offset, Mapping) and "logOffset" in offset


def _size(path: str) -> int | None:
    local = on_disk(path)
    try:
        return None if local is None else Path(local).stat().st_size
    except OSError:
        return None


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
