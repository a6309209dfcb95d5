"""``ev.outputs``: panes, late rows and dead letters of one query, for sinks that the user writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from eventide._hints import with_option_hints
from eventide.errors import PlanError
from eventide.plan.pipeline import Pipeline
from eventide.spark import shuffle_pages as page
from eventide.spark.dataflow import AppliedPipeline, Source, apply_chain, observe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SplitOutputs(NamedTuple):
    """The rows of a batch by output."""

    panes: DataFrame
    late: DataFrame
    dead: DataFrame


class QueryOutputs:
    """The outputs of a pipeline, as ``ev.outputs`` returns them.

    For a batch DataFrame, ``panes``, ``late`` and ``dead`` are DataFrames. For a stream there is one streaming
    DataFrame, ``pages``, because two queries would be two computations with two states. Write it with ``foreachBatch``,
    and ``split`` each of its batches.
    """

    def __init__(self, applied: AppliedPipeline) -> None:
        self._applied = applied
        self.pages: DataFrame = observe(applied)

    def __repr__(self) -> str:
        return f"<QueryOutputs of a {'stream' if self.isStreaming else 'table'}>"

    @property
    def isStreaming(self) -> bool:  # noqa: N802  # the name of a DataFrame
        """Whether the rows are a stream."""
        return self._applied.stage.streaming

    @property
    def panes(self) -> DataFrame:
        """The panes of a batch DataFrame."""
        return self._split_table("panes").panes

    @property
    def late(self) -> DataFrame:
        """The late rows of a batch DataFrame; in a chain those of the first pipeline."""
        return self._split_table("late").late

    @property
    def dead(self) -> DataFrame:
        """The dead letters of a batch DataFrame; in a chain those of the first pipeline."""
        return self._split_table("dead").dead

    def split(self, batch: DataFrame, *, depth: int = 0) -> SplitOutputs:
        """Return the panes, late rows and dead letters in a batch of ``pages``.

        Each of them reads the batch, so call ``batch.persist()`` before, or the query is computed three times. In a
        chain, ``panes`` are those of the last pipeline. ``depth`` is the pipeline, counted from 0, whose late rows and
        dead letters are returned.
        """
        if not 0 <= depth < len(self._applied.stages):
            raise PlanError(
                f"split(depth={depth!r}): the query has {len(self._applied.stages)} pipelines, counted from 0."
            )
        rows = self._applied.rows
        return SplitOutputs(rows(page.PANES, batch), rows(page.LATE, batch, depth), rows(page.DEAD, batch, depth))

    def _split_table(self, output: str) -> SplitOutputs:
        if self.isStreaming:
            raise PlanError(
                f"outputs(): a stream has no separate .{output}, because that would be another query. Write .pages "
                "with writeStream.foreachBatch(write), and in write(batch, batch_id): "
                "panes, late, dead = outputs.split(batch)."
            )
        return self.split(self.pages)


@with_option_hints
def outputs(pipeline: Pipeline, rows: Source) -> QueryOutputs:
    """Return panes, late rows and dead letters of a pipeline over a DataFrame, from one query.

    ``pipeline.run`` is simpler: it writes all three into sinks. This is for a query that you write yourself.

    >>> import eventide as ev
    >>> per_minute = ev.stream(time="ts", key="shop").window(ev.tumbling("1 minute")).agg(orders=ev.count())
    >>> orders = ev.outputs(per_minute, events)  # doctest: +SKIP
    >>> def write(batch, batch_id):
    ...     batch.persist()
    ...     panes, late, dead = orders.split(batch)
    ...     panes.write.mode("append").saveAsTable("orders_per_minute")
    ...     late.write.mode("append").saveAsTable("late_orders")
    ...     dead.write.mode("append").saveAsTable("dead_orders")
    ...     batch.unpersist()
    >>> orders.pages.writeStream.foreachBatch(write).option("checkpointLocation", "…").start()  # doctest: +SKIP
    """
    if not isinstance(pipeline, Pipeline):
        hint = " Chain pipelines with a.then(b)." if isinstance(pipeline, (list, tuple)) else ""
        raise PlanError(f"outputs() takes a pipeline, not a {type(pipeline).__name__}.{hint}")
    return QueryOutputs(apply_chain(pipeline, rows, all_columns=True))
