"""A pipeline as a Spark query: stamp, shuffle, stateful, unpack. A stream gives a stream, a batch gives a batch.

A batch DataFrame is a stream of one bundle that is drained at once, so it needs no state store.
"""

from __future__ import annotations

import json
import uuid
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl
import pyarrow as pa

from eventide._column_refs import expressions
from eventide._columns import NOW
from eventide.errors import PlanError, user_stack_level
from eventide.operators.factory import operator_of
from eventide.plan.errors import several_inputs, unknown_input
from eventide.plan.fingerprint import fingerprint
from eventide.plan.pipeline import check_completes, check_watermarks, over_panes
from eventide.plan.plan import Plan, spans_bundles
from eventide.processors.errors import calls_need_driver
from eventide.spark import shuffle_pages as page
from eventide.spark.buckets import bucket_count, in_few_tasks
from eventide.spark.coalesced_progress import progress_of, tracker_stage
from eventide.spark.control import commands, marks_of, needs_ticks, ticks
from eventide.spark.errors import not_spark_rows
from eventide.spark.metrics import observation, observed_columns
from eventide.spark.scan import Scan, stamp_splits
from eventide.spark.session import check_session
from eventide.spark.shuffle_pages import Layout, ShufflePage, Stage, batch_time
from eventide.spark.stamp import pages_to_batch, stamp_needs_now, stamp_pages, stamp_rows
from eventide.spark.state_processor import OperatorProcessor, TrackerProcessor, task_function
from eventide.spark.stateful import apply_pages, output_pages, sort_pages, unpack
from eventide.spark.types import polars_schema, spark_schema
from eventide.watermarks.errors import naming_input

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from eventide.plan.pipeline import Pipeline

InputRows: TypeAlias = "DataFrame | Scan"
Source: TypeAlias = "InputRows | Sequence[InputRows] | Mapping[str, InputRows]"

_APPLIED = "_eventide_applied"  # the attribute of a DataFrame of panes that holds its AppliedPipeline
_warned: set[str] = set()  # fingerprints of pipelines


@dataclass(frozen=True)
class SparkInput:
    """The rows of one input, with the columns that are sent to Python."""

    rows: InputRows
    schema: dict[str, pl.DataType]
    derived: tuple[str, ...] = ()  # columns from expressions of the plan

    @property
    def spark(self) -> SparkSession:
        """The session of the rows."""
        return self.rows.spark if isinstance(self.rows, Scan) else self.rows.sparkSession

    @property
    def streaming(self) -> bool:
        """Whether more rows may arrive."""
        return bool(self.rows.isStreaming)

    def narrowed(self, columns: AbstractSet[str]) -> SparkInput:
        """Return the input with these columns only. At least one is kept: without columns there are no rows."""
        needed = columns or {next(iter(self.schema))}
        return replace(self, schema={name: dtype for name, dtype in self.schema.items() if name in needed})

    def stamped(self, stage: Stage, edge: int) -> DataFrame:
        """Return the rows as pages for an input of an operator."""
        if isinstance(self.rows, Scan):
            function = stamp_splits(stage, edge, self.rows.reader(), keeps_unreadable=self.rows.keeps_unreadable)
            return self.rows.splits().mapInArrow(task_function(function), page.SCHEMA)
        from pyspark.sql import functions as F  # noqa: N812

        # mapInArrow resolves columns by name and takes a dot for a field of a struct, so columns are numbered.
        quoted = [f"`{name.replace('`', '``')}`" for name in self.schema]
        rows = self.rows.select(*[F.col(name).alias(f"c{number}") for number, name in enumerate(quoted)])
        if stamp_needs_now(stage.plan.edges[edge]) and not stage.tasks_know_time:
            rows = rows.withColumn(NOW, batch_time())
        return rows.mapInArrow(task_function(stamp_rows(stage, edge)), page.SCHEMA).withColumn("now", batch_time())


def bind_input(plan: Plan, rows: InputRows) -> SparkInput:
    """Return the rows of an input, with the columns that expressions of the plan add. ``plan`` is that of the input."""
    derived = expressions(plan)
    if isinstance(rows, Scan):
        if derived:
            raise PlanError(
                f"The column {next(iter(derived))!r} is an expression of Spark, but the rows of a scan do not go "
                "through Spark. Use a column of the files, or read them with spark.readStream.parquet()."
            )
        return SparkInput(rows, polars_schema(rows.schema))
    present = {name.lower() for name in rows.columns}
    rows = rows.withColumns(derived) if derived else rows
    return SparkInput(rows, polars_schema(rows.schema), tuple(name for name in derived if name.lower() not in present))


