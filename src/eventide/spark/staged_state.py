"""The new state of a rescaled query: written next to the old one, read back, and compared by digests.

Only one bucket of the new state is in memory at a time, and one operator of the state that is read back.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from eventide.errors import DataError
from eventide.operators.redistribution import BucketSnapshot, BucketStates
from eventide.spark.buckets import bucket_labels
from eventide.spark.commit_log import CommitLog, RecordPages
from eventide.spark.inspection import StoredOperator, read_driver_state, read_executor_state
from eventide.spark.query_record import Placement
from eventide.spark.replacement import Replacement
from eventide.spark.source_log import LoggedOffsets
from eventide.spark.state_import import StateImport, relocate
from eventide.spark.stopped_query import StoppedQuery
from eventide.spark.storage import DirectoryStorage, replace_logged
from eventide.state.commit_record import RecordBuilder
from eventide.time import MIN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATE = "state"
RECORDS = ("eventide/commits", "eventide/epochs")


class StagedState(Protocol):
    """The state in its new placement, while it is staged."""

    folders: tuple[str, ...]
    """What it consists of in the checkpoint."""

    def add(self, operator: BucketStates) -> None:
        """Write the state of the next operator."""
        ...

    def finish(self) -> None:
        """Complete the state, and what Spark logs of the last batch with it."""
        ...

    def stored(self) -> Iterator[StoredOperator]:
        """Read the state back."""
        ...


class StagedExecutorState:
    """A state store of Spark."""

    folders: tuple[str, ...] = (STATE,)

    def __init__(self, query: StoppedQuery, replacement: Replacement, spark: SparkSession) -> None:
        from eventide.spark.session import check_session

        check_session(spark)
        self._query, self._replacement, self._spark = query, replacement, spark
        self._import = StateImport(spark, query.batch, replacement.work)

    def add(self, operator: BucketStates) -> None:
        """Write the pages of the next operator."""
        self._import.add(operator)

    def finish(self) -> None:
        """Store all pages. The commit of the last batch names the stores, and its offsets their settings."""
        imported = self._import.run()
        self._replacement.adopt(imported.folder)
        staged = self._replacement.staged
        _rewrite_offsets(self._query, staged, "executors", imported.conf)
        _write_commit(staged, f"commits/{self._query.batch}", imported.commit_version, imported.commit)

    def stored(self) -> Iterator[StoredOperator]:
        """Read the state store where it is staged."""
        staged = self._replacement.staged
        relocate(staged, staged)
        yield from read_executor_state(self._spark, staged.address, self._query.batch)
        relocate(staged, self._query.files)


class StagedDriverState:
    """A commit record of the last batch, whose outputs were delivered elsewhere."""

    folders: tuple[str, ...] = RECORDS

    def __init__(self, query: StoppedQuery, replacement: Replacement) -> None:
        self._query, self._staged = query, replacement.staged
        self._log = CommitLog(replacement.staged)
        self._record = RecordWriter(self._log, query.batch)

    def add(self, operator: BucketStates) -> None:
        """Add the pages of the next operator to the record."""
        self._record.add(operator)

    def finish(self) -> None:
        """Write the record."""
        _rewrite_offsets(self._query, self._staged, "driver", {})
        self._record.commit()

    def stored(self) -> Iterator[StoredOperator]:
        """Read the record."""
        return read_driver_state(self._log, self._log.read(self._query.batch))


class RecordWriter:
    """Writes the commit record of a batch that holds the state after it, and no outputs."""

    def __init__(self, log: CommitLog, batch: int) -> None:
        self._log, self._batch = log, batch
        self._builder = RecordBuilder()
        self._stages: list[dict[str, Any]] = []

    def add(self, operator: BucketStates) -> None:
        """Add the state of the next operator."""
        (state,) = operator.buckets
        pages = RecordPages(self._log)
        pages.start(self._batch, self._builder)
        for number, body in state.bodies.items():
            pages.put(number, body)
        head, manifest = self._builder.add(state.head), self._builder.add(pages.manifest())
        self._stages.append({"head": head.to_list(), "manifest": manifest.to_list()})

    def commit(self) -> None:
        """Write the record."""
        about = self._log.offsets(self._batch)
        footer = {"offsets": about.digest, "at": about.time, "stages": self._stages, "outputs": [], "operators": []}
        self._log.take_epoch()
        # The deadline is due: the next start runs a batch, which knows the deadlines of its operators.
        footer |= {"output_watermark": MIN, "deadline": about.time, "commands": []}
        self._log.commit(self._batch, self._builder, footer)
        self._builder = RecordBuilder()


@dataclass
class Written:
    """What was written of an operator: a digest of each bucket, by its label, and of the tracker of all buckets."""

    count: int
    tracker: bytes | None
    buckets: dict[int, bytes] = field(default_factory=dict)
    size: int = 0

    @property
    def parts(self) -> int:
        """How many places have state."""
        return self.count + (self.tracker is not None)


class RecordedBuckets:
    """The state of an operator on its way to where it is stored. What passes is recorded in ``written``."""

    def __init__(self, operator: BucketStates) -> None:
        self._operator = operator
        self.count = operator.count
        self.tracker = operator.tracker
        self.written = Written(self.count, None if self.tracker is None else _digest(self.tracker))
        self.written.size = 0 if self.tracker is None else _size(self.tracker)

    @property
    def buckets(self) -> Iterator[BucketSnapshot]:
        """The state of each bucket, once."""
        for label, bucket in zip(bucket_labels(self.count), self._operator.buckets, strict=True):
            self.written.buckets[label] = _digest(bucket)
            self.written.size += _size(bucket)
            yield bucket


def check_written(written: Iterable[Written], stored: Iterable[StoredOperator], place: str) -> None:
    """Compare the new state, as it is read back, with what was to be written."""
    expected = [(operator.buckets, operator.tracker) for operator in written]
    if [_digests(operator) for operator in stored] != expected:
        raise DataError(
            f"The rescaled state of the checkpoint {place!r} differs from the old one when it is read back. "
            "Nothing was changed: the old state is still in use."
        )


def _digests(operator: StoredOperator) -> tuple[dict[int, bytes], bytes | None]:
    buckets = {
        label: _digest(BucketSnapshot(head, dict(operator.pages[label]))) for label, head in operator.heads.items()
    }
    return buckets, None if operator.tracker is None else _digest(operator.tracker)


def _digest(bucket: BucketSnapshot) -> bytes:
    """Return a digest of the head and all pages."""
    digest = hashlib.sha256(bucket.head)
    for page in sorted(bucket.bodies):
        digest.update(f"\n{page} {len(bucket.bodies[page])}\n".encode())
        digest.update(bucket.bodies[page])
    return digest.digest()


def _size(bucket: BucketSnapshot) -> int:
    return len(bucket.head) + sum(map(len, bucket.bodies.values()))


def _rewrite_offsets(query: StoppedQuery, staged: DirectoryStorage, to: Placement, conf: Mapping[str, str]) -> None:
    ticks = query.record.ticks
    for batch in query.logged:
        LoggedOffsets.read(staged, batch).rewrite(conf, before=ticks[query.record.state], after=ticks[to])


def _write_commit(staged: DirectoryStorage, name: str, version: str, commit: Mapping[str, Any]) -> None:
    """Let the commit of the last batch name the stores; everything else in it stays."""
    _, text = staged.read(name).decode().split("\n", 1)
    content = json.loads(text)
    content |= {field: value for field, value in commit.items() if field not in content or field == "stateUniqueIds"}
    replace_logged(staged, name, f"{version}\n{json.dumps(content, separators=(',', ':'))}")
