"""``ev.run``: one query with all of its outputs, each sink exactly once where it can be."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from eventide import sinks
from eventide.errors import spark as errors
from eventide.plan.pipeline import Pipeline
from eventide.sinks import About, Sink
from eventide.sinks.sink import Advancing
from eventide.spark import page
from eventide.spark.control import Control
from eventide.spark.feeding import Source, sources
from eventide.spark.host import Applied, apply, follow, observed
from eventide.spark.metrics import BatchMetrics, read_metrics
from eventide.spark.query import Query
from eventide.spark.session import check_session
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
) -> Query:
    """Run a pipeline, or a chain of them, over a streaming DataFrame, with all outputs in one query.

    A pipeline with several inputs takes a DataFrame for each, as a list in their order or by their names.

    ``panes``, ``late`` and ``dead`` are sinks (see ``ev.sinks``) or functions ``(batch, batch_id)``. Late rows and dead
    letters for which no sink is named are kept as files beside the checkpoint: nothing is lost silently. Of a chain,
    ``late`` and ``dead`` are those of the first pipeline; what the others set aside is kept as files.
    ``trigger`` is ``"available_now"``, a length of time between batches, or what ``writeStream.trigger`` takes.
    With ``"available_now"`` the call returns when all there is has been processed, otherwise at once.
    ``drain`` ends the stream then: all open windows fire and close.

    >>> import eventide as ev
    >>> per_minute = ev.stream(time="ts", key="shop").window(ev.tumbling("1 minute")).agg(orders=ev.count())
    >>> ev.run(per_minute, events, panes=ev.sinks.table("sqlite:///orders.db"), checkpoint="checkpoints/orders",
    ...        trigger="10 seconds")  # doctest: +SKIP
    """
    chain = [pipeline] if isinstance(pipeline, Pipeline) else list(pipeline)
    if not chain or not all(isinstance(one, Pipeline) for one in chain):
        raise errors.not_pipelines(pipeline)
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
    control = Control(checkpoint, spark)
    control.open()
    applied = apply(chain[0], rows, everything=True, control=control.place)
    for following in chain[1:]:
        applied = follow(following, applied)
    outputs = Outputs(
        applied, panes=panes, late=late, dead=dead, checkpoint=checkpoint, control=control, on_batch=on_batch
    )
    outputs.open()
    writer = observed(applied).writeStream.outputMode("append").option("checkpointLocation", checkpoint)
    writer = writer.queryName(name) if name else writer
    writer = writer.foreachBatch(outputs.write).trigger(**spoken)
    query = _started(writer, control, outputs)
    if "availableNow" not in spoken:
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
        *,
        panes: Any,
        late: Any,
        dead: Any,
        checkpoint: str,
        control: Control,
        on_batch: OnBatch | None,
    ) -> None:
        self._applied = applied
        self._checkpoint = checkpoint
        self._control = control
        self._on_batch = on_batch
        self._keys = {stage.depth: stage.plan.watermark.options.watermark_key for stage in applied.stages}
        self._query = ""
        self._closed = False
        self.history: list[BatchMetrics] = []
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

    def write(self, pages: DataFrame, batch_id: int) -> None:
        """One batch into all sinks."""
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
        self._control.report(metrics)
        self.history.extend(metrics)
        del self.history[:-1000]
        for one in metrics:
            if self._on_batch is not None:
                self._on_batch(one)

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

    def _rows(self, output: str, depth: int, pages: DataFrame | None) -> DataFrame:
        return self._applied.rows(output, pages, depth)

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