def input_rows(plan: Plan, rows: Source, *, tables: bool = False) -> list[InputRows]:
    """Return the rows of each input, in the order of the inputs. ``tables`` allows tables next to streams."""
    names = [edge.name for edge in plan.edges]
    frames = list(rows.values()) if isinstance(rows, Mapping) else rows if isinstance(rows, list | tuple) else [rows]
    for frame in frames:
        if not hasattr(frame, "isStreaming"):
            raise not_spark_rows("df.transform(pipeline) and pipeline(df) take DataFrames of Spark", frame)
    if isinstance(rows, Mapping):
        if set(rows) != set(names):
            raise unknown_input(list(rows), names)
        inputs = [rows[name] for name in names]
    else:
        inputs = list(rows) if isinstance(rows, Sequence) else [rows]
        if len(inputs) != len(names):
            if plan.inputs:
                raise several_inputs(names)
            raise PlanError(
                f"This pipeline has one input, but rows of {len(inputs)} were given. Unite them before, with "
                "first.unionByName(second), or give each its own watermark in the pipeline: ev.union(first, second)."
            )
    if not tables and len({bool(frame.isStreaming) for frame in inputs}) > 1:
        raise PlanError(
            f"of the inputs {list(names)} some are streaming and some are not. Read all of them with readStream, or "
            "none; or run the pipeline with state='driver', which reads tables once."
        )
    return inputs


@dataclass(frozen=True)
class AppliedPipeline:
    """A pipeline applied to its inputs: its output as pages, and the operators that produced them."""

    pages: DataFrame
    stages: tuple[Stage, ...]
    ticking: bool

    @property
    def stage(self) -> Stage:
        """The last operator."""
        return self.stages[-1]

    def rows(self, kind: str, pages: DataFrame | None = None, depth: int | None = None) -> DataFrame:
        """Return panes, late rows or dead letters as ordinary rows."""
        stage = self.stages[-1 if depth is None else depth]
        bodies = (self.pages if pages is None else pages).where(f"kind = '{page.at_depth(kind, stage.depth)}'")
        schema = stage.operator().output_schemas()[kind]
        rows = bodies.select("body").mapInArrow(unpack, spark_schema(schema))
        return rows if kind == page.PANES else rows.drop(*stage.derived)


def transform(pipeline: Pipeline, rows: Source) -> DataFrame:
    """Return the panes of a pipeline over its inputs. Late rows and dead letters of a stream are only counted."""
    applied = apply_chain(pipeline, rows)
    if applied.stage.streaming:
        check_completes(pipeline)
    if applied.stage.streaming and len(applied.stages) == len(pipeline.plans):
        warn_panes_only(pipeline)
    panes = applied.rows(page.PANES, observe(applied))
    setattr(panes, _APPLIED, applied)  # so that a pipeline over these panes gets their output watermark
    return panes


def warn_panes_only(pipeline: Pipeline) -> None:
    """Warn, once for each pipeline, that the late rows and dead letters of a stream are lost."""
    text = json.dumps(fingerprint(pipeline.plan), sort_keys=True)
    if text not in _warned:
        _warned.add(text)
        warnings.warn(
            "df.transform(pipeline) gives the panes of a stream; its late rows and dead letters are counted "
            "and then lost. "
            "pipeline.run(df, …) keeps them, and ev.outputs(pipeline, df) gives all three to a query of your own.",
            stacklevel=user_stack_level(),
        )


def apply_chain(
    pipeline: Pipeline, rows: Source, *, layouts: Sequence[Layout] | None = None, **options: Any
) -> AppliedPipeline:
    """Apply all operators of a pipeline to its inputs. ``options`` are those of ``apply``."""
    first, *following = pipeline.operators
    known = [Layout()] * len(pipeline.operators) if layouts is None else list(layouts)
    applied = apply(first, rows, layout=known[0], **options)
    for operator, layout in zip(following, known[1:], strict=True):
        applied = chain(operator, applied, layout=layout)
    return applied


