"""From pipelines and sources to a query whose state is in the driver."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eventide.errors import joins as join_errors
from eventide.errors import spark as errors
from eventide.operators.binding import operator_of
from eventide.plan.pipeline import Pipeline, over_panes
from eventide.plan.stream_check import check_watermarks
from eventide.spark.driver_input import DriverInput, driver_input
from eventide.spark.driver_run import DriverQuery
from eventide.spark.feeding import Source, feed, sources
from eventide.spark.run_outputs import RunOutputs
from eventide.spark.source_position import with_source_position
from eventide.spark.stage import Stage
from eventide.spark.storage import LocalStorage
from eventide.spark.ticks import needs_ticks
from eventide.spark.types import polars_schema, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SHARE = 0.4  # of the memory that this process may use: the rest is for batches, the JVM and the operating system


@dataclass(frozen=True)
class DriverPlan:
    """A chain of pipelines whose state is in the driver."""

    stages: tuple[Stage, ...]
    input: DriverInput
    control: str  # the directory of the commands
    checkpoint: Path
    memory: int

    def dataframe(self) -> DataFrame:
        """Return the streaming DataFrame of the query: its rows.

        Two sources only start batches, and their rows are filtered out: the control directory, whose commands the
        driver reads itself, and a tick at every trigger where the plan depends on the clock.
        """
        from pyspark.sql import functions as F  # noqa: N812

        rows = self.input.dataframe()
        spark, first = rows.sparkSession, rows.schema.fields[0]
        starters = [spark.readStream.format("text").load(self.control)]
        if any(needs_ticks(stage.plan) for stage in self.stages):
            starters.append(spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load())
        for starter in starters:
            nothing = starter.where(F.lit(False)).select(F.lit(None).cast(first.dataType).alias(first.name))
            rows = rows.unionByName(nothing, allowMissingColumns=True)
        return rows

    def callback(self, outputs: RunOutputs) -> Callable[[DataFrame, int], None]:
        """Return what processes a batch of that DataFrame."""
        return DriverQuery(self.stages, self.input, LocalStorage(self.checkpoint), outputs, memory=self.memory)


def plan_in_driver(
    chain: Sequence[Pipeline],
    rows: Source,
    *,
    control: str,
    checkpoint: Path,
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
    for edge, source in enumerate(sources(first, rows)):
        with join_errors.naming_input(first.edges[edge].name if first.inputs else None):
            feeds.append(feed(first.at(edge), source))
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
    return DriverPlan(tuple(stages), driver_input(stages[0], feeds), control, checkpoint, memory)


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
