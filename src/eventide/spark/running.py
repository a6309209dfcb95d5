"""``ev.run``: one query with all of its outputs, each sink exactly once where it can be."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventide.errors import spark as errors
from eventide.plan.explain import aligned
from eventide.plan.pipeline import Pipeline
from eventide.sinks import Sink, as_sink
from eventide.sinks.sink import Advancing
from eventide.spark.addresses import local_path
from eventide.spark.checkpoint_storage import check_exclusive, record_storage, storage_of
from eventide.spark.commit_log import CommitLog
from eventide.spark.control import Control
from eventide.spark.drained import check_not_drained
from eventide.spark.driver_plan import DriverPlan, memory_limit, needs_workers, plan_in_driver
from eventide.spark.executor_run import ExecutorPlan
from eventide.spark.feeding import Source, sources
from eventide.spark.hadoop import renaming_manager
from eventide.spark.host import apply, follow
from eventide.spark.move import delete_leftovers
from eventide.spark.partitions import PARTITIONS, settings_of_a_query
from eventide.spark.pending_outputs import deliver_pending
from eventide.spark.query import Query
from eventide.spark.query_record import (
    Placement,
    QueryRecord,
    check_placement,
    check_record,
    read_record,
    record_of,
    write_record,
)
from eventide.spark.repair import repaired_in
from eventide.spark.run_outputs import OnBatch, RunOutputs, chosen_sinks, query_id
from eventide.spark.session import check_session, reject_spark_connect
from eventide.spark.source_files import OnMissingFile, check_source_files
from eventide.spark.storage import Storage
from eventide.time import duration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_log = logging.getLogger("eventide")


def run(
    pipeline: Pipeline | Sequence[Pipeline],
    rows: Source,
    *,
    panes: Any,
    checkpoint: str | Path,
    late: Any = None,
    dead: Any = None,
    trigger: str | timedelta | Mapping[str, Any] | None = None,
    drain: bool = False,
    name: str | None = None,
    on_batch: OnBatch | None = None,
    wait: bool = False,
    on_missing_file: OnMissingFile = "fail",
    state: Placement = "driver",
    state_memory: int | str | None = None,
    whole_rows: bool = False,
    storage: Any = None,
    single_writer: bool = False,
    source_position: bool = False,
) -> Query:
    """Run a pipeline, or a chain of them, over a streaming DataFrame, with all outputs in one query.

    A pipeline with several inputs takes a DataFrame for each, as a list in their order or by their names. With state in
    the driver some of them may be tables: they are read in the first batch, and have ended after it.

    ``panes``, ``late`` and ``dead`` are sinks (see ``ev.sinks``) or functions ``(batch, batch_id)``. Late rows and dead
    letters for which no sink is named are kept as files beside the checkpoint: nothing is lost silently. Of a chain,
    ``late`` and ``dead`` are those of the first pipeline; what the others set aside is kept as files.
    ``trigger`` is ``"available_now"``, a length of time between batches, or what ``writeStream.trigger`` takes.
    With ``"available_now"`` the call returns when all there is has been processed, otherwise at once; with ``wait`` it
    returns when the query has ended, and raises what stopped it. ``drain`` ends an ``"available_now"`` query: all open
    windows fire and close.

    Spark repeats the batch that a crash interrupted. If a source file of that batch was deleted meanwhile, ``run``
    fails and names it; with ``on_missing_file="skip"`` the query goes on without it, and the metrics count it.

    ``state`` says where the query keeps its state. In the ``"driver"`` it is in this process, with a commit record per
    batch in the checkpoint: batches cost less, and any session will do. ``state_memory`` (``"2g"``) limits what stays
    in memory there. Late rows and dead letters have the columns that the pipeline reads, or all of the source's with
    ``whole_rows``. With ``source_position`` they also have the file and the row in it (or the topic, partition and
    offset), where the source tells them. On the ``"executors"`` the state is in Spark's state store, for state and
    rates beyond one machine; that needs a session as ``ev.spark_session`` makes it.

    Commit records are in the checkpoint, or in ``storage``: a store of obstore or a file system of fsspec. The store
    must never overwrite a file that exists, which is tested at the start. With ``single_writer`` any store will do, as
    long as only one driver at a time runs on the checkpoint.

    >>> import eventide as ev
    >>> per_minute = ev.stream(time="ts", key="shop").window(ev.tumbling("1 minute")).agg(orders=ev.count())
    >>> ev.run(per_minute, events, panes=ev.sinks.table("sqlite:///orders.db"), checkpoint="checkpoints/orders",
    ...        trigger="10 seconds", wait=True)  # doctest: +SKIP
    """
    chain = [pipeline] if isinstance(pipeline, Pipeline) else list(pipeline)
    if not chain or not all(isinstance(one, Pipeline) for one in chain):
        raise errors.not_pipelines("run()", pipeline)
    reject_spark_connect(rows)
    inputs = sources(chain[0].plan, rows, tables=state == "driver")
    first = next((one for one in inputs if one.isStreaming), None)
    if first is None:
        raise errors.not_streaming()
    spark = first.sparkSession
    if state not in ("driver", "executors"):
        raise errors.unknown_placement(state)
    on_executors = state == "executors"
    check_session(spark, streaming=on_executors, workers=on_executors or needs_workers(chain[0].plan, inputs))
    if drain and "availableNow" not in _trigger(trigger):
        raise errors.drain_without_end()
    checkpoint = os.fspath(checkpoint)
    local = local_path(checkpoint, spark)
    files = storage_of(checkpoint, spark, single_writer=single_writer)
    check_not_drained(files, checkpoint)
    before = read_record(files)
    if before is not None:
        check_placement(before, state, checkpoint)
        if local is not None:
            delete_leftovers(local, state)
    records = None
    if state == "driver":
        records = record_storage(files, storage, single_writer=single_writer)
        if not single_writer:
            check_exclusive(records)
    elif storage is not None or single_writer:
        raise errors.only_in_driver("storage" if storage is not None else "single_writer")
    control = Control(checkpoint, spark)
    control.open()
    committed = set() if records is None else CommitLog(files, records).batches()
    before = before or read_record(files, has_state=bool(committed))
    missing_files = check_source_files(files, on_missing_file, spark=spark, committed=committed)
    plan: DriverPlan | ExecutorPlan
    if records is not None:
        plan = plan_in_driver(
            chain,
            rows,
            control=control.place,
            storage=files,
            records=records,
            memory=memory_limit(state_memory),
            whole_rows=whole_rows,
            source_position=source_position,
        )
    else:
        plan = _plan_on_executors(chain, rows, before, control=control, local=local)
    record = record_of(plan.stages, before, state, followed=isinstance(as_sink(panes), Advancing))
    if before is not None:
        chosen = partial(chosen_sinks, len(before.operators), checkpoint, panes=panes, late=late, dead=dead)
        check_record(before, record, checkpoint, partial(_deliver_pending, before, files, records, chosen, spark))
    outputs = RunOutputs(
        plan.stages,
        record,
        panes=panes,
        late=late,
        dead=dead,
        checkpoint=checkpoint,
        control=control,
        on_batch=on_batch,
        missing_files=missing_files,
        spark=spark,
    )
    outputs.open()
    with outputs.closed_on_failure():
        write_record(files, record)
        placement = plan.facts(followed=outputs.followed)
        explained = "\n".join([*(pipeline.explain() for pipeline in chain), aligned(placement)])
        _log.info("Starting %s: %s", f"the query {name!r}" if name else "a query", _in_one_line(placement))
        spoken = _trigger(trigger, ticking=plan.ticks(followed=outputs.followed))
        write_batch = plan.callback(outputs, ends="availableNow" in spoken or "once" in spoken)
        rows_of_query = plan.dataframe(followed=outputs.followed)
        writer = rows_of_query.writeStream.outputMode("append").option("checkpointLocation", checkpoint)
        writer = writer.queryName(name) if name else writer
        settings = {PARTITIONS: str(max(stage.buckets for stage in plan.stages))}
        if local is not None:
            settings |= renaming_manager(spark)

    def written(batch: DataFrame, batch_id: int) -> None:
        with outputs.closed_on_failure():
            write_batch(batch, batch_id)

    def start() -> Query:
        with outputs.closed_on_failure(), settings_of_a_query(spark, settings):
            return _started(writer.foreachBatch(written).trigger(**spoken), control, outputs, explained)

    query = start()
    if "availableNow" not in spoken:
        if wait:
            query.await_termination()
        return query
    try:
        query.ended()
        if drain:
            control.drain()
            query = start()
            query.ended()
    finally:
        outputs.close()
    return query


def _plan_on_executors(
    chain: Sequence[Pipeline],
    rows: Source,
    before: QueryRecord | None,
    *,
    control: Control,
    local: Path | None,
) -> ExecutorPlan:
    buckets = [before.buckets(depth) if before else None for depth in range(len(chain))]
    applied = apply(
        chain[0],
        rows,
        everything=True,
        control=control.place,
        tasks_know_time=local is not None,
        repaired_in=repaired_in(control.storage),
        buckets=buckets[0],
    )
    for following, count in zip(chain[1:], buckets[1:], strict=True):
        applied = follow(following, applied, buckets=count)
    return ExecutorPlan(applied, local)


def _in_one_line(facts: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{fact}: {text}" for fact, text in facts)


def _deliver_pending(
    before: QueryRecord,
    files: Storage,
    records: Storage | None,
    chosen: Callable[[], list[tuple[str, int, Sink]]],
    spark: SparkSession,
) -> int | None:
    """Deliver the outputs of a batch that the pipelines of before have computed, if they are pending."""
    if records is None:
        return None
    sinks = chosen()
    try:
        return deliver_pending(files, records, before, sinks, query=query_id(files), spark=spark)
    finally:
        for _, _, sink in sinks:
            sink.close()


def _started(writer: DataStreamWriter, control: Control, outputs: RunOutputs, explained: str) -> Query:
    control.show_running()
    try:
        return Query(writer.start(), control, outputs.history, outputs.close, explained)
    except BaseException:
        control.show_stopped()
        raise


def _trigger(given: str | timedelta | Mapping[str, Any] | None, *, ticking: bool = False) -> dict[str, Any]:
    if (
        given is None
    ):  # as soon as there is data, or a deadline has passed; ticks alone are no reason to run without a pause
        return {"processingTime": "1 second" if ticking else "0 seconds"}
    if isinstance(given, Mapping):
        return dict(given)
    if given == "available_now":
        return {"availableNow": True}
    return {"processingTime": f"{duration(given, what='trigger of run()', zero=True) // 1000} milliseconds"}
