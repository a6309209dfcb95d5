"""From pipelines and sources to a query whose state is in the driver."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventide.errors import joins as join_errors
from eventide.errors import spark as errors
from eventide.operators.binding import operator_of
from eventide.operators.chain import Chain
from eventide.plan.calls import spans_bundles
from eventide.plan.pipeline import Pipeline, over_panes
from eventide.plan.stream_check import check_watermarks
from eventide.spark.driver_input import DriverInput, RowInput, StampInput
from eventide.spark.driver_run import DriverQuery
from eventide.spark.driver_tables import TableInputs
from eventide.spark.feeding import Feed, One, Source, feed, sources
from eventide.spark.run_outputs import RunOutputs
from eventide.spark.scan import Scan
from eventide.spark.scan_input import ScanInput, reads_alone
from eventide.spark.scanning import Files
from eventide.spark.source_position import with_source_position
from eventide.spark.stage import Stage
from eventide.spark.storage import Storage
from eventide.spark.ticks import needs_ticks
from eventide.spark.types import polars_schema, spark_schema
from eventide.watermarks.rules import Noted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SHARE = 0.4  # of the memory that this process may use: the rest is for batches, the JVM and the operating system


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

    def facts(self, *, followed: bool) -> list[tuple[str, str]]:
        """What there is to say of the placement: pairs of a name and a line."""
        clocked = any(needs_ticks(stage.plan) for stage in self.stages)
        starts = "when there is data" + (", and at deadlines of the clock" if clocked else "")
        starts += ", and when calls are answered" if any(spans_bundles(stage.plan) for stage in self.stages) else ""
        late = "all columns" if self.whole_rows else "the columns that the plan reads"
        return [
            ("state", f"driver, up to {self.memory / (1 << 30):.1f} GB in memory"),
            ("transport", self.input.transport),
            ("columns", f"{self.input.columns} of {self.columns}; late rows have {late}"),
            ("batches", "at every trigger" if self.ticks(followed=followed) else starts),
        ]

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
            nothing = starter.where(F.lit(False)).select(F.lit(None).cast(first.dataType).alias(first.name))
            rows = rows.unionByName(nothing, allowMissingColumns=True)
        return rows

    def callback(self, outputs: RunOutputs, *, ends: bool) -> Callable[[DataFrame, int], None]:
        """Return what processes a batch of that DataFrame. ``ends``: the query ends with the data that is there."""
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
    chain: Sequence[Pipeline],
    rows: Source,
    *,
    control: str,
    storage: Storage,
    records: Storage,
    memory: int,
    whole_rows: bool,
    source_position: bool = False,
) -> DriverPlan:
    """Bind pipelines to their sources. Late rows have the columns that the plan reads, or all (``whole_rows``).

    With ``source_position`` they also tell where the source has them.
    """
    first = chain[0].plan
    check_watermarks(first)
    feeds = []
    for edge, source in enumerate(sources(first, rows, tables=True)):
        with join_errors.naming_input(first.edges[edge].name if first.inputs else None):
            feeds.append(feed(first.at(edge), source))
    columns = sum(len(one.schema) for one in feeds)
    operator = operator_of(first, *(one.schema for one in feeds))
    if not whole_rows:
        feeds = [one.narrowed(operator.reads(edge)) for edge, one in enumerate(feeds)]
    if source_position:
        feeds = [with_source_position(one, operator) for one in feeds]
    schemas = tuple(one.schema for one in feeds)
    derived = () if first.inputs else tuple(name for name in feeds[0].derived if name in schemas[0])
    stages = [Stage(uuid.uuid4().hex, first, schemas, 1, derived=derived)]
    for depth, pipeline in enumerate(chain[1:], start=1):
        plan = over_panes(pipeline).plan
        if plan.inputs:
            raise join_errors.in_a_chain([one.name for one in plan.inputs])
        panes = spark_schema(stages[-1].operator().output_schemas()["panes"])
        stages.append(Stage(uuid.uuid4().hex, plan, (polars_schema(panes),), 1, depth=depth, sources=1))
        stages[-1].operator()  # rejected here, not in a batch
    input = driver_input(stages[0], feeds)
    tables = TableInputs(stages[0], feeds)
    return DriverPlan(tuple(stages), input, tables, control, storage, records, memory, columns, whole_rows)


def driver_input(stage: Stage, feeds: Sequence[Feed]) -> DriverInput:
    """Choose how rows travel.

    Rows of DataFrames travel as they are, or as the stamps of tasks if there are many. The driver reads the files of a
    scan by itself. Inputs of both kinds, and scans of other sources, are stamped by tasks.
    """
    marked = any(isinstance(edge.watermark.rule, Noted) for edge in stage.plan.edges)
    if all(isinstance(feed.rows, Files) for feed in feeds) and not marked:
        return ScanInput(stage, feeds)
    if any(isinstance(feed.rows, Scan) for feed in feeds):
        return StampInput(stage, feeds)
    return RowInput(stage, feeds)


def needs_workers(plan: Any, rows: Sequence[One]) -> bool:
    """Return whether Python workers must have Eventide: to scan a source, or to read what writers have noted."""
    noted = any(isinstance(edge.watermark.rule, Noted) for edge in plan.edges)
    return noted or any(isinstance(source, Scan) and not reads_alone(source) for source in rows)


def memory_limit(chosen: int | str | None) -> int:
    """Return how many bytes of state stay in memory: as chosen, or a share of what this process may use.

    >>> memory_limit("2g")
    2147483648
    """
    if isinstance(chosen, int):
        return chosen
    if isinstance(chosen, str):
        number = re.fullmatch(r"(\d+)\s*([kmgt]?)i?b?", chosen.strip().lower())
        if number is None:
            raise errors.not_a_size("state_memory", chosen)
        return int(number[1]) << {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[number[2]]
    return int(_available_memory() * _SHARE)


def _available_memory() -> int:
    """Return the memory of the machine, or of the control group that limits this process."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit():
            limits.append(int(text))
    return min(limits)
