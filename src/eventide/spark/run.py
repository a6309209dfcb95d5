"""``pipeline.run``: starts one query with all of its outputs, each sink exactly once where the sink allows it."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

from eventide._arguments import check_flags
from eventide._paths import absolute_address, local_path
from eventide.errors import PlanError, shown
from eventide.plan.explain import aligned
from eventide.plan.pipeline import Pipeline, check_completes
from eventide.sinks import as_sink
from eventide.sinks.sink import WatermarkSink
from eventide.spark.batch_history import RunHistory, run_history
from eventide.spark.buckets import PARTITIONS, default_buckets, query_cores, query_settings, warn_of_partitions
from eventide.spark.checkpoint_storage import (
    can_rescale,
    check_exclusive,
    may_have_records,
    record_storage,
    storage_of,
)
from eventide.spark.commit_log import CommitLog
from eventide.spark.connect_query import RemoteQuery, Sinks, remote_batches
from eventide.spark.connect_session import check_shared, is_connect, reject_spark_connect, remote_checkpoint
from eventide.spark.control import Control, check_not_drained
from eventide.spark.dataflow import Source, input_rows
from eventide.spark.driver_dataflow import DriverPlan, needs_workers, plan_in_driver
from eventide.spark.environment import renaming_file_manager
from eventide.spark.errors import unknown_choice, unknown_placement
from eventide.spark.executor_query import ExecutorPlan, plan_on_executors
from eventide.spark.memory_limit import memory_limit
from eventide.spark.pending_outputs import deliver_pending
from eventide.spark.query import Query
from eventide.spark.query_batches import QueryBatches, local_batches
from eventide.spark.query_record import (
    Placement,
    QueryRecord,
    check_placement,
    check_record,
    read_record,
    record_of,
    write_record,
)
from eventide.spark.replacement import settle
from eventide.spark.session import check_session
from eventide.spark.shuffle_pages import Layout
from eventide.spark.sink_delivery import OnBatch, RunOutputs, chosen_sinks, query_id
from eventide.spark.source_log import OnMissingFile, check_source_files
from eventide.spark.storage import Storage
from eventide.time import duration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

BoundPlan: TypeAlias = DriverPlan | ExecutorPlan

_log = logging.getLogger("eventide")


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The arguments of ``pipeline.run``, which documents them."""

    sink: Any
    checkpoint: str | Path
    late: Any = None
    dead: Any = None
    interval: str | timedelta | None = None
    available_now: bool = False
    drain: bool = False
    name: str | None = None
    on_batch: OnBatch | None = None
    wait: bool = False
    state: Placement = "driver"
    state_memory: int | str | None = None
    whole_rows: bool = False
    source_position: bool = False
    on_missing_file: OnMissingFile = "fail"
    storage: Any = None
    single_writer: bool = False
    trace: bool | str | Path = False

    @property
    def ends(self) -> bool:
        """Whether the query ends with the data that is available at its start."""
        return self.available_now or self.drain

    def check(self) -> None:
        """Reject arguments that contradict each other."""
        if self.state not in ("driver", "executors"):
            raise unknown_placement(self.state)
        check_flags(
            "run()",
            available_now=self.available_now,
            drain=self.drain,
            wait=self.wait,
            whole_rows=self.whole_rows,
            source_position=self.source_position,
            single_writer=self.single_writer,
        )
        if self.on_missing_file not in get_args(OnMissingFile):
            raise unknown_choice("run()", "on_missing_file", self.on_missing_file, get_args(OnMissingFile))
        if self.name is not None and not isinstance(self.name, str):
            raise PlanError(f"run(name={shown(self.name)}): give the query a name as a text, or leave it out.")
        if self.on_batch is not None and not callable(self.on_batch):
            raise PlanError(f"run(on_batch={shown(self.on_batch)}): give a function that takes the metrics of a batch.")
        memory_limit(self.state_memory)
        if not isinstance(self.checkpoint, str | Path) or not str(self.checkpoint):
            raise PlanError(
                f"run(checkpoint={shown(self.checkpoint)}): name a directory for the state and the progress of this "
                "query, such as checkpoint='checkpoints/revenue'."
            )
        for sink in (self.sink, self.late, self.dead):
            if sink is not None or sink is self.sink:
                as_sink(sink)
        if self.ends and self.interval is not None:
            raise PlanError(
                f"run(interval=…, {'drain' if self.drain else 'available_now'}=True): a query that ends with the "
                "available data has no interval between batches. Leave one of them out. "
                "To drain a running query, call query.control.drain()."
            )
        if self.state == "executors":
            for name in ("storage", "single_writer"):
                if getattr(self, name):
                    raise PlanError(f"run({name}=) is for commit records, which only state='driver' has. Leave it out.")
        self.trigger(ticking=False)

    def trigger(self, *, ticking: bool) -> dict[str, Any]:
        """Return the arguments of Spark's ``writeStream.trigger``.

        Without an interval, a batch starts as soon as there is data or a deadline has passed. A query with ticks always
        has data, so it pauses between batches.
        """
        if self.ends:
            return {"availableNow": True}
        if self.interval is None:
            return {"processingTime": "1 second" if ticking else "0 seconds"}
        length = duration(self.interval, what="interval of run()", zero=True)
        return {"processingTime": f"{length // 1000} milliseconds"}


