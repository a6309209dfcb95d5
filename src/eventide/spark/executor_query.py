"""A query with state on the executors: its output pages, and the callback that writes them into the sinks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from eventide.plan.pipeline import Pipeline
from eventide.sinks.batch import SinkBatch
from eventide.spark import shuffle_pages as page
from eventide.spark.coalesced_progress import describe_progress
from eventide.spark.control import Control
from eventide.spark.dataflow import AppliedPipeline, Source, apply_chain, observe
from eventide.spark.metrics import read_metrics
from eventide.spark.repair import repaired_in
from eventide.spark.shuffle_pages import Layout, Stage, set_batch_time
from eventide.spark.sink_delivery import RunOutputs
from eventide.spark.stamp import least_output_watermark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class ExecutorPlan:
    """A chain of pipelines with state on the executors."""

    applied: AppliedPipeline
    local: Path | None  # the checkpoint, if it is on this machine

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The operators of the query."""
        return self.applied.stages

    def ticks(self, *, followed: bool) -> bool:
        """Return whether a batch runs at every trigger, because the plan depends on processing time."""
        return self.applied.ticking

    def facts(self, *, followed: bool) -> list[tuple[str, str]]:
        """Return a description of the placement: pairs of a name and a line."""
        buckets = self.stages[0].buckets
        return [
            (
                "state",
                f"executors, in {'1 bucket' if buckets == 1 else f'{buckets} buckets, for up to {buckets} cores'}",
            ),
            ("transport", "stamps, from the tasks that read to the tasks that hold state"),
            *self._progress(),
            ("columns", "all; late rows have all columns"),
            ("batches", "at every trigger" if self.ticks(followed=followed) else "when there is data"),
        ]

    def _progress(self) -> list[tuple[str, str]]:
        lines = [describe_progress(stage) for stage in self.stages]
        if len(set(lines)) == 1:
            return [("progress", lines[0])]
        return [(f"progress {number}", line) for number, line in enumerate(lines, 1)]

    def dataframe(self, *, followed: bool) -> DataFrame:
        """Return the streaming DataFrame of the query: its output pages."""
        return observe(self.applied)

    def callback(self, outputs: RunOutputs, *, ends: bool) -> Callable[[DataFrame, int], None]:
        """Return the function that writes a batch of that DataFrame."""
        return ForeachBatchWriter(self.applied, outputs, self.local)


def plan_on_executors(
    pipeline: Pipeline, rows: Source, *, control: Control, local: Path | None, layouts: Sequence[Layout]
) -> ExecutorPlan:
    """Bind a pipeline to its sources. ``layouts`` are those of the checkpoint, one for each operator."""
    applied = apply_chain(
        pipeline,
        rows,
        layouts=layouts,
        all_columns=True,
        control=control.place,
        tasks_know_time=local is not None,
        repaired_in=repaired_in(control.storage),
    )
    return ExecutorPlan(applied, local)


class ForeachBatchWriter:
    """The callback of ``foreachBatch``."""

    def __init__(self, applied: AppliedPipeline, outputs: RunOutputs, local: Path | None) -> None:
        self._applied = applied
        self._outputs = outputs
        self._local = local
        self._keys = {stage.depth: stage.plan.watermark.options.watermark_key for stage in applied.stages}

    def __call__(self, pages: DataFrame, batch_id: int) -> None:
        """Write one batch into all sinks."""
        if self._local is not None:
            set_batch_time(pages.sparkSession, self._local, batch_id)
        start = perf_counter()
        pages.persist()  # the sinks and the counts share one computation
        try:
            headers = pages.selectExpr("kind", "counts", "now", "detail", "length(body) AS size").collect()
            sizes: Counter[str] = Counter()
            for header in headers:
                sizes[header["kind"]] += header["size"] or 0

            def rows(output: str, depth: int) -> SinkBatch | None:
                kind = page.at_depth(output, self._applied.stages[depth].depth)
                if kind not in sizes:
                    return None
                # A page has at least one row, so the sink needs no job to find out whether there are rows.
                frame = self._applied.rows(output, pages, depth)
                return SinkBatch(frame, pages.sparkSession, has_rows=True, size=sizes[kind])

            self._outputs.write(batch_id, rows)
            self._advance(headers)
        finally:
            pages.unpersist()
        self._outputs.report(read_metrics(batch_id, headers, self._keys, seconds=perf_counter() - start))

    def _advance(self, headers: list[Any]) -> None:
        stage = self._applied.stages[-1]
        progress = page.at_depth(page.PROGRESS, stage.depth)
        watermarks = [least_output_watermark(header["counts"]) for header in headers if header["kind"] == progress]
        if len(watermarks) == stage.buckets:
            self._outputs.advance(min(watermarks))
