"""``eventide rescale``: the state of a stopped query, in another number of buckets or in the other placement.

The state is read, divided and written next to the old one (``staged_state``), with the files of Spark and Eventide
that refer to it. It is read back and compared. Then all of it replaces the old files (``replacement``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from eventide._hints import with_option_hints
from eventide.errors import PlanError
from eventide.operators.redistribution import BucketSnapshot, Division, divide
from eventide.spark.buckets import check_bucket_count
from eventide.spark.checkpoint_storage import active_session, check_exclusive, storage_of
from eventide.spark.coalesced_progress import progress_after_rescale
from eventide.spark.connect_session import reject_spark_connect
from eventide.spark.control import FOLDER as CONTROL
from eventide.spark.errors import no_session, no_state, not_started_by_run, unknown_placement
from eventide.spark.inspection import StoredOperator
from eventide.spark.query_record import FILE, Placement
from eventide.spark.replacement import Replacement, exclusive, settle_exclusively
from eventide.spark.staged_state import (
    RECORDS,
    STATE,
    RecordedBuckets,
    StagedDriverState,
    StagedExecutorState,
    StagedState,
    Written,
    check_written,
)
from eventide.spark.stopped_query import StoppedQuery
from eventide.spark.storage import DirectoryStorage, LocalStorage
from eventide.state.errors import PLACEMENTS, rescale_target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OnProgress: TypeAlias = Callable[[str], None]


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


@with_option_hints
def rescale(
    checkpoint: str | Path,
    *,
    buckets: int | None = None,
    to: Placement | None = None,
    spark: SparkSession | None = None,
    on_progress: OnProgress | None = None,
    single_writer: bool = False,
) -> RescaleResult:
    """Divide the state of a stopped query into ``buckets`` buckets on the executors, or move it ``to="driver"``.

    Offsets, batch ids, sinks, commands, late rows and dead letters stay, and nothing is read again. Start the query
    with the placement of the result. ``on_progress`` is called with the name of each step. ``single_writer`` accepts a
    store that overwrites existing files, as in ``run``: you ensure that nothing else uses the checkpoint meanwhile.

    >>> import eventide as ev
    >>> ev.rescale("checkpoints/revenue", buckets=8)  # doctest: +SKIP
    """
    target = check_target(buckets, to)
    active = spark or active_session()
    if active is None:
        raise no_session("rescale()")
    reject_spark_connect("rescale()", "give it a session in this process, such as ev.spark_session().", active)
    files = _files_of(os.fspath(checkpoint), active, single_writer=single_writer)
    with exclusive(files):
        finished = settle_exclusively(files)
        replacement = Replacement(files)  # before the first read: a query that starts from now on ends this attempt
        try:
            query = StoppedQuery.open(files)
            if finished is not None:
                result = RescaleResult(**finished | {"resumed": True})
                if result.is_for(target, buckets):
                    replacement.discard()
                    return result
            if query.record.state == target and (buckets is None or max(query.buckets) == buckets):
                raise _already_there(query)
            show = on_progress or (lambda step: None)
            result, folders = _stage(query, replacement, target, buckets or 1, active, show)
            outdated = _outdated(query, target)
            show("Replacing the old state …")
            query.check_unchanged()
        except Exception:
            replacement.discard()
            raise
        names = [f"offsets/{batch}" for batch in query.logged]
        names += [f"commits/{query.batch}"] if target == "executors" else []
        replacement.install([*names, FILE], folders=folders, delete=outdated, about=asdict(result))
        return result


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


def _stage(
    query: StoppedQuery,
    replacement: Replacement,
    to: Placement,
    buckets: int,
    spark: SparkSession,
    show: OnProgress,
) -> tuple[RescaleResult, Sequence[str]]:
    """Write and compare the new state. Return what it is, and its folders."""
    show("Reading the state …")
    divisions = divide_operators(query.operators(spark), buckets, _progress(query, to, spark), show)
    first = next(divisions)  # a state that cannot be divided is rejected before anything is written
    staged: StagedState
    if to == "executors":
        staged = StagedExecutorState(query, replacement, spark)
    else:
        staged = StagedDriverState(query, replacement)
    replacement.copy(*(f"offsets/{batch}" for batch in query.logged), f"commits/{query.batch}")
    written = _write(staged, first, divisions)
    counts, size = [operator.count for operator in written], sum(operator.size for operator in written)
    if query.record.state == to and counts == query.buckets:
        raise _already_there(query)
    show(f"Writing the state: {size / 1e6:,.1f} MB in {_counted(sum(counts), 'bucket')} …")
    staged.finish()
    show("Comparing the new state with the old one …")
    check_written(written, staged.stored(), query.files.location)
    _write_plan(query, replacement, to, written)
    return RescaleResult(query.record.state, to, query.batch, query.buckets, counts, size), staged.folders


def _outdated(query: StoppedQuery, to: Placement) -> list[str]:
    """Return the files and folders that the state in its new placement does not use."""
    if query.record.state == to:
        return []
    commands = [f"{CONTROL}/{name}" for name in sorted(query.commands())]
    return [*(RECORDS if to == "executors" else (STATE,)), *commands]


def _write(staged: StagedState, first: Division, others: Iterator[Division]) -> list[Written]:
    """Write the state of all operators, each when the previous one is written."""
    written = []
    division: Division | None = first
    del first
    while division is not None:
        operator = RecordedBuckets(division)
        staged.add(operator)
        written.append(operator.written)
        division = operator = None  # type: ignore[assignment]  # released before the next one is read
        division = next(others, None)
    return written


Coalesces: TypeAlias = Callable[[int, int, int], bool]
"""Returns whether one place tracks progress, given an operator's depth, the previous one's buckets and its own."""


def _progress(query: StoppedQuery, to: Placement, spark: SparkSession) -> Coalesces:
    def coalesces(depth: int, sources: int, buckets: int) -> bool:
        origins = query.record.operators[depth].origins
        return to == "executors" and progress_after_rescale(origins, buckets, sources, spark) == "coalesced"

    return coalesces


def divide_operators(
    stored: Iterable[StoredOperator],
    buckets: int,
    coalesces: Coalesces = lambda depth, sources, buckets: False,
    show: OnProgress = lambda step: None,
) -> Iterator[Division]:
    """Yield the state of each operator, divided into so many buckets; into one where its plan has no key."""
    from eventide.spark.stamp import split_rows

    sources = 0
    for depth, operator in enumerate(stored):
        show(f"Dividing operator {depth + 1} …")
        here = partial(coalesces, depth, sources)
        division = divide(_taken(operator), buckets, split_rows, tracker=operator.tracker, coalesces=here)
        sources = division.count
        yield division
        del division


def _taken(operator: StoredOperator) -> Iterator[tuple[bytes, BucketSnapshot]]:
    """Yield the head and the pages of each bucket, and release them with the next one."""
    for bucket, head in operator.heads.items():
        snapshot = BucketSnapshot(head, operator.pages.pop(bucket))
        yield head, snapshot
        snapshot.bodies.clear()  # readers of the snapshot may live until the next garbage collection


def _write_plan(query: StoppedQuery, replacement: Replacement, to: Placement, written: Sequence[Written]) -> None:
    records = tuple(
        replace(record, buckets=operator.count, progress="direct" if operator.tracker is None else "coalesced")
        for record, operator in zip(query.record.operators, written, strict=True)
    )
    replacement.staged.replace(FILE, replace(query.record, operators=records, state=to).to_text().encode())


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _files_of(address: str, spark: SparkSession, *, single_writer: bool) -> DirectoryStorage:
    """Return the storage of a checkpoint. Reject one that is not there, or in which two processes could collide."""
    files = storage_of(address, spark, single_writer=single_writer)
    if not files.exists(FILE):
        raise not_started_by_run(address) if files.list(STATE) else no_state(address)
    if isinstance(files, LocalStorage):  # a lock protects it, also where files are not created exclusively
        return LocalStorage(Path(files.location).absolute(), single_writer=True)
    if not single_writer:
        check_exclusive(files)
    return files


def _already_there(query: StoppedQuery) -> PlanError:
    """A rescale to what the state is already."""
    place = PLACEMENTS[query.record.state]
    counts = f", in {_counted(max(query.buckets), 'bucket')}" if query.record.state == "executors" else ""
    return PlanError(
        f"The state of the checkpoint {query.files.location!r} is {place} already{counts}. Nothing was changed."
    )
