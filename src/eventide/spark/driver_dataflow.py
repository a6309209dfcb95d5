"""Binds pipelines and their sources to a query whose state is in the driver."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eventide.operators.chain import Chain
from eventide.operators.factory import operator_of
from eventide.plan.pipeline import Pipeline, check_watermarks
from eventide.plan.plan import Plan, spans_bundles
from eventide.spark.control import needs_ticks
from eventide.spark.dataflow import InputRows, Source, SparkInput, bind_input, input_rows
from eventide.spark.driver_input import DriverInput, RowInput, StampInput, TableInputs
from eventide.spark.driver_query import DriverQuery
from eventide.spark.driver_scan import ScanInput, reads_all_files
from eventide.spark.scan import ParquetScan, Scan
from eventide.spark.shuffle_pages import Stage
from eventide.spark.sink_delivery import RunOutputs
from eventide.spark.sources import with_source_position
from eventide.spark.storage import Storage
from eventide.spark.types import polars_schema, spark_schema
from eventide.watermarks.errors import naming_input
from eventide.watermarks.generators import Noted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class DriverPlan:
    """A chain of pipelines whose state is in the driver."""

    stages: tuple[Stage, ...]
    input: DriverInput
    tables: TableInputs
    control: str  # the directory of the commands
    storage: Storage  # of the checkpoint
    records: Storage  # of the commit records
    memory: int
    columns: int  # of the sources
    whole_rows: bool
    positions: int | None  # columns with the position of a row in the source; None: not asked for

    def facts(self, *, followed: bool) -> list[tuple[str, str]]:
        """Return the placement for ``explain()``: pairs of a name and a line."""
        batches = "when there is data"
        if any(needs_ticks(stage.plan) for stage in self.stages):
            batches += ", and at deadlines of the clock"
        if any(spans_bundles(stage.plan) for stage in self.stages):
            batches += ", and when calls are answered"
        return [
            ("state", f"driver, up to {self.memory / (1 << 30):.1f} GB in memory"),
            ("transport", self.input.transport),
            ("columns", self._columns()),
            ("batches", "at every trigger" if self.ticks(followed=followed) else batches),
        ]

    def _columns(self) -> str:
        """Return which columns are read, and which of them late rows have."""
        positions = self.positions or 0
        read = f"{self.input.columns - positions} of {self.columns}"
        late = "all columns" if self.whole_rows else "the columns that the plan reads"
        if self.positions is None:
            return f"{read}; late rows have {late}"
        if not positions:
            return f"{read}; late rows have {late}, and the source has no positions"
        return f"{read}, and {positions} for the position in the source; late rows have {late}, and their position"

    def ticks(self, *, followed: bool) -> bool:
        """Whether a batch runs at every trigger: a watermark follows the clock, and every move of it matters."""
        return Chain([stage.operator() for stage in self.stages]).moves_with_clock(followed=followed)

    def dataframe(self, *, followed: bool) -> DataFrame:
        """Return the streaming DataFrame of the query: its rows.

        Some sources only start batches, and their rows are filtered out: the control directory, with commands that the
        driver reads itself and with wake-ups, and a tick at every trigger where there is always a next deadline.
        """
        from pyspark.sql import functions as F  # noqa: N812

        rows = self.input.dataframe()
        spark, first = rows.sparkSession, rows.schema.fields[0]
        starters = [spark.readStream.format("text").load(self.control)]
        if self.ticks(followed=followed):
            starters.append(spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load())
        for starter in starters:
            no_rows = starter.where(F.lit(False)).select(F.lit(None).cast(first.dataType).alias(first.name))
            rows = rows.unionByName(no_rows, allowMissingColumns=True)
        return rows

    def callback(self, outputs: RunOutputs, *, ends: bool) -> Callable[[DataFrame, int], None]:
        """Return what processes a batch of that DataFrame. ``ends``: the query ends with the available data."""
        query = DriverQuery(
            self.stages,
            self.input,
            self.tables,
            self.storage,
            outputs,
            memory=self.memory,
            ends=ends,
            records=self.records,
        )
        if not self.ticks(followed=outputs.followed):
            query.schedule(timed=not ends)
        return query


def plan_in_driver(
    pipeline: Pipeline,
    rows: Source,
    *,
    control: str,
    storage: Storage,
    records: Storage,
    memory: int,
    whole_rows: bool,
    source_position: bool = False,
) -> DriverPlan:
    """Bind a pipeline to its sources. Late rows have the columns that the plan reads, or all (``whole_rows``).

    With ``source_position`` they also have their position in the source.
    """
    first, *following = pipeline.plans
    check_watermarks(first)
    inputs = []
    for edge, source in enumerate(input_rows(first, rows, tables=True)):
        with naming_input(first.edges[edge].name if first.inputs else None):
            inputs.append(bind_input(first.at(edge), source))
    columns = _count_columns(inputs)
    operator = operator_of(first, *(input.schema for input in inputs))
    if not whole_rows:
        inputs = [input.narrowed(operator.reads(edge)) for edge, input in enumerate(inputs)]
    positions = None
    if source_position:
        read = _count_columns(inputs)
        inputs = [with_source_position(input, operator) for input in inputs]
        positions = _count_columns(inputs) - read
    stages = _stages(first, following, inputs)
    input, tables = driver_input(stages[0], inputs), TableInputs(stages[0], inputs)
    return DriverPlan(stages, input, tables, control, storage, records, memory, columns, whole_rows, positions)


def _stages(first: Plan, following: Sequence[Plan], inputs: Sequence[SparkInput]) -> tuple[Stage, ...]:
    """Return the operators of a chain. Each is bound to its columns here, so that no batch rejects a plan."""
    schemas = tuple(input.schema for input in inputs)
    derived = () if first.inputs else tuple(name for name in inputs[0].derived if name in schemas[0])
    stages = [Stage(uuid.uuid4().hex, first, schemas, 1, derived=derived)]
    for depth, plan in enumerate(following, start=1):
        panes = spark_schema(stages[-1].operator().output_schemas()["panes"])
        stages.append(Stage(uuid.uuid4().hex, plan, (polars_schema(panes),), 1, depth=depth, sources=1))
        stages[-1].operator()
    return tuple(stages)


def _count_columns(inputs: Sequence[SparkInput]) -> int:
    return sum(len(input.schema) for input in inputs)


def driver_input(stage: Stage, inputs: Sequence[SparkInput]) -> DriverInput:
    """Choose how rows travel.

    Rows of DataFrames travel as they are, or as the stamps of tasks if there are many. The driver reads the files of a
    scan itself. Inputs of both kinds, and scans of other sources, are stamped by tasks.
    """
    if all(isinstance(input.rows, ParquetScan) for input in inputs) and not _follows_notes(stage.plan):
        return ScanInput(stage, inputs)
    if any(isinstance(input.rows, Scan) for input in inputs):
        return StampInput(stage, inputs)
    return RowInput(stage, inputs)


def needs_workers(plan: Plan, rows: Sequence[InputRows]) -> bool:
    """Return whether Python workers must have Eventide: to scan a source, or to read what writers have noted."""
    return _follows_notes(plan) or any(isinstance(source, Scan) and not reads_all_files(source) for source in rows)


def _follows_notes(plan: Plan) -> bool:
    return any(isinstance(edge.watermark.generator, Noted) for edge in plan.edges)
