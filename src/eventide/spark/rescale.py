"""``eventide rescale``: the state of a stopped query, in another number of buckets or in the other placement.

The state is read, redistributed and written next to the old one, with the files of Spark and Eventide that refer to it.
It is read back and compared. Then all of it replaces the old files (``replacement``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from eventide._hints import with_option_hints
from eventide._paths import local_path
from eventide.errors import DataError, PlanError
from eventide.operators.redistribution import BucketSnapshot, DividedState, redistribute
from eventide.spark.buckets import bucket_labels, check_bucket_count
from eventide.spark.checkpoint_storage import record_storage
from eventide.spark.coalesced_progress import progress_after_rescale
from eventide.spark.commit_log import CommitLog, RecordPages
from eventide.spark.connect_session import reject_spark_connect
from eventide.spark.control import FOLDER as CONTROL
from eventide.spark.control_status import is_running
from eventide.spark.errors import no_session, no_state, unknown_placement
from eventide.spark.inspection import StoredOperator, read_driver_state, read_executor_state
from eventide.spark.query_record import FILE, Placement, QueryRecord
from eventide.spark.replacement import Replacement, exclusive, settle_exclusively
from eventide.spark.source_log import LoggedOffsets
from eventide.spark.storage import LocalStorage, replace_file
from eventide.state.commit_record import Record, RecordBuilder
from eventide.state.errors import PLACEMENTS, rescale_target
from eventide.time import MIN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OnProgress: TypeAlias = Callable[[str], None]

_STATE = "state"
_RECORDS = ("eventide/commits", "eventide/epochs")


@dataclass(frozen=True)
class RescaleResult:
    """What a rescale did: the placement and the buckets of each operator, before and after."""

    before: Placement
    after: Placement
    batch: int  # the last one that the state includes
    buckets_before: Sequence[int]
    buckets: Sequence[int]
    bytes: int
    resumed: bool = False  # an earlier, interrupted call had written the state

    def is_for(self, to: Placement, buckets: int | None) -> bool:
        """Return whether the result is what a call asks for."""
        return self.after == to and (buckets is None or max(self.buckets) == buckets)


@dataclass(frozen=True)
class _Checkpoint:
    """A stopped query."""

    path: Path
    record: QueryRecord
    batch: int  # the last one that Spark has committed

    @classmethod
    def open(cls, path: Path) -> _Checkpoint:
        """Read what the query has recorded. Reject a query that runs, or has finished no batch."""
        plan = path / FILE
        commits = [int(file.name) for file in (path / "commits").glob("[0-9]*") if file.name.isdigit()]
        if not plan.is_file() or not commits:
            raise no_state(str(path))
        if is_running(path / "eventide"):
            raise PlanError(f"A query is running on the checkpoint {str(path)!r}. Stop it, then rescale its state.")
        return cls(path, QueryRecord.from_text(plan.read_text(encoding="utf-8")), max(commits))

    @property
    def buckets(self) -> list[int]:
        return [operator.buckets for operator in self.record.operators]

    @property
    def logged(self) -> list[int]:
        """The last batch, and one that Spark will repeat."""
        return [batch for batch in (self.batch, self.batch + 1) if (self.path / f"offsets/{batch}").is_file()]

    def newest_record(self) -> tuple[CommitLog, Record]:
        """Return the commit log and its newest record. Reject outputs that may not have reached the sinks."""
        files = LocalStorage(self.path)
        log = CommitLog(files, record_storage(files))
        newest = log.newest()
        if newest is None:
            raise no_state(str(self.path))
        if newest.footer["batch"] > self.batch:
            raise PlanError(
                f"Batch {self.batch + 1} of the checkpoint {str(self.path)!r} is pending: its outputs are recorded, "
                "and the sinks have not confirmed them. Start the query once more with its old placement, which "
                f"delivers them; then rescale its state. To see them: eventide outputs {self.path}"
            )
        return log, newest

    def commands(self) -> set[str]:
        """Return the applied commands that the new placement would apply again."""
        if self.record.state == "driver":
            return set(self.newest_record()[1].footer["commands"])
        return LoggedOffsets.read(self.path, self.batch).commands_read(self.path, ticks=self.record.ticks["executors"])

    def check_unchanged(self) -> None:
        """Reject a query that was started meanwhile."""
        if _Checkpoint.open(self.path) != self:
            raise PlanError(
                f"The query of the checkpoint {str(self.path)!r} has run while its state was rescaled. Nothing was "
                "changed. Stop the query, then rescale its state."
            )


@with_option_hints
def rescale(
    checkpoint: str | Path,
    *,
    buckets: int | None = None,
    to: Placement | None = None,
    spark: SparkSession | None = None,
    on_progress: OnProgress | None = None,
) -> RescaleResult:
    """Divide the state of a stopped query into ``buckets`` buckets on the executors, or move it ``to="driver"``.

    Offsets, batch ids, sinks, commands, late rows and dead letters stay, and nothing is read again. Start the query
    with the placement of the result. ``on_progress`` is called with the name of each step.

    >>> import eventide as ev
    >>> ev.rescale("checkpoints/revenue", buckets=8)  # doctest: +SKIP
    """
    target = check_target(buckets, to)
    active = spark or _active_session()
    reject_spark_connect("rescale()", "give it a session in this process, such as ev.spark_session().", active)
    path = _path_of(os.fspath(checkpoint), active)
    with exclusive(path):
        finished = settle_exclusively(path)
        opened = _Checkpoint.open(path)
        if finished is not None:
            result = RescaleResult(**finished | {"resumed": True})
            if result.is_for(target, buckets):
                return result
        if opened.record.state == target and (buckets is None or max(opened.buckets) == buckets):
            raise _already_there(opened)
        return _rescale(opened, target, buckets or 1, active, on_progress or (lambda step: None))


def check_target(buckets: int | None, to: str | None) -> Placement:
    """Return the placement that the arguments of ``rescale`` ask for."""
    if to not in (None, "driver", "executors"):
        raise unknown_placement(to, "rescale(to=")
    target: Placement = "driver" if to == "driver" else "executors"
    if (buckets is None) == (target == "executors"):
        raise rescale_target(to)
    if buckets is not None:
        check_bucket_count(buckets)
    return target


def _rescale(opened: _Checkpoint, to: Placement, buckets: int, spark: SparkSession, show: OnProgress) -> RescaleResult:
    show("Reading the state …")
    operators = redistribute_operators(_stored(opened, spark), buckets, _progress(opened, to, spark), show)
    counts, size = [len(operator.buckets) for operator in operators], _size(operators)
    if opened.record.state == to and counts == opened.buckets:
        raise _already_there(opened)
    show(f"Writing the state: {size / 1e6:,.1f} MB in {_counted(sum(counts), 'bucket')} …")
    replacement = Replacement(opened.path)
    names = [f"offsets/{batch}" for batch in opened.logged]
    replacement.copy(*names, f"commits/{opened.batch}")
    if to == "executors":
        written = _stage_executors(opened, replacement, operators, spark)
        names += [f"commits/{opened.batch}", _STATE]
        outdated: tuple[str, ...] = _RECORDS if opened.record.state == "driver" else ()
    else:
        written = _stage_driver(opened, replacement, operators)
        names += _RECORDS
        outdated = (_STATE,)
    show("Comparing the new state with the old one …")
    _check_written(operators, written(), str(opened.path))
    _write_plan(opened, replacement, to, operators)
    result = RescaleResult(opened.record.state, to, opened.batch, opened.buckets, counts, size)
    commands = [f"{CONTROL}/{name}" for name in sorted(opened.commands())] if opened.record.state != to else []
    show("Replacing the old state …")
    opened.check_unchanged()
    replacement.install([*names, FILE], delete=[*outdated, *commands], about=asdict(result))
    return result


def _stored(opened: _Checkpoint, spark: SparkSession) -> list[StoredOperator]:
    if opened.record.state == "driver":
        return read_driver_state(*opened.newest_record())
    stored = read_executor_state(spark, str(opened.path), opened.batch)
    if not stored:
        raise no_state(str(opened.path))
    return stored


Coalesces: TypeAlias = Callable[[int, int, int], bool]
"""Returns whether one place tracks progress, given an operator's depth, the previous one's buckets and its own."""


def _progress(opened: _Checkpoint, to: Placement, spark: SparkSession) -> Coalesces:
    def coalesces(depth: int, sources: int, buckets: int) -> bool:
        origins = opened.record.operators[depth].origins
        return to == "executors" and progress_after_rescale(origins, buckets, sources, spark) == "coalesced"

    return coalesces


def redistribute_operators(
    stored: Sequence[StoredOperator],
    buckets: int,
    coalesces: Coalesces = lambda depth, sources, buckets: False,
    show: OnProgress = lambda step: None,
) -> list[DividedState]:
    """Return the state of each operator in so many buckets; in one where its plan has no key."""
    from eventide.spark.stamp import split_rows

    operators: list[DividedState] = []
    for depth, operator in enumerate(stored):
        show(f"Dividing operator {depth + 1} of {len(stored)} …")
        parts = [(head, BucketSnapshot(head, dict(operator.pages[bucket]))) for bucket, head in operator.heads.items()]
        sources = len(operators[-1].buckets) if operators else 0
        here = partial(coalesces, depth, sources)
        operators.append(redistribute(parts, buckets, split_rows, tracker=operator.tracker, coalesces=here))
    return operators


_ReadBack: TypeAlias = Callable[[], Sequence[StoredOperator]]


def _stage_executors(
    opened: _Checkpoint, replacement: Replacement, operators: Sequence[DividedState], spark: SparkSession
) -> _ReadBack:
    """Write the state store, and what Spark logs of the last batch with it. Return a function that reads it back."""
    from eventide.spark.session import check_session
    from eventide.spark.state_import import import_state, relocate

    check_session(spark)
    imported = import_state(spark, operators, opened.batch, work=replacement.work)
    state = replacement.staged / _STATE
    imported.directory.rename(state)
    _rewrite_offsets(opened, replacement, "executors", imported.conf)
    _write_commit(replacement.staged / f"commits/{opened.batch}", imported.commit_version, imported.commit)

    def read_back() -> Sequence[StoredOperator]:
        relocate(state, replacement.staged)
        stored = read_executor_state(spark, str(replacement.staged), opened.batch)
        relocate(state, opened.path)
        return stored

    return read_back


def _stage_driver(opened: _Checkpoint, replacement: Replacement, operators: Sequence[DividedState]) -> _ReadBack:
    """Write the commit record of the last batch. Return a function that reads it back."""
    _rewrite_offsets(opened, replacement, "driver", {})
    log = CommitLog(LocalStorage(replacement.staged))
    write_record(log, opened.batch, operators)
    return lambda: read_driver_state(log, log.read(opened.batch))


def _rewrite_offsets(opened: _Checkpoint, replacement: Replacement, to: Placement, conf: Mapping[str, str]) -> None:
    ticks = opened.record.ticks
    for batch in opened.logged:
        offsets = LoggedOffsets.read(replacement.staged, batch)
        offsets.rewrite(conf, before=ticks[opened.record.state], after=ticks[to])


def write_record(log: CommitLog, batch: int, operators: Sequence[DividedState]) -> None:
    """Write the commit record of a batch whose outputs were delivered elsewhere: it holds the state after it."""
    builder = RecordBuilder()
    stages = []
    for operator in operators:
        (state,) = operator.buckets
        pages = RecordPages(log)
        pages.start(batch, builder)
        for number, body in state.bodies.items():
            pages.put(number, body)
        head, manifest = builder.add(state.head), builder.add(pages.manifest())
        stages.append({"head": head.to_list(), "manifest": manifest.to_list()})
    about = log.offsets(batch)
    footer = {"offsets": about.digest, "at": about.time, "stages": stages, "outputs": [], "operators": []}
    log.take_epoch()
    # The deadline is due: the next start runs a batch, which knows the deadlines of its operators.
    log.commit(batch, builder, footer | {"output_watermark": MIN, "deadline": about.time, "commands": []})


def _write_commit(path: Path, version: str, commit: Mapping[str, Any]) -> None:
    """Let the commit of the last batch name the stores; everything else in it stays."""
    _, text = path.read_text(encoding="utf-8").split("\n", 1)
    content = json.loads(text)
    content |= {name: value for name, value in commit.items() if name not in content or name == "stateUniqueIds"}
    replace_file(path, f"{version}\n{json.dumps(content, separators=(',', ':'))}")


def _write_plan(
    opened: _Checkpoint, replacement: Replacement, to: Placement, operators: Sequence[DividedState]
) -> None:
    records = tuple(
        replace(record, buckets=len(state.buckets), progress="direct" if state.tracker is None else "coalesced")
        for record, state in zip(opened.record.operators, operators, strict=True)
    )
    (replacement.staged / FILE).parent.mkdir(exist_ok=True)
    replace_file(replacement.staged / FILE, replace(opened.record, operators=records, state=to).to_text())


def _check_written(operators: Sequence[DividedState], stored: Sequence[StoredOperator], place: str) -> None:
    """Compare the new state, as it was read back, with what was to be written."""
    expected = [
        (dict(zip(bucket_labels(len(state.buckets)), state.buckets, strict=True)), state.tracker) for state in operators
    ]
    actual = [
        (
            {label: BucketSnapshot(head, dict(operator.pages[label])) for label, head in operator.heads.items()},
            operator.tracker,
        )
        for operator in stored
    ]
    if actual != expected:
        raise DataError(
            f"The rescaled state of the checkpoint {place!r} differs from the old one when it is read back. "
            "Nothing was changed: the old state is still in use."
        )


def _size(operators: Sequence[DividedState]) -> int:
    return sum(len(part.head) + sum(map(len, part.bodies.values())) for state in operators for part in state.parts)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _path_of(address: str, spark: SparkSession) -> Path:
    local = local_path(address, spark)
    if local is None:
        raise PlanError(
            f"The checkpoint {address!r} is not on this machine's disk. State is rescaled only within a "
            "checkpoint on disk."
        )
    if not (local / FILE).is_file():
        raise no_state(address)
    return local.absolute()


def _active_session() -> SparkSession:
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is None:
        raise no_session("rescale()")
    return active


def _already_there(opened: _Checkpoint) -> PlanError:
    """A rescale to what the state is already."""
    place = PLACEMENTS[opened.record.state]
    counts = f", in {_counted(max(opened.buckets), 'bucket')}" if opened.record.state == "executors" else ""
    return PlanError(
        f"The state of the checkpoint {str(opened.path)!r} is {place} already{counts}. Nothing was changed."
    )
