"""What Spark logs of a batch before it runs: the offsets of its sources, its time, and the files that it reads.

Sources have the same order in both placements: the inputs, the streams of marks, the control directory, the ticks.

Spark lists the files of a batch again when it repeats the batch, and leaves out those that were deleted meanwhile. A
batch that has lost all files is not run at all. So ``check_source_files`` looks for them before a query starts.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args
from urllib.parse import unquote

from eventide._paths import on_disk
from eventide.errors import DataError
from eventide.spark.checkpoint_storage import address_exists
from eventide.spark.control import FOLDER
from eventide.spark.errors import unknown_choice
from eventide.spark.hadoop_storage import file_sizes
from eventide.spark.storage import Storage, read_text, replace_logged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_NOTHING = "-"  # nothing was read of a source yet
_VERSION = "v1"
_KAFKA_LOG = "\0v1\n"  # before the positions
_LOOKED_UP = 64  # files on other file systems whose sizes one batch asks for, one after the other
_SHOWN = 10  # files that a message names

Positions: TypeAlias = Mapping[str, Mapping[str, int]]
"""Where a Kafka source is, by topic and partition."""

ReadText: TypeAlias = Callable[[str], str | None]
OnMissingFile: TypeAlias = Literal["fail", "skip"]


@dataclass(frozen=True)
class LoggedOffsets:
    """The file ``offsets/N`` of a checkpoint."""

    storage: Storage
    batch: int
    header: Mapping[str, Any]
    sources: tuple[str, ...]

    @classmethod
    def read(cls, storage: Storage, batch: int) -> LoggedOffsets:
        """Read the offsets of a batch."""
        name = f"offsets/{batch}"
        version, header, *sources = storage.read(name).decode().rstrip("\n").split("\n")
        if version != _VERSION:
            raise DataError(
                f"The offset log {storage.location}/{name} has format {version!r}, but state moves with 'v1' only."
            )
        return cls(storage, batch, json.loads(header), tuple(sources))

    def rewrite(self, conf: Mapping[str, str], *, before: bool, after: bool) -> None:
        """Replace the file. ``before`` and ``after``: whether the query had a source of ticks, and will have one."""
        sources = self.sources[:-1] if before and not after else self.sources
        sources = (*sources, _NOTHING) if after and not before else sources
        header = {**self.header, "conf": {**self.header.get("conf", {}), **conf}}
        text = "\n".join([_VERSION, json.dumps(header, separators=(",", ":")), *sources])
        replace_logged(self.storage, f"offsets/{self.batch}", text)

    def commands_read(self, *, ticks: bool) -> set[str]:
        """Return the names of the files of the control directory that batches up to this one have read."""
        place = len(self.sources) - 1 - ticks
        offset = self.sources[place]
        if offset == _NOTHING:
            return set()
        last = json.loads(offset)["logOffset"]
        names = set()
        for file in self.storage.list(f"sources/{place}"):
            for line in self.storage.read(f"sources/{place}/{file}").decode().splitlines()[1:]:
                entry = json.loads(line)
                if entry["batchId"] <= last:
                    names.add(unquote(entry["path"].rpartition("/")[2]))
        return names


class BatchLog:
    """Spark's logs of a batch."""

    def __init__(
        self,
        storage: Storage,
        batch: int,
        time: int,
        spark: SparkSession | None = None,
        *,
        beginnings: dict[int, Positions | None] | None = None,
    ) -> None:
        """``beginnings`` remembers for the batches of a query where its Kafka sources began, by their numbers."""
        self._storage = storage
        self._spark = spark
        self._beginnings = {} if beginnings is None else beginnings
        self.batch = batch
        self.time = time
        """The logged time of the batch, in microseconds."""

    def files(self, source: int) -> list[str]:
        """Return the files that a file source reads in the batch. Sources are numbered as in the query."""
        return self._files.get(source, [])

    @cached_property
    def messages(self) -> int | None:
        """The messages that the batch reads from Kafka, or None if another source does not log how much it reads.

        A source without new data reads none. The ticks that only start batches are the last source.
        """
        total = 0
        before, offsets = self._offsets(self.batch - 1), self._offsets(self.batch)
        for number, offset in enumerate(offsets):
            previous = before[number] if number < len(before) else None
            if offset in (None, previous) or _is_file_offset(offset):
                continue
            if number == len(offsets) - 1 and _is_tick(offset):
                continue
            end, beginning = _positions(offset), self._beginning(number)
            if end is None or beginning is None:
                return None
            messages = _messages(end, beginning if previous is None else _positions(previous))
            if messages is None:
                return None
            total += messages
        return total

    @cached_property
    def file_sizes(self) -> Mapping[str, int | None]:
        """The bytes of each source file; None where they are not known. Spark's log has no sizes.

        Files of the control directory only start batches, so they are left out. Each file on another file system costs
        a request, so those of many files are not looked up.
        """
        paths = [path for paths in self._files.values() for path in paths if f"/{FOLDER}/" not in path]
        sizes = {path: _size_on_disk(path) for path in paths}
        remote = [path for path in sizes if on_disk(path) is None]
        if self._spark is not None and len(remote) <= _LOOKED_UP:
            sizes |= file_sizes(remote, self._spark)
        return sizes

    @cached_property
    def _files(self) -> dict[int, list[str]]:
        return files_by_source(self._read, self.batch)

    def _beginning(self, source: int) -> Positions | None:
        """Return where a Kafka source began; None if it is another source, which may log offsets of the same form.

        Kafka's source logs the positions that it begins with, as numbers also for "earliest" and "latest".
        """
        if source not in self._beginnings:
            text = self._read(f"sources/{source}/0") or ""
            self._beginnings[source] = _positions(_json(text.removeprefix(_KAFKA_LOG)))
        return self._beginnings[source]

    def _offsets(self, batch: int) -> list[Any]:
        lines = (self._read(f"offsets/{batch}") or "").splitlines()[2:]
        return [json.loads(line) if line.startswith("{") else None if line == "-" else line for line in lines]

    def _read(self, name: str) -> str | None:
        return read_text(self._storage, name)


