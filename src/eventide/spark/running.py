"""``ev.run``: one query with all of its outputs, each sink exactly once where it can be."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventide.errors import spark as errors
from eventide.plan.pipeline import Pipeline
from eventide.spark.checkpoint_files import CheckpointFiles
from eventide.spark.commit_log import CommitLog
from eventide.spark.control import Control, local_path
from eventide.spark.drained import check_not_drained
from eventide.spark.driver_plan import DriverPlan, memory_limit, plan_in_driver
from eventide.spark.executor_run import ExecutorPlan
from eventide.spark.feeding import Source, sources
from eventide.spark.host import apply, follow
from eventide.spark.move import delete_leftovers
from eventide.spark.partitions import state_partitions
from eventide.spark.pending_outputs import deliver_pending
from eventide.spark.query import Query
from eventide.spark.query_record import FILE as RECORD_FILE
from eventide.spark.query_record import Placement, QueryRecord, check_placement, check_record, read_record, record_of
from eventide.spark.repair import repaired_in
from eventide.spark.run_outputs import OnBatch, RunOutputs, chosen_sinks, query_id
from eventide.spark.session import check_session, reject_spark_connect
from eventide.spark.source_files import OnMissingFile, check_source_files
from eventide.spark.storage import LocalStorage
from eventide.spark.ticks import needs_ticks
from eventide.time import duration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


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
    state: Placement = "executors",
    state_memory: int | str | None = None,
    whole_rows: bool = False,
    source_position: bool = False,
) -> Query:
    """Run a pipeline, or a chain of them, over a streaming DataFrame, with all outputs in one query.

    A pipeline with several inputs takes a DataFrame for each, as a list in their order or by their names.

    ``panes``, ``late`` and ``dead`` are sinks (see ``ev.sinks``) or functions ``(batch, batch_id)``. Late rows and dead
    letters for which no sink is named are kept as files beside the checkpoint: nothing is lost silently. Of a chain,
    ``late`` and ``dead`` are those of the first pipeline; what the others set aside is kept as files.
    ``trigger`` is ``"available_now"``, a length of time between batches, or what ``writeStream.trigger`` takes.
    With ``"available_now"`` the call returns when all there is has been processed, otherwise at once; with ``wait`` it
    returns when the query has ended, and raises what stopped it. ``drain`` ends an ``"available_now"`` query: all open
    windows fire and close.

    Spark repeats the batch that a crash interrupted. If a source file of that batch was deleted meanwhile, ``run``
    fails and names it; with ``on_missing_file="skip"`` the query goes on without it, and the metrics count it.

    ``state`` says where the query keeps its state. On the ``"executors"`` it is in Spark's state store, which needs a
    session as ``ev.session`` makes it. In the ``"driver"`` it is in this process, with a commit record per batch in the
    checkpoint: batches cost less, any session will do, and the checkpoint must be on this machine.
    ``state_memory`` (``"2g"``) limits what stays in memory there. Late rows and dead letters then have the columns that
    the pipeline reads, or all of the source's with ``whole_rows``. With ``source_position`` they also have the file and
    the row in it (or the topic, partition and offset), where the source tells them.

    >>> import eventide as ev
    >>> per_minute = ev.stream(time="ts", key="shop").window(ev.tumbling("1 minute")).agg(orders=ev.count())
    >>> ev.run(per_minute, events, panes=ev.sinks.table("sqlite:///orders.db"), checkpoint="checkpoints/orders",
    ...        trigger="10 seconds", wait=True)  # doctest: +SKIP
    """
    chain = [pipeline] if isinstance(pipeline, Pipeline) else list(pipeline)
    if not chain or not all(isinstance(one, Pipeline) for one in chain):
        raise errors.not_pipelines("run()", pipeline)
    reject_spark_connect(rows)
    first = sources(chain[0].plan, rows)[0]
    if not first.isStreaming:
        raise errors.not_streaming()
    spark = first.sparkSession
    if state not in ("driver", "executors"):
        raise errors.unknown_placement(state)
    check_session(spark, streaming=state == "executors")
    ticking = any(needs_ticks(one.plan) for one in chain)
    spoken = _trigger(trigger, ticking)
    if drain and "availableNow" not in spoken:
        raise errors.drain_without_end()
    checkpoint = os.fspath(checkpoint)
    check_not_drained(checkpoint, spark)
    control = Control(checkpoint, spark)
    control.open()
    local = local_path(checkpoint, spark)
    if state == "driver" and local is None:
        raise errors.remote_driver_state(checkpoint)
    files = CheckpointFiles(checkpoint, spark)
    committed = CommitLog(LocalStorage(local)).batches() if state == "driver" and local is not None else ()
    missing_files = check_source_files(files, on_missing_file, committed=committed)
    before = read_record(files, has_state=bool(committed))
    if before is not None:
        check_placement(before, state, checkpoint)
        if local is not None:
            delete_leftovers(local, state)
    plan: DriverPlan | ExecutorPlan
    if state == "driver":
        assert local is not None
        plan = plan_in_driver(
            chain,
            rows,
            control=control.place,
            checkpoint=local,
            memory=memory_limit(state_memory),
            whole_rows=whole_rows,
            source_position=source_position,
        )
    else:
        plan = _plan_on_executors(chain, rows, before, control=control, local=local, spark=spark)
    record = record_of(plan.stages, before, state)
    if before is not None:
        deliver = partial(_deliver_pending, before, checkpoint, spark, panes=panes, late=late, dead=dead)
        check_record(before, record, checkpoint, deliver)
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
    files.write(RECORD_FILE, record.to_text())
    writer = plan.dataframe().writeStream.outputMode("append").option("checkpointLocation", checkpoint)
    writer = writer.queryName(name) if name else writer
    writer = writer.foreachBatch(plan.callback(outputs)).trigger(**spoken)
    with state_partitions(spark, max(stage.buckets for stage in plan.stages)):
        query = _started(writer, control, outputs)
    if "availableNow" not in spoken:
        if wait:
            query.await_termination()
        return query
    try:
        query.ended()
        if drain:
            control.drain()
            query = _started(writer, control, outputs)
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
    spark: SparkSession,
) -> ExecutorPlan:
    buckets = [before.buckets(depth) if before else None for depth in range(len(chain))]
    applied = apply(
        chain[0],
        rows,
        everything=True,
        control=control.place,
        tasks_know_time=local is not None,
        repaired_in=repaired_in(control.checkpoint, spark),
        buckets=buckets[0],
    )
    for following, count in zip(chain[1:], buckets[1:], strict=True):
        applied = follow(following, applied, buckets=count)
    return ExecutorPlan(applied, local)


def _deliver_pending(before: QueryRecord, checkpoint: str, spark: SparkSession, **outputs: Any) -> int | None:
    """Deliver the outputs of a batch that the pipelines of before have computed, if they are pending."""
    local = local_path(checkpoint, spark)
    if before.state != "driver" or local is None:
        return None
    chosen = chosen_sinks(len(before.operators), checkpoint, **outputs)
    try:
        return deliver_pending(LocalStorage(local), before, chosen, query=query_id(checkpoint, spark), spark=spark)
    finally:
        for _, _, sink in chosen:
            sink.close()


def _started(writer: DataStreamWriter, control: Control, outputs: RunOutputs) -> Query:
    control.show_running()
    try:
        return Query(writer.start(), control, outputs.history, outputs.close)
    except BaseException:
        control.show_stopped()
        raise


def _trigger(given: str | timedelta | Mapping[str, Any] | None, ticking: bool) -> dict[str, Any]:
    if given is None:  # as soon as there is data; ticks alone are no reason to run without a pause
        return {"processingTime": "1 second" if ticking else "0 seconds"}
    if isinstance(given, Mapping):
        return dict(given)
    if given == "available_now":
        return {"availableNow": True}
    return {"processingTime": f"{duration(given, what='trigger of run()', zero=True) // 1000} milliseconds"}
