"""``ev.outputs``: panes, late rows and dead letters of one query, for sinks that the user writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from eventide.errors import spark as errors
from eventide.plan.pipeline import Pipeline
from eventide.spark import page
from eventide.spark.feeding import Source
from eventide.spark.host import Applied, apply, follow, observed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SplitOutputs(NamedTuple):
    """The rows of a batch by output."""

    panes: DataFrame
    late: DataFrame
    dead: DataFrame


class QueryOutputs:
    """What ``ev.outputs`` gives.

    Of a batch DataFrame, ``panes``, ``late`` and ``dead`` are DataFrames. Of a stream there is one streaming DataFrame,
    ``pages``, because two queries would be two computations with two states: write it with ``foreachBatch``, and
    ``split`` each of its batches.
    """

    def __init__(self, applied: Applied) -> None:
        self._applied = applied
        self.pages: DataFrame = observed(applied)

    @property
    def isStreaming(self) -> bool:  # noqa: N802  # as a DataFrame says it
        """Whether the rows are a stream."""
        return self._applied.stage.streaming

    @property
    def panes(self) -> DataFrame:
        """The panes of a batch DataFrame."""
        return self._whole("panes").panes

    @property
    def late(self) -> DataFrame:
        """The late rows of a batch DataFrame. Of a chain: those of its first pipeline."""
        return self._whole("late").late

    @property
    def dead(self) -> DataFrame:
        """The dead letters of a batch DataFrame. Of a chain: those of its first pipeline."""
        return self._whole("dead").dead

    def split(self, batch: DataFrame, *, depth: int = 0) -> SplitOutputs:
        """The panes, late rows and dead letters in a batch of ``pages``.

        Each of them reads the batch: ``batch.persist()`` before, or the query is computed once for each. Of a chain,
        ``panes`` are those of its last pipeline, and ``depth`` counts from 0 which pipeline's late rows and dead
        letters these are.
        """
        if not 0 <= depth < len(self._applied.stages):
            raise errors.no_such_depth(depth, len(self._applied.stages))
        rows = self._applied.rows
        return SplitOutputs(rows(page.PANES, batch), rows(page.LATE, batch, depth), rows(page.DEAD, batch, depth))

    def _whole(self, output: str) -> SplitOutputs:
        if self.isStreaming:
            raise errors.outputs_of_a_stream(output)
        return self.split(self.pages)


def outputs(pipeline: Pipeline | Sequence[Pipeline], rows: Source) -> QueryOutputs:
    """Panes, late rows and dead letters of a pipeline over a DataFrame, from one query.

    ``ev.run`` is the simpler way: it writes all three into sinks. This is for a query that you write yourself.

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
    chain = [pipeline] if isinstance(pipeline, Pipeline) else list(pipeline)
    if not chain or not all(isinstance(part, Pipeline) for part in chain):
        raise errors.not_pipelines("outputs()", pipeline)
    applied = apply(chain[0], rows, everything=True)
    for following in chain[1:]:
        applied = follow(following, applied)
    return QueryOutputs(applied)
