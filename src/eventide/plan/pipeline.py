"""Pipelines: one plan or a chain of plans that a host runs. Only this module of the package imports hosts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from eventide._hints import with_attribute_hints, with_option_hints
from eventide.errors import PlanError
from eventide.plan.chain_columns import check_chain_columns
from eventide.plan.explain import explain, summary, table
from eventide.plan.join_plan import JoinPlan
from eventide.plan.plan import Plan
from eventide.plan.process_plan import ProcessPlan
from eventide.plan.retractions import ONCE, emits_retractions, no_retractions
from eventide.plan.window_plan import WindowPlan
from eventide.triggers import AfterWatermark, InOrder, Never, Parallel, Repeatedly, Trigger
from eventide.watermarks.generators import NoWatermark
from eventide.windows.global_window import GlobalWindow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from eventide.local import Clock, LocalQuery, LocalResult, Rows
    from eventide.sinks import AnySink
    from eventide.spark.dataflow import Source
    from eventide.spark.query import Query
    from eventide.spark.query_record import Placement
    from eventide.spark.run import RunOptions
    from eventide.spark.scan import Scan
    from eventide.spark.sink_delivery import OnBatch
    from eventide.spark.source_log import OnMissingFile


def over_panes(plan: Plan, before: Plan) -> Plan:
    """Return a plan as hosts run it over the panes of another plan.

    Its watermark is the output watermark of the operator before. Retractions of that operator are applied, so that the
    windows of the later operator count every row once. A plan that cannot apply them is rejected.
    """
    if isinstance(plan, JoinPlan) or plan.inputs:
        raise PlanError(
            f"a pipeline with the inputs {[stream.name for stream in plan.inputs]} cannot follow another one, which "
            "gives only one of them. Let it stand first in the chain, or write what comes before it to a table and "
            "read that as a stream."
        )
    retracts = emits_retractions(before)
    if retracts and (reason := no_retractions(plan)) is not None:
        raise PlanError(f"The pipeline before retracts panes: {reason} {ONCE}")
    watermark = plan.watermark.over_panes()
    if isinstance(plan, ProcessPlan):
        return replace(plan, watermark=watermark)
    assert isinstance(plan, WindowPlan)
    return replace(plan, watermark=watermark, applies_diff=retracts)


def check_watermarks(plan: Plan) -> None:
    """Reject a plan that waits for the watermark of an input that names none.

    ``ev.no_watermark()`` is accepted: it states that there is no watermark. Tables need none, because they end.
    """
    for edge, source in enumerate(plan.edges):
        rule = source.watermark.generator
        if not isinstance(rule, NoWatermark) or rule.stated:
            continue
        waits, ids = _waits_for(plan, edge), source.watermark.options.ids
        if waits or ids:
            never = "windows would never be complete, and rows" if waits else "ids of .deduplicate(within=…)"
            raise PlanError(
                f"{f'The input {source.name!r}' if plan.inputs else 'The stream'} has no watermark: on a stream its "
                f"{never} would never be dropped. "
                'Add watermark= to ev.stream(…): ev.bounded_delay("30 seconds") follows the highest event time, '
                'ev.processing_time("30 seconds") follows the clock, also when no rows arrive. Or declare that there '
                "is none: ev.no_watermark(), for a trigger by count or processing time, or a stream that is drained. "
                "In SQL: WATERMARK FOR ts AS ts - INTERVAL '30' SECOND."
            )


def check_completes(pipeline: Pipeline) -> None:
    """Reject a plan that emits nothing before its stream ends, for a stream that is not drained.

    ``ev.no_watermark()`` is accepted: it states that the stream is drained.
    """
    for plan in pipeline.plans:
        stated = any(isinstance(source.watermark.generator, NoWatermark) for source in pipeline.plan.edges)
        waits = isinstance(plan, WindowPlan) and not emits_without_watermark(plan.trigger)
        if waits and isinstance(plan.window, GlobalWindow) and not stated:
            raise PlanError(
                "The global window is complete when the stream ends: until then this pipeline would emit nothing. "
                "Add a trigger, such as .emit(early='10 seconds') or .trigger(ev.repeatedly(ev.after_count(1000))), "
                "or use windows that end, such as ev.tumbling('1 day'). In SQL: EMIT EARLY EVERY INTERVAL '10' SECOND. "
                "For a result at the end, run the query with drain=True, or declare watermark=ev.no_watermark()."
            )


def emits_without_watermark(trigger: Trigger) -> bool:
    """Whether a trigger emits panes although no window is ever complete.

    >>> import eventide as ev
    >>> emits_without_watermark(ev.after_watermark()), emits_without_watermark(ev.after_watermark(early=ev.on_update()))
    (False, True)
    """
    match trigger:
        case AfterWatermark():
            return trigger.early is not None and emits_without_watermark(trigger.early)
        case Repeatedly():
            return emits_without_watermark(trigger.inner)
        case Parallel():
            emits = [emits_without_watermark(part) for part in trigger.triggers]
            return all(emits) if trigger.need_all else any(emits)
        case InOrder():
            return emits_without_watermark(trigger.triggers[0])
        case Never():
            return False
    return True


def _waits_for(plan: Plan, edge: int) -> bool:
    if isinstance(plan, JoinPlan):  # a watermark drops rows of a side, and emits unmatched outer rows
        return any(side.by == edge and side.length is not None for side in plan.retention)
    if isinstance(plan, WindowPlan):
        return plan.window.axis == "time" and not emits_without_watermark(plan.trigger)
    return False  # a processor decides itself when it emits rows


class Runnable(ABC):
    """Something that runs as one query on Spark, with all of its outputs."""

    @with_option_hints
    def run(
        self,
        rows: Source | str | Mapping[str, str],
        *,
        sink: AnySink,
        checkpoint: str | Path,
        late: AnySink | None = None,
        dead: AnySink | None = None,
        interval: str | timedelta | None = None,
        available_now: bool = False,
        drain: bool = False,
        name: str | None = None,
        on_batch: OnBatch | None = None,
        wait: bool = False,
        state: Placement = "driver",
        state_memory: int | str | None = None,
        whole_rows: bool = False,
        source_position: bool = False,
        on_missing_file: OnMissingFile = "fail",
        storage: Any = None,
        single_writer: bool = False,
        trace: bool | str | Path = False,
    ) -> Query:
        """Run over a streaming DataFrame, with all outputs in one query: exactly once in each sink that supports it.

        ``rows`` of several inputs are one DataFrame per input: a list in the order of the inputs, or a dict by name.
        With state in the driver some of them may be tables: they are read in the first batch, and then have ended.
        An address is a source, too: ``"data/orders/"``, ``"kafka:orders@broker:9092?schema=ts timestamp"``.

        ``sink``, ``late`` and ``dead`` are addresses (``"postgresql://db/shop#revenue"``, ``"out/panes/"``,
        ``"console"``), sinks (see ``ev.sinks``) or functions ``(batch, batch_id)``. Late rows and dead letters for
        which no sink is named are stored as files next to the checkpoint: nothing is lost silently. Of a chain,
        ``late`` and ``dead`` are those of the first pipeline; those of the others are stored as files.

        ``interval`` is the time between batches (``"10 seconds"``); by default a batch starts as soon as there is data.
        With ``available_now`` the query processes the data that is available, and the call returns when it has ended.
        ``drain`` does the same and ends the stream: all open windows fire and close. Otherwise the call returns at
        once, or with ``wait`` when the query has ended; then it raises the error that stopped the query.

        ``state`` is where the query stores its state. In the ``"driver"`` it is in this process, with a commit record
        per batch in the checkpoint: batches cost less, and any session works. ``state_memory`` (``"2g"``) limits the
        memory that it uses there. Late rows and dead letters have the columns that the pipeline reads, or all of the
        source's with ``whole_rows``. With ``source_position`` they also have the file and the row in it (or the topic,
        partition and offset), where the source knows them. On the ``"executors"`` the state is in Spark's state store,
        for state and rates beyond one machine; that needs a session as ``ev.spark_session`` makes it.

        Spark repeats the batch that a crash interrupted. If a source file of that batch was deleted meanwhile, ``run``
        fails and names the file; with ``on_missing_file="skip"`` the query continues without it, and the metrics
        count it.

        Commit records are in the checkpoint, or in ``storage``: a store of obstore or a file system of fsspec. The
        store must never overwrite an existing file, which is tested at the start. With ``single_writer`` any store
        works, as long as only one driver at a time runs on the checkpoint.

        Next to a checkpoint on this machine the query writes a history of its newest batches, for ``ev.dashboard`` and
        ``eventide plot``; a file in ``trace`` gets all batches, wherever the checkpoint is. With state in the driver
        a history has the windows of the panes, too. On the executors that takes a small Spark job for each batch,
        which runs with such a file or with ``trace=True``.

        >>> import eventide as ev
        >>> orders = ev.stream(time="ts", key="shop", watermark="30 seconds")
        >>> per_minute = orders.window(ev.tumbling("1 minute")).agg(orders=ev.count())
        >>> query = per_minute.run(
        ...     events, sink="sqlite:///shop.db#orders", checkpoint="checkpoints/orders",
        ...     interval="10 seconds", wait=True,
        ... )  # doctest: +SKIP
        """
        from eventide.spark.run import RunOptions
        from eventide.spark.sources import read_rows

        options = RunOptions(
            sink=sink,
            checkpoint=checkpoint,
            late=late,
            dead=dead,
            interval=interval,
            available_now=available_now,
            drain=drain,
            name=name,
            on_batch=on_batch,
            wait=wait,
            state=state,
            state_memory=state_memory,
            whole_rows=whole_rows,
            source_position=source_position,
            on_missing_file=on_missing_file,
            storage=storage,
            single_writer=single_writer,
            trace=trace,
        )
        options.check()  # before the rows, which need a session
        return self._run(read_rows(rows), options)

    @abstractmethod
    def _as_pipeline(self) -> Pipeline:
        """The pipeline that computes it, for a chain or a test."""

    @abstractmethod
    def _run(self, rows: Source, options: RunOptions) -> Query:
        """Start the query."""


@with_attribute_hints
@dataclass(frozen=True)
class Pipeline(Runnable):
    """A plan or a chain of plans, as ``.agg(…)``, ``.process(…)``, the joins and ``.then(…)`` return it.

    >>> import eventide as ev, polars as pl
    >>> per_minute = ev.stream("ts").window(ev.tumbling("1 minute")).agg(n=ev.count())
    >>> per_minute.local(pl.DataFrame({"ts": ["2026-03-01T12:00:05Z", "2026-03-01T12:00:40Z"]})).panes["n"].to_list()
    [2]
    """

    plan: Plan  # of a chain, the first
    following: tuple[Plan, ...] = ()  # the further plans of a chain

    @with_option_hints
    def then(self, following: Runnable) -> Pipeline:
        """Chain pipelines: the panes of this pipeline are the rows of the following one.

        The output watermark of this pipeline is the watermark of the following one. Retracted panes are
        subtracted there.

        >>> import eventide as ev, polars as pl
        >>> minutes = ev.stream(time="t", key="shop").window(ev.tumbling("1 minute")).agg(n=ev.count())
        >>> busiest = ev.stream(time="window_time").window(ev.tumbling("1 hour")).agg(most=ev.max("n"))
        >>> rows = pl.DataFrame({"t": [0, 1, 60_000_000], "shop": ["kiel"] * 3})
        >>> minutes.then(busiest).local(rows).panes["most"].to_list()
        [2]
        """
        if not isinstance(following, Runnable):
            kind = type(following).__name__
            hint = " Complete it first, with .agg(…)." if kind in ("Stream", "WindowedStream") else ""
            raise PlanError(f".then() takes a pipeline, whose rows are the panes of this one, not a {kind}.{hint}")
        later = following._as_pipeline()
        chain = replace(self, following=(*self.following, later.plan, *later.following))
        _ = chain.plans  # rejects plans that cannot follow each other
        check_chain_columns(later.plan, (self.plan, *self.following)[-1])
        return chain

    @property
    def operators(self) -> tuple[Pipeline, ...]:
        """The pipelines of a chain, each as it was built. A single pipeline is a chain of one."""
        return tuple(Pipeline(plan) for plan in (self.plan, *self.following))

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plans of a chain, as hosts run them."""
        pairs = pairwise((self.plan, *self.following))
        return (self.plan, *(over_panes(plan, before) for before, plan in pairs))

    @with_option_hints
    def explain(self) -> str:
        """Return the plan as text: windows, triggers, clocks, state, and what may be lost on each host."""
        return "\n".join(map(explain, self.plans))

    def _as_pipeline(self) -> Pipeline:
        return self

    def _run(self, rows: Source, options: RunOptions) -> Query:
        from eventide.spark.run import run

        return run(self, rows, options)

    def __or__(self, other: object) -> NoReturn:
        raise TypeError("Pipelines have no operator |. Chain them: first.then(second).")

    @with_option_hints
    def __call__(self, rows: Source, *others: DataFrame | Scan) -> DataFrame:
        """Return the panes of a Spark DataFrame, streaming or not: ``events.transform(pipeline)``.

        Late rows and dead letters are not kept: ``pipeline.run`` and ``ev.outputs`` keep them.

        With several inputs, the DataFrame of each, in their order or by name: ``pipeline(orders, shipments)``.
        """
        from eventide.spark.dataflow import transform

        return transform(self, [rows, *others] if others else rows)  # type: ignore[list-item]  # then rows is one input

    @with_option_hints
    def local(
        self,
        rows: Rows | Mapping[str, Rows],
        *,
        bundle_by: str | int | None = None,
        every: str | timedelta | None = None,
        clock: Clock | None = None,
        drain: bool = True,
    ) -> LocalResult:
        """Run in this process: each frame of ``rows`` is a bundle. With ``drain`` all windows fire at the end.

        One frame is one bundle: all of its rows arrive at once, so none of them is late, and no pane is early. To
        see what a stream would emit, replay the frame: ``bundle_by="arrived_at"`` names a column of arrival times.
        Rows arrive in that order, those of one time (or of one period of ``every``) together, and the batch clock
        follows. ``bundle_by=100`` makes bundles of 100 rows.

        >>> import eventide as ev, polars as pl
        >>> minutes = ev.stream("ts", watermark="0 seconds").window(ev.tumbling("1 minute"))
        >>> counts = minutes.emit(early="10 seconds", allowed_lateness="1 hour").agg(n=ev.count())
        >>> rows = pl.DataFrame({"ts": [5, 50, 70, 20], "arrived_at": [6, 51, 71, 80]}) * 1_000_000
        >>> counts.local(rows).metrics.panes
        {'ON_TIME': 2}
        >>> counts.local(rows, bundle_by="arrived_at").metrics.panes
        {'EARLY': 2, 'ON_TIME': 2, 'LATE': 1}

        ``clock`` gives the batch time of each bundle (a list of instants). Without it, and without a column of arrival
        times, triggers on processing time use the wall clock.

        With several inputs, ``rows`` has the frames of each under its name; a bundle takes one of every input. The
        address of files (``"orders.parquet"``, ``"csv:orders?header=true"``) is read as one frame.
        """
        from eventide.local import run_local

        return run_local(self, rows, bundle_by=bundle_by, every=every, clock=clock, drain=drain)

    def start_local(self, schema: Any = None, *, saved: bytes | None = None, keep: bool = True) -> LocalQuery:
        """Start a query in this process that takes bundles one by one; ``saved`` restores the state of an earlier one.

        ``query.result`` collects all outputs of ``push``, unless ``keep=False``, for queries that run long.
        """
        from eventide.local import LocalQuery

        return LocalQuery(self, schema, saved=saved, keep=keep)

    def __repr__(self) -> str:
        return f"<Pipeline: {summary(*self.plans)}>"

    def _repr_html_(self) -> str:
        """Return the plan as HTML, for notebooks."""
        return "".join(map(table, self.plans))