def _size_on_disk(path: str) -> int | None:
    local = on_disk(path)
    try:
        return None if local is None else Path(local).stat().st_size
    except OSError:
        return None


def _is_file_offset(offset: Any) -> bool:
    return isinstance(offset, Mapping) and "logOffset" in offset


def _is_tick(offset: Any) -> bool:
    return isinstance(offset, Mapping) and offset.keys() == {"offset", "timestamp"}


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _positions(offset: Any) -> Positions | None:
    """Return an offset as positions by topic and partition; None if it has another form.

    >>> _positions({"orders": {"0": 7}})
    {'orders': {'0': 7}}
    >>> _positions({"orders": {"0": "latest"}}), _positions({"orders": 7}), _positions({}), _positions(None)
    (None, None, None, None)
    """
    topics = list(offset.values()) if isinstance(offset, dict) else []
    nested = bool(topics) and all(isinstance(topic, dict) for topic in topics)
    known = nested and all(type(position) is int for topic in topics for position in topic.values())
    return offset if known else None


def _messages(end: Positions, start: Positions | None) -> int | None:
    """Return the messages between two offsets of Kafka; None if topics were added, whose beginnings are not known."""
    if start is None or not end.keys() <= start.keys():
        return None
    return sum(
        position - start[topic].get(partition, 0)
        for topic, partitions in end.items()
        for partition, position in partitions.items()
    )


def check_source_files(
    storage: Storage,
    on_missing_file: OnMissingFile,
    *,
    spark: SparkSession | None = None,
    committed: Collection[int] = (),
) -> dict[int, int]:
    """Return how many files of each repeated batch are missing. Raise an error unless they may be skipped.

    Batches that are ``committed`` with their outputs read no file again. Files that are not on this machine are looked
    up with ``spark``.
    """
    if on_missing_file not in get_args(OnMissingFile):
        raise unknown_choice("run()", "on_missing_file", on_missing_file, get_args(OnMissingFile))
    counts = {}
    for batch, paths in interrupted_files(storage).items():
        if batch not in committed and (missing := [path for path in paths if not address_exists(path, spark)]):
            if on_missing_file == "fail":
                raise DataError(
                    f"Batch {batch} was interrupted and has to be repeated, but these of its files do not exist any "
                    f'more: {_some(missing)}. Restore them, or run with on_missing_file="skip" to continue without '
                    "them."
                )
            message = f"Batch {batch} is repeated without {_some(missing)}: deleted after the batch was interrupted."
            warnings.warn(message, stacklevel=3)
            counts[batch] = len(missing)
    return counts


def interrupted_files(storage: Storage) -> dict[int, list[str]]:
    """Return the source files of each batch that was planned and not committed."""
    planned, committed = (_numbers(storage.list(folder)) for folder in ("offsets", "commits"))
    pending = [batch for batch in planned if batch > max(committed, default=-1)]
    read = partial(read_text, storage)
    by_source = {batch: files_by_source(read, batch).values() for batch in pending}
    return {batch: [path for paths in sources for path in paths] for batch, sources in by_source.items()}


def files_by_source(read: ReadText, batch: int) -> dict[int, list[str]]:
    """Return the files of a batch by the number of their source, from Spark's logs. ``read`` returns a file's text."""
    ends, starts = (_file_offsets(read(f"offsets/{number}")) for number in (batch, batch - 1))
    return {
        source: [
            path for offset in range(starts.get(source, -1) + 1, end + 1) for path in _files_at(read, source, offset)
        ]
        for source, end in ends.items()
    }


def logs_behind(text: str, previous: str | None) -> list[str]:
    r"""Return the files and folders of a checkpoint that the offsets of a batch refer to, and those before it did not.

    A file source logs its files under a number, which its offset names. Some sources log where they began.
    ``previous`` are the offsets of the batch before; None: there are none.

    >>> header, files = "v1\n{}\n", '{"logOffset": 3}'
    >>> logs_behind(header + files, header + '{"logOffset": 2}')
    ['sources/0/3', 'sources/0/3.compact']
    >>> logs_behind(header + files, None)
    ['metadata', 'sources']
    """
    if previous is None:
        return ["metadata", "sources"]
    ends, starts = _file_offsets(text), _file_offsets(previous)
    return [
        f"sources/{source}/{offset}{suffix}"
        for source, end in ends.items()
        for offset in range(starts.get(source, -1) + 1, end + 1)
        for suffix in ("", ".compact")
    ]


def _file_offsets(text: str | None) -> dict[int, int]:
    """Return the offset of each file source, from Spark's offset log."""
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
    """Return the files of a file source at an offset. Spark merges the log of several offsets into one file."""
    for name in (str(offset), f"{offset}.compact"):
        version, *lines = (read(f"sources/{source}/{name}") or "").splitlines() or ("",)
        if version == _VERSION:
            entries = [json.loads(line) for line in lines if line]
            return [unquote(entry["path"]) for entry in entries if entry["batchId"] == offset]
    return []


def _numbers(names: list[str]) -> list[int]:
    return sorted(int(name) for name in names if name.isdecimal())


def _some(paths: Sequence[str]) -> str:
    """Return a few paths, and how many more there are."""
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return ", ".join(paths[:_SHOWN]) + more
