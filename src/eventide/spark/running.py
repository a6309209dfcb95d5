"""``ev.run``: one query with all of its outputs, each sink exactly once where it can be."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from eventide import sinks
from eventide.errors import LateRowsWarning
from eventide.errors import spark as errors
from eventide.operators.late_warning import LateWarning
from eventide.plan.pipeline import Pipeline
from eventide.sinks import About, Sink
from eventide.sinks.sink import Advancing
from eventide.spark import page
from eventide.spark.checkpoint_files import CheckpointFiles
from eventide.spark.clock import set_batch_time
from eventide.spark.control import Control, local_path
from eventide.spark.drained import check_not_drained, note_drained
from eventide.spark.feeding import Source, sources
from eventide.spark.host import Applied, apply, follow, observed
from eventide.spark.metrics import BatchMetrics, read_metrics
from eventide.spark.partitions import state_partitions
from eventide.spark.query import Query
from eventide.spark.query_record import FILE as RECORD_FILE
from eventide.spark.query_record import QueryRecord, check_record, read_record, record_of, with_former_columns
from eventide.spark.repair import repaired_in
from eventide.spark.run_lock import RunLock
from eventide.spark.session import check_session, reject_spark_connect
from eventide.spark.source_files import OnMissingFile, check_source_files
from eventide.spark.stamping import least_promise
from eventide.spark.ticks import needs_ticks
from eventide.time import MAX, MIN, duration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

OnBatch = Callable[[BatchMetrics], Any]


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
    check_session(spark, streaming=True)
    ticking = any(needs_ticks(one.plan) for one in chain)
    spoken = _trigger(trigger, ticking)
    if drain and "availableNow" not in spoken:
        raise errors.drain_without_end()
    checkpoint = os.fspath(checkpoint)
    check_not_drained(checkpoint, spark)
    control = Control(checkpoint, spark)
    control.open()
    local = local_path(checkpoint, spark)
    files = CheckpointFiles(checkpoint, spark)
    missing_files = check_source_files(files, on_missing_file)
    before = read_record(files)
    buckets = [before.buckets(depth) if before else None for depth in range(len(chain))]
    applied = apply(
        chain[0],
        rows,
        everything=True,
        control=control.place,
        tasks_know_time=local is not None,
        repaired_in=repaired_in(checkpoint, spark),
        buckets=buckets[0],
    )
    for following, count in zip(chain[1:], buckets[1:], strict=True):
        applied = follow(following, applied, buckets=count)
    record = record_of(applied, before)
    if before is not None:
        check_record(before, record, checkpoint)
    outputs = Outputs(
        applied,
        record,
        panes=panes,
        late=late,
        dead=dead,
        checkpoint=checkpoint,
        local=local,
        control=control,
        on_batch=on_batch,
    )
    outputs.missing_files = missing_files
    outputs.open()
    files.write(RECORD_FILE, record.to_text())
    writer = observed(applied).writeStream.outputMode("append").option("checkpointLocation", checkpoint)
    writer = writer.queryName(name) if name else writer
    writer = writer.foreachBatch(outputs.write).trigger(**spoken)
    with state_partitions(spark, max(stage.buckets for stage in applied.stages)):
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


def _started(writer: DataStreamWriter, control: Control, outputs: Outputs) -> Query:
    control.show_running()
    try:
        return Query(writer.start(), control, outputs.history, outputs.close)
    except BaseException:
        control.show_stopped()
        raise


class Outputs:
    """The sinks of a query, and what each batch said of itself."""

    def __init__(
        self,
        applied: Applied,
        record: QueryRecord,
        *,
        panes: Any,
        late: Any,
        dead: Any,
        checkpoint: str,
        local: Path | None,  # the checkpoint, if it is on this machine
        control: Control,
        on_batch: OnBatch | None,
    ) -> None:
        self._applied = applied
        self._record = record
        self._checkpoint = checkpoint
        self._local = local
        self._control = control
        self._on_batch = on_batch
        self._keys = {stage.depth: stage.plan.watermark.options.watermark_key for stage in applied.stages}
        self._query = ""
        self._closed = False
        self._drained = False
        self._late_warning = LateWarning()
        self._lock = None if local is None else RunLock(local)
        self.history: list[BatchMetrics] = []
        self.missing_files: dict[int, int] = {}  # by batch: source files that were deleted before it was repeated
        beside = f"{checkpoint.rstrip('/')}/eventide"
        self._sinks: list[tuple[About, int, Sink]] = [(self._about("panes", -1), -1, sinks.as_sink(panes))]
        for depth in range(len(applied.stages)):
            for output, given in (("late", late), ("dead", dead)):
                kept = sinks.files(f"{beside}/{output}" if depth == 0 else f"{beside}/{output}.{depth}")
                sink = sinks.as_sink(given) if given is not None and depth == 0 else kept
                self._sinks.append((self._about(output, depth), depth, sink))

    def open(self) -> None:
        """Refuse what cannot work before the query starts."""
        for about, depth, sink in self._sinks:
            sink.open(self._rows(about.output, depth, None).schema, about)
        if self._lock is not None:
            self._lock.hold()

    def write(self, pages: DataFrame, batch_id: int) -> None:
        """One batch into all sinks."""
        if self._local is not None:
            set_batch_time(pages.sparkSession, self._local, batch_id)
        start = perf_counter()
        pages.persist()  # the sinks, and the counts, come from one computation
        try:
            told = pages.select("kind", "counts", "now", "detail").collect()
            kinds = {one["kind"] for one in told}
            for about, depth, sink in self._sinks:
                stage = self._applied.stages[depth]
                if page.at_depth(about.output, stage.depth) in kinds:
                    about = replace(about, query=self._query_id(pages))
                    sink.write(self._rows(about.output, depth, pages), batch_id, about)
            self._advance(pages, told)
        finally:
            pages.unpersist()
        metrics = read_metrics(batch_id, told, self._keys, seconds=perf_counter() - start)
        metrics = self._with_missing_files(batch_id, metrics)
        self._control.report(metrics)
        if metrics and metrics[0].drained and not self._drained:
            self._drained = True
            note_drained(self._checkpoint, batch_id, pages.sparkSession)
        self.history.extend(metrics)
        del self.history[:-1000]
        for operator in metrics:
            self._warn_of_late_rows(operator)
            if self._on_batch is not None:
                self._on_batch(operator)

    def _warn_of_late_rows(self, operator: BatchMetrics) -> None:
        watermark = MAX if operator.drained else operator.watermark
        message = self._late_warning.message(
            rows=operator.rows,
            late=operator.late,
            watermark=watermark,
            now=operator.at,
            operator=operator.depth,
        )
        if message is not None:
            warnings.warn(f"Batch {operator.batch}: {message}", LateRowsWarning, stacklevel=2)

    def _with_missing_files(self, batch_id: int, metrics: list[BatchMetrics]) -> list[BatchMetrics]:
        """Count missing files with the first batch that runs: Spark skips one that has lost all of its files."""
        skipped = [batch for batch in self.missing_files if batch <= batch_id]
        if not skipped or not metrics:
            return metrics
        count = sum(self.missing_files.pop(batch) for batch in skipped)
        return [replace(metrics[0], missing_files=count), *metrics[1:]]

    def _advance(self, pages: DataFrame, told: list[Any]) -> None:
        """Tell the sink of the panes, if it wants to know, what the last operator promises."""
        about, depth, sink = self._sinks[0]
        stage = self._applied.stages[depth]
        progress = page.at_depth(page.PROGRESS, stage.depth)
        promises = [least_promise(one["counts"]) for one in told if one["kind"] == progress]
        if isinstance(sink, Advancing) and len(promises) == stage.buckets:
            promise = lasting(min(promises), getattr(stage.plan, "lateness", 0))
            sink.advance(promise, replace(about, query=self._query_id(pages)))

    def close(self) -> None:
        """Let go of connections, once."""
        if not self._closed:
            self._closed = True
            self._control.show_stopped()
            for _, _, sink in self._sinks:
                sink.close()
            if self._lock is not None:
                self._lock.release()

    def _rows(self, output: str, depth: int, pages: DataFrame | None) -> DataFrame:
        rows = self._applied.rows(output, pages, depth)
        return rows if output == "panes" else with_former_columns(rows, self._record.columns(output, depth))

    def _about(self, output: Any, depth: int) -> About:
        plan = self._applied.stages[depth].plan
        return About(output, plan.key, plan.mode, plan.tells)

    def _query_id(self, pages: DataFrame) -> str:
        """Spark's id of the query, which a restart finds again in the checkpoint."""
        if not self._query:
            import json

            line = pages.sparkSession.read.text(f"{self._checkpoint}/metadata").first()
            self._query = json.loads(line["value"])["id"] if line is not None else ""
        return self._query


def lasting(promise: int, lateness: int) -> int:
    """A promise that corrections keep, too: so long after its end a window may still be told anew.

    >>> lasting(100, 30), lasting(MAX, 30) == MAX
    (70, True)
    """
    return promise if promise in (MIN, MAX) else max(promise - lateness, MIN)


def _trigger(given: str | timedelta | Mapping[str, Any] | None, ticking: bool) -> dict[str, Any]:
    if given is None:  # as soon as there is data; ticks alone are no reason to run without a pause
        return {"processingTime": "1 second" if ticking else "0 seconds"}
    if isinstance(given, Mapping):
        return dict(given)
    if given == "available_now":
        return {"availableNow": True}
    return {"processingTime": f"{duration(given, what='trigger of run()', zero=True) // 1000} milliseconds"}