def apply(
    pipeline: Pipeline,
    rows: Source,
    *,
    all_columns: bool = False,
    control: str | None = None,
    tasks_know_time: bool = False,
    repaired_in: int = -1,
    layout: Layout | None = None,
) -> AppliedPipeline:
    """Apply an operator to its inputs. With ``all_columns``, late rows and dead letters have all columns of the row.

    With ``tasks_know_time`` the caller calls ``set_batch_time`` for each batch. ``repaired_in`` is the batch that
    lowers the watermark. ``layout`` is that of the state in the checkpoint.
    """
    plan = pipeline.plan
    if spans_bundles(plan):
        raise calls_need_driver()
    # A DataFrame of Spark Connect has a column of every name that it is asked for.
    previous: AppliedPipeline | None = getattr(rows, "__dict__", {}).get(_APPLIED)
    if previous is not None and not expressions(plan):
        return chain(pipeline, previous)
    if input_rows(plan, rows)[0].isStreaming:
        check_watermarks(plan)
    inputs = []
    for edge, frame in enumerate(input_rows(plan, rows)):
        with naming_input(plan.edges[edge].name if plan.inputs else None):
            inputs.append(bind_input(plan.at(edge), frame))
    operator = operator_of(plan, *(bound.schema for bound in inputs))  # fails here, not in a task
    if not all_columns:
        inputs = [bound.narrowed(operator.reads(edge)) for edge, bound in enumerate(inputs)]
    spark = inputs[0].spark
    layout = layout or Layout()
    count = bucket_count(plan, spark, layout.buckets)
    # pipeline.run, which has a control stream, sets the number of state partitions itself.
    check_session(spark, streaming=inputs[0].streaming, buckets=count if control is None else None)
    stage = Stage(
        uuid.uuid4().hex,
        plan,
        tuple(bound.schema for bound in inputs),
        count,
        streaming=inputs[0].streaming,
        derived=() if plan.inputs else inputs[0].derived,
        tasks_know_time=tasks_know_time,
        repaired_in=repaired_in,
        progress=progress_of(plan, count, 0, spark, layout.progress) if inputs[0].streaming else "direct",
    )
    pages = _union(bound.stamped(stage, edge) for edge, bound in enumerate(inputs))
    # The order of the sources is the same as with state in the driver, so that a checkpoint can move.
    if stage.streaming:
        pages = _union([pages, *marks_of(spark, stage)])
    if control is not None:
        pages = pages.union(commands(spark, control, stage))
    return _add_stateful_stage(pages, (stage,), ticking=False)


def _union(frames: Iterable[DataFrame]) -> DataFrame:
    return reduce(lambda left, right: left.union(right), frames)


def chain(pipeline: Pipeline, previous: AppliedPipeline, *, layout: Layout | None = None) -> AppliedPipeline:
    """Apply an operator to the panes of another, with their output watermark."""
    layout = layout or Layout()
    plan = over_panes(pipeline.plan, previous.stage.plan)
    if spans_bundles(plan):
        raise calls_need_driver()
    schema = polars_schema(previous.rows(page.PANES).schema)
    spark, sources, streaming = previous.pages.sparkSession, previous.stage.buckets, previous.stage.streaming
    count = bucket_count(plan, spark, layout.buckets)
    stage = Stage(
        uuid.uuid4().hex,
        plan,
        (schema,),
        count,
        depth=previous.stage.depth + 1,
        sources=sources,
        streaming=streaming,
        progress=progress_of(plan, count, sources, spark, layout.progress) if streaming else "direct",
    )
    stage.operator()  # fails here, not in a task
    pages = previous.pages.mapInArrow(stamp_pages(stage), page.SCHEMA)
    return _add_stateful_stage(pages, (*previous.stages, stage), ticking=previous.ticking)


def _add_stateful_stage(pages: DataFrame, stages: tuple[Stage, ...], *, ticking: bool) -> AppliedPipeline:
    stage = stages[-1]
    if not stage.streaming:
        return AppliedPipeline(pages.groupBy("bucket").applyInArrow(process_once(stage), page.SCHEMA), stages, False)
    if not ticking and needs_ticks(stage.plan):
        pages, ticking = pages.union(ticks(pages.sparkSession, stage)), True
    if stage.progress == "coalesced":
        tracker = TrackerProcessor(tracker_stage(stage))
        pages = _stateful(pages, tracker, stage)
    return AppliedPipeline(_stateful(pages, OperatorProcessor(stage), stage), stages, ticking)


def _stateful(pages: DataFrame, processor: OperatorProcessor, stage: Stage) -> DataFrame:
    outputs = pages.groupBy("bucket").transformWithState(processor, page.SCHEMA, "Append", "None")
    return in_few_tasks(outputs, stage.buckets)


def process_once(stage: Stage) -> Callable[[pa.Table], pa.Table]:
    """Return the function that processes all pages of one bucket of a batch DataFrame, without a state store."""

    def process(pages: pa.Table) -> pa.Table:
        rows = sort_pages(pages.to_pylist(maps_as_pydicts="strict"))
        step, _ = apply_pages(stage, stage.operator().initial(), rows, {})
        forwarded = [ShufflePage(**row) for row in rows if "." in row["kind"]]
        return pa.Table.from_batches([pages_to_batch([*output_pages(stage, rows[0]["bucket"], step, {}), *forwarded])])

    process.__annotations__ = {"pages": pa.Table, "return": pa.Table}  # Spark reads the types, which must not be text
    return process


def observe(applied: AppliedPipeline) -> DataFrame:
    """Return the pages with the counts of each operator as observed metrics, for Spark's progress and listeners."""
    pages = applied.pages
    if applied.stage.streaming:
        for stage in applied.stages:
            pages = pages.observe(observation(stage), *observed_columns(stage.depth))
    return pages
