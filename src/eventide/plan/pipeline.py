"""A pipeline: a plan that can be applied to data. Immutable, so it can be kept, shared and shipped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from eventide.hints import no_attribute
from eventide.plan.explain import explain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from eventide.local import Clock, LocalQuery, LocalResult, Rows
    from eventide.spark.feeding import Source
    from eventide.spark.scan import Scan


@dataclass(frozen=True)
class Pipeline:
    """What ``.agg(…)``, ``.process(…)`` and the joins give."""

    plan: Any  # a Plan, a JoinPlan, or a ProcessPlan

    def explain(self) -> str:
        """What the pipeline does, in words: windows, triggers, clocks, state, and what may be lost on each host."""
        return explain(self.plan)

    def __call__(self, rows: Source, *others: DataFrame | Scan) -> DataFrame:
        """The panes over a DataFrame of Spark, streaming or not: ``events.transform(pipeline)``.

        Late rows and dead letters are not kept: ``ev.run`` and ``ev.outputs`` do.

        With several inputs, the DataFrame of each, in their order or by name: ``pipeline(orders, shipments)``.
        """
        from eventide.spark.host import transform

        return transform(self, [rows, *others] if others else rows)  # type: ignore[list-item]

    def local(self, rows: Rows | Mapping[str, Rows], *, clock: Clock | None = None, drain: bool = True) -> LocalResult:
        """Run in this process: each frame of ``rows`` is a bundle. With ``drain`` all windows fire at the end.

        With several inputs, ``rows`` has the frames of each under its name; a bundle takes one of every input.

        ``clock`` gives the batch time of each bundle (a list of instants); by default it is the wall clock.
        """
        from eventide.local import run_local

        return run_local(self, rows, clock=clock, drain=drain)

    def start_local(self, schema: Any = None, *, saved: bytes | None = None, keep: bool = True) -> LocalQuery:
        """A query in this process that takes bundles one by one; with ``saved`` one that goes on where it was saved.

        What ``push`` gives is also kept in ``query.result``, unless ``keep=False``: for queries that run long.
        """
        from eventide.local import LocalQuery

        return LocalQuery(self, schema, saved=saved, keep=keep)

    if not TYPE_CHECKING:  # type checkers report attributes that do not exist

        def __getattr__(self, name: str) -> Any:
            """Name what is probably meant by an attribute that does not exist."""
            if name.startswith("_"):  # those that Python asks for
                raise AttributeError(name)
            raise AttributeError(no_attribute("Pipeline", name, dir(type(self))))

    def __repr__(self) -> str:
        return f"<Pipeline\n{self.explain()}>"

    def _repr_html_(self) -> str:
        """What a notebook shows of it."""
        from eventide.plan.html import table

        return table(self.plan)


def over_panes(pipeline: Pipeline) -> Pipeline:
    """The pipeline as hosts run it where it is a later one of a chain: its rows are panes of another pipeline."""
    plan = pipeline.plan
    return pipeline if plan.inputs else Pipeline(replace(plan, watermark=plan.watermark.over_panes()))