def run(pipeline: Pipeline, rows: Source, options: RunOptions) -> Query:
    """Start the query of a pipeline, and wait for its end if the options ask for it."""
    options.check()
    spark = _session(pipeline, rows, options)
    checkpoint = Checkpoint.open(spark, options)
    history = run_history(checkpoint.local, options.trace)
    with history.failures():
        missing_files = check_source_files(
            checkpoint.files, options.on_missing_file, spark=spark, committed=checkpoint.committed
        )
        plan = _bind(pipeline, rows, checkpoint, options)
        record = _check_continuation(plan, checkpoint, options)
        outputs = _open_sinks(plan, record, missing_files, checkpoint, options, history)
        with outputs.closed_on_failure():
            write_record(checkpoint.files, record)
            batches = _batches(plan, record, outputs, missing_files, checkpoint, options, history)
            start = _prepare(pipeline, plan, outputs, checkpoint, options, batches)
            query = start()
    if options.ends:
        return _await_end(query, start, batches, checkpoint, drain=options.drain)
    if options.wait:
        query.await_termination()
    return query


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint before its query starts."""

    location: str
    spark: SparkSession
    local: Path | None  # its path, if it is on this machine
    files: Storage
    records: Storage | None  # of commit records; None: state is on the executors
    control: Control
    last_start: QueryRecord | None
    committed: set[int]  # batches that have a commit record

    @classmethod
    def open(cls, spark: SparkSession, options: RunOptions) -> Checkpoint:
        """Open a checkpoint, old or new. Reject a drained one, and one whose state is in the other placement."""
        location = absolute_address(os.fspath(options.checkpoint), spark)
        local = local_path(location, spark)
        if is_connect(spark):
            if local is None:
                raise remote_checkpoint(location)
            check_shared(spark, local)
        files = storage_of(location, spark, single_writer=options.single_writer)
        settle(files)
        check_not_drained(files, location)
        # Without commit records here, state on the executors would ignore a pending batch of the driver.
        last_start = read_record(files, has_state=options.state == "executors" and may_have_records(files))
        if last_start is not None:
            check_placement(last_start, options.state, location, can_move=can_rescale(files))
        records = None
        if options.state == "driver":
            records = record_storage(files, options.storage, single_writer=options.single_writer)
            if not options.single_writer:
                check_exclusive(records)
        control = Control(location, spark)
        control.open()
        committed = set() if records is None else CommitLog(files, records).batches()
        last_start = last_start or read_record(files, has_state=bool(committed))
        return cls(location, spark, local, files, records, control, last_start, committed)

    def deliver_pending(self, options: RunOptions) -> int | None:
        """Deliver the outputs of a batch that the pipelines of the last start have computed, if they are pending."""
        if self.records is None or self.last_start is None:
            return None
        sinks = chosen_sinks(
            len(self.last_start.operators), self.location, panes=options.sink, late=options.late, dead=options.dead
        )
        try:
            query = query_id(self.files)
            return deliver_pending(self.files, self.records, self.last_start, sinks, query=query, spark=self.spark)
        finally:
            for _, _, sink in sinks:
                sink.close()


def _session(pipeline: Pipeline, rows: Source, options: RunOptions) -> SparkSession:
    """Return the session of the inputs. Reject one that cannot run the query."""
    on_executors = options.state == "executors"
    if on_executors:
        reject_spark_connect("run(state='executors')", "leave state= out, and state is in the driver.", rows)
    inputs = input_rows(pipeline.plan, rows, tables=not on_executors)
    stream = next((source for source in inputs if source.isStreaming), None)
    if stream is None:
        raise PlanError(
            "run() takes a streaming DataFrame, and this one is not. Read it with spark.readStream, or get the panes "
            "of a batch DataFrame with df.transform(pipeline)."
        )
    workers = on_executors or needs_workers(pipeline.plan, inputs)
    check_session(stream.sparkSession, streaming=on_executors, workers=workers)
    return stream.sparkSession


def _bind(pipeline: Pipeline, rows: Source, checkpoint: Checkpoint, options: RunOptions) -> BoundPlan:
    """Bind the pipeline to its sources and to the placement of its state."""
    if not options.ends:
        check_completes(pipeline)
    if checkpoint.records is None:
        last_start = checkpoint.last_start
        layouts = [last_start.layout(depth) if last_start else Layout() for depth in range(len(pipeline.operators))]
        return plan_on_executors(pipeline, rows, control=checkpoint.control, local=checkpoint.local, layouts=layouts)
    return plan_in_driver(
        pipeline,
        rows,
        control=checkpoint.control.place,
        storage=checkpoint.files,
        records=checkpoint.records,
        memory=memory_limit(options.state_memory),
        whole_rows=options.whole_rows,
        source_position=options.source_position,
    )


def _check_continuation(plan: BoundPlan, checkpoint: Checkpoint, options: RunOptions) -> QueryRecord:
    """Return the record of this start. Reject a pipeline that cannot continue from the state of the last."""
    followed = isinstance(as_sink(options.sink), WatermarkSink)
    record = record_of(plan.stages, checkpoint.last_start, options.state, followed=followed)
    if checkpoint.last_start is not None:
        deliver = partial(checkpoint.deliver_pending, options)
        check_record(checkpoint.last_start, record, checkpoint.location, deliver)
    return record


def _open_sinks(
    plan: BoundPlan,
    record: QueryRecord,
    missing_files: Mapping[int, int],
    checkpoint: Checkpoint,
    options: RunOptions,
    history: RunHistory,
) -> RunOutputs:
    """Open the sinks, which rejects what cannot work. Over Spark Connect these are copies: the server opens its own."""
    sinks = Sinks(options.sink, options.late, options.dead)
    if is_connect(checkpoint.spark):
        sinks = sinks.copied()
    outputs = RunOutputs(
        plan.stages,
        record,
        panes=sinks.panes,
        late=sinks.late,
        dead=sinks.dead,
        checkpoint=checkpoint.location,
        control=checkpoint.control,
        on_batch=options.on_batch,
        missing_files=missing_files,
        spark=checkpoint.spark,
        history=history,
    )
    outputs.open()
    return outputs


def _batches(
    plan: BoundPlan,
    record: QueryRecord,
    outputs: RunOutputs,
    missing_files: Mapping[int, int],
    checkpoint: Checkpoint,
    options: RunOptions,
    history: RunHistory,
) -> QueryBatches:
    """Return what processes the batches: this process, or over Spark Connect one of the server."""
    if not is_connect(checkpoint.spark):
        callback = plan.callback(outputs, ends=options.ends)
        return local_batches(callback, outputs, checkpoint.control, history, checkpoint.spark)
    assert isinstance(plan, DriverPlan) and checkpoint.local is not None
    outputs.close()
    query = RemoteQuery.of(
        plan,
        record,
        Sinks(options.sink, options.late, options.dead),
        missing_files,
        checkpoint.local,
        storage=options.storage,
        single_writer=options.single_writer,
        ends=options.ends,
        followed=outputs.followed,
        trace=options.trace,
    )
    return remote_batches(query, history, options.on_batch)


def _prepare(
    pipeline: Pipeline,
    plan: BoundPlan,
    outputs: RunOutputs,
    checkpoint: Checkpoint,
    options: RunOptions,
    batches: QueryBatches,
) -> Callable[[], Query]:
    """Return what starts the query. It may be started twice."""
    placement = [*plan.facts(followed=outputs.followed), *outputs.facts()]
    explanation = f"{pipeline.explain()}\n{aligned(placement)}"
    label = f"the query {options.name!r}" if options.name else "a query"
    _log.info("Starting %s: %s", label, ", ".join(f"{fact}: {text}" for fact, text in placement))
    writer = _writer(plan, outputs, checkpoint, options, batches)
    settings = _settings(plan, checkpoint)

    def start() -> Query:
        with query_settings(checkpoint.spark, settings):
            query = batches.start(writer)
        return Query(query, checkpoint.control, batches.history, batches.close, explanation, on_failure=batches.fail)

    return start


def _await_end(
    query: Query, start: Callable[[], Query], batches: QueryBatches, checkpoint: Checkpoint, *, drain: bool
) -> Query:
    """Wait until the available data is processed. To drain it, start the query again: it closes its windows."""
    with closing(batches):
        query.ended()
        if drain:
            checkpoint.control.drain()
            query = start()
            query.ended()
    return query


def _writer(
    plan: BoundPlan, outputs: RunOutputs, checkpoint: Checkpoint, options: RunOptions, batches: QueryBatches
) -> DataStreamWriter:
    rows = plan.dataframe(followed=outputs.followed)
    writer = rows.writeStream.outputMode("append").option("checkpointLocation", checkpoint.location)
    writer = writer.queryName(options.name) if options.name else writer
    trigger = options.trigger(ticking=plan.ticks(followed=outputs.followed))
    return writer.foreachBatch(batches.write).trigger(**trigger)


def _settings(plan: BoundPlan, checkpoint: Checkpoint) -> dict[str, str]:
    """Return Spark's settings while the query starts. The query keeps them, the session gets its values back.

    State in the driver needs no partitions, but the rows may come from a stateful operator of Spark.
    """
    on_executors = checkpoint.records is None
    buckets = max(stage.buckets for stage in plan.stages)
    if on_executors and checkpoint.last_start is None:  # later, the checkpoint has its number
        warn_of_partitions(checkpoint.spark, buckets)
    partitions = buckets if on_executors else default_buckets(query_cores(checkpoint.spark))
    settings = {PARTITIONS: str(partitions)}
    return settings | (renaming_file_manager() if checkpoint.local is not None else {})
