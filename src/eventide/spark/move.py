"""``eventide move``: the state of a stopped query moves between the driver and the executors.

The new state is written next to the old one. Then ``eventide/plan.json``, which says where the state is, is replaced:
that is the move. A crash before it leaves the old state in use, a crash after it the new one. What is left over of the
other is deleted by this command, by its next call, or when the query starts: Spark rejects a state that is not of the
query.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventide._paths import local_path
from eventide.errors import DataError, PlanError
from eventide.operators.redistribution import BucketState, redistribute
from eventide.spark.buckets import bucket_labels, check_bucket_count
from eventide.spark.commit_log import CommitLog, RecordPages
from eventide.spark.control import FOLDER as CONTROL
from eventide.spark.control_status import RunningLock, is_running
from eventide.spark.errors import no_session, no_state, unknown_placement
from eventide.spark.inspection import StoredOperator, read_driver_state, read_executor_state
from eventide.spark.query_record import FILE, Placement, QueryRecord
from eventide.spark.source_log import LoggedOffsets
from eventide.spark.storage import LocalStorage, replace_file
from eventide.state.commit_record import RecordBuilder
from eventide.state.errors import PLACEMENTS, move_buckets
from eventide.time import MIN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STATE = "state"
_WORK = "eventide/move"
_RECORDS = ("eventide/commits", "eventide/epochs")
_OTHERS: dict[Placement, tuple[str, ...]] = {"driver": (_WORK, _STATE), "executors": (_WORK, *_RECORDS)}


@dataclass(frozen=True)
class MoveResult:
    """What a move did: the last batch that the state includes, and the buckets of each operator."""

    before: Placement
    after: Placement
    batch: int
    buckets: Sequence[int]
    bytes: int


@dataclass(frozen=True)
class _Checkpoint:
    """A stopped query."""

    path: Path
    record: QueryRecord
    batch: int  # the last one that Spark has committed

    @property
    def log(self) -> CommitLog:
        return CommitLog(LocalStorage(self.path))

    def offsets(self) -> list[LoggedOffsets]:
        """The offsets of the last batch, and of one that Spark will repeat."""
        return [LoggedOffsets.read(self.path, batch) for batch in (self.batch, self.batch + 1) if self._logged(batch)]

    def ticks(self, placement: Placement) -> bool:
        return self.record.ticks[placement]

    def _logged(self, batch: int) -> bool:
        return (self.path / "offsets" / str(batch)).is_file()


def move(
    checkpoint: str | Path, *, to: Placement, buckets: int | None = None, spark: SparkSession | None = None
) -> MoveResult:
    """Move the state of a stopped query to the ``"driver"`` or to the ``"executors"``, there into ``buckets`` buckets.

    Offsets, batch ids, sinks, commands, late rows and dead letters stay. Start the query with ``state=to`` afterwards.

    >>> import eventide as ev
    >>> ev.move("checkpoints/revenue", to="executors", buckets=8)  # doctest: +SKIP
    """
    if to not in ("driver", "executors"):
        raise unknown_placement(to)
    if (buckets is None) == (to == "executors"):
        raise move_buckets(to)
    if buckets is not None:
        check_bucket_count(buckets)
    active = spark or _active_session()
    opened = _opened(os.fspath(checkpoint), active)
    if opened.record.state == to:
        raise _already_there(os.fspath(checkpoint), to)
    lock = RunningLock(opened.path / "eventide")
    lock.acquire()
    try:
        return _to_driver(opened, active) if buckets is None else _to_executors(opened, buckets, active)
    finally:
        lock.release()


def _to_executors(opened: _Checkpoint, buckets: int, spark: SparkSession) -> MoveResult:
    from eventide.spark.session import check_session
    from eventide.spark.state_import import import_state

    check_session(spark)
    delete_leftovers(opened.path, "driver")
    log = opened.log
    newest = log.newest()
    if newest is None or newest.footer["batch"] > opened.batch:
        raise _pending_batch(str(opened.path), opened.batch + 1)
    operators = redistribute_operators(read_driver_state(log, newest), buckets)
    imported = import_state(spark, operators, opened.batch, work=opened.path / _WORK, checkpoint=opened.path)
    imported.directory.rename(opened.path / _STATE)
    for offsets in opened.offsets():
        offsets.rewrite(imported.conf, before=opened.ticks("driver"), after=opened.ticks("executors"))
    _write_commit(opened, imported.commit_version, imported.commit)
    _check_written(operators, read_executor_state(spark, str(opened.path), opened.batch), str(opened.path))
    _delete_commands(opened, newest.footer["commands"])
    moved = _switch(opened, "executors", operators)
    delete_leftovers(opened.path, "executors")
    return moved


def _to_driver(opened: _Checkpoint, spark: SparkSession) -> MoveResult:
    delete_leftovers(opened.path, "executors")
    stored = read_executor_state(spark, str(opened.path), opened.batch)
    if not stored:
        raise no_state(str(opened.path))
    operators = redistribute_operators(stored, 1)
    first, *_ = logged = opened.offsets()
    commands = first.commands_read(opened.path, ticks=opened.ticks("executors"))
    for offsets in logged:
        offsets.rewrite({}, before=opened.ticks("executors"), after=opened.ticks("driver"))
    log = opened.log
    write_record(log, opened.batch, [bucket for (bucket,) in operators])
    _check_written(operators, read_driver_state(log, log.read(opened.batch)), str(opened.path))
    _delete_commands(opened, commands)  # the driver applies all that it finds
    moved = _switch(opened, "driver", operators)
    delete_leftovers(opened.path, "driver")
    return moved


def delete_leftovers(checkpoint: Path, placement: Placement) -> None:
    """Delete what an interrupted move left of the other placement than the one that is in use."""
    for name in _OTHERS[placement]:
        shutil.rmtree(checkpoint / name, ignore_errors=True)


def write_record(log: CommitLog, batch: int, operators: Sequence[BucketState]) -> None:
    """Write the commit record of a batch whose outputs were delivered elsewhere: it holds the state after it."""
    builder = RecordBuilder()
    stages = []
    for operator in operators:
        pages = RecordPages(log)
        pages.start(batch, builder)
        for number, body in operator.bodies.items():
            pages.put(number, body)
        head, manifest = builder.add(operator.head), builder.add(pages.manifest())
        stages.append({"head": head.to_list(), "manifest": manifest.to_list()})
    about = log.offsets(batch)
    footer = {"offsets": about.digest, "at": about.time, "stages": stages, "outputs": [], "operators": []}
    log.take_epoch()
    # The deadline is due: the next start runs a batch, which knows the deadlines of its operators.
    log.commit(batch, builder, footer | {"output_watermark": MIN, "deadline": about.time, "commands": []})


def _opened(address: str, spark: SparkSession) -> _Checkpoint:
    local = local_path(address, spark)
    if local is None:
        raise PlanError(
            f"The checkpoint {address!r} is not on this machine's disk. State is moved only within a "
            "checkpoint on disk."
        )
    plan = local / FILE
    commits = [int(file.name) for file in (local / "commits").glob("[0-9]*") if file.name.isdigit()]
    if not plan.is_file() or not commits:
        raise no_state(address)
    if is_running(local / "eventide"):
        raise PlanError(f"A query is running on the checkpoint {address!r}. Stop it, then move its state.")
    return _Checkpoint(local, QueryRecord.from_text(plan.read_text(encoding="utf-8")), max(commits))


def redistribute_operators(stored: Sequence[StoredOperator], buckets: int) -> list[list[BucketState]]:
    """Return the state of each operator in so many buckets; in one where its plan has no key."""
    from eventide.spark.stamp import split_rows

    parts = [
        [(head, BucketState(head, dict(operator.pages[bucket]))) for bucket, head in operator.heads.items()]
        for operator in stored
    ]
    return [
        redistribute(part, buckets, split_rows, tracker=operator.tracker)
        for part, operator in zip(parts, stored, strict=True)
    ]


def _write_commit(opened: _Checkpoint, version: str, commit: Mapping[str, Any]) -> None:
    """Let the commit of the last batch name the stores; everything else in it stays."""
    path = opened.path / "commits" / str(opened.batch)
    _, text = path.read_text(encoding="utf-8").split("\n", 1)
    content = json.loads(text)
    content |= {name: value for name, value in commit.items() if name not in content or name == "stateUniqueIds"}
    replace_file(path, f"{version}\n{json.dumps(content, separators=(',', ':'))}")


def _check_written(operators: Sequence[Sequence[BucketState]], stored: Sequence[StoredOperator], place: str) -> None:
    """Read the new state back before it is used."""
    expected = [
        {
            label: (bucket.head, bucket.bodies)
            for label, bucket in zip(bucket_labels(len(buckets)), buckets, strict=True)
        }
        for buckets in operators
    ]
    actual = [
        {label: (head, dict(operator.pages[label])) for label, head in operator.heads.items()} for operator in stored
    ]
    if actual != expected:
        raise DataError(
            f"The moved state of the checkpoint {place!r} differs from the old one when it is read back. "
            "Nothing was changed: the old state is still in use."
        )


def _delete_commands(opened: _Checkpoint, names: Sequence[str] | set[str]) -> None:
    """Delete commands that were applied: in each placement, others than these would be applied again."""
    for name in names:
        (opened.path / CONTROL / name).unlink(missing_ok=True)


def _switch(opened: _Checkpoint, to: Placement, operators: Sequence[Sequence[BucketState]]) -> MoveResult:
    """Make the new state the one that is used."""
    counts = [len(buckets) for buckets in operators]
    records = [
        replace(operator, buckets=count, progress="direct")
        for operator, count in zip(opened.record.operators, counts, strict=True)
    ]
    record = replace(opened.record, operators=tuple(records), state=to)
    replace_file(opened.path / FILE, record.to_text())
    size = sum(len(bucket.head) + sum(map(len, bucket.bodies.values())) for buckets in operators for bucket in buckets)
    return MoveResult(opened.record.state, to, opened.batch, counts, size)


def _active_session() -> SparkSession:
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is None:
        raise no_session("move()")
    return active


def _already_there(checkpoint: str, to: str) -> PlanError:
    """A move to where the state is."""
    return PlanError(f"The state of the checkpoint {checkpoint!r} is {PLACEMENTS[to]} already. Nothing was changed.")


def _pending_batch(checkpoint: str, batch: int) -> PlanError:
    """A move while outputs of a batch may not have reached the sinks."""
    return PlanError(
        f"Batch {batch} of the checkpoint {checkpoint!r} is pending: its outputs are recorded, and the sinks have not "
        "confirmed them. Start the query once more with its old placement, which delivers them; then move its state. "
        f"To see them: eventide outputs {checkpoint}"
    )
