"""How an input's rows reach the first stage: a DataFrame through the JVM, or a scan past it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl

from eventide.columns import expressions
from eventide.errors import joins as join_errors
from eventide.errors import spark as errors
from eventide.spark import page
from eventide.spark.clock import batch_time
from eventide.spark.scan import Scan, stamp_pieces
from eventide.spark.stage import Stage
from eventide.spark.stamping import NOW, stamp_needs_now, stamp_rows
from eventide.spark.task_function import task_function
from eventide.spark.types import polars_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

One: TypeAlias = "DataFrame | Scan"
Source: TypeAlias = "One | Sequence[One] | Mapping[str, One]"


@dataclass(frozen=True)
class Feed:
    """The rows of one input, with the columns that go to Python."""

    rows: One
    schema: dict[str, pl.DataType]
    derived: tuple[str, ...] = ()  # columns that expressions of the plan gave

    @property
    def spark(self) -> SparkSession:
        """Whose rows these are."""
        return self.rows.spark if isinstance(self.rows, Scan) else self.rows.sparkSession

    @property
    def streaming(self) -> bool:
        """Whether more may come."""
        return bool(self.rows.isStreaming)

    def narrowed(self, reads: AbstractSet[str]) -> Feed:
        """With those columns only; without any there would be no rows either."""
        needed = reads or {next(iter(self.schema))}
        return replace(self, schema={name: dtype for name, dtype in self.schema.items() if name in needed})

    def stamped(self, stage: Stage, edge: int) -> DataFrame:
        """The rows as pages of an operator's input."""
        if isinstance(self.rows, Scan):
            read, keeps_unreadable = self.rows.reading(), self.rows.keeps_unreadable
            stamp = task_function(stamp_pieces(stage, edge, read, keeps_unreadable=keeps_unreadable))
            return self.rows.pieces().mapInArrow(stamp, page.SCHEMA)
        from pyspark.sql import functions as F  # noqa: N812

        # mapInArrow asks for columns by their names and takes a dot for that of a struct, so they go by their places.
        named = [f"`{name.replace('`', '``')}`" for name in self.schema]
        rows = self.rows.select(*[F.col(name).alias(f"c{place}") for place, name in enumerate(named)])
        if stamp_needs_now(stage.plan.edges[edge]) and not stage.tasks_know_time:
            rows = rows.withColumn(NOW, batch_time())
        return rows.mapInArrow(task_function(stamp_rows(stage, edge)), page.SCHEMA).withColumn("now", batch_time())


def feed(plan: Any, rows: One) -> Feed:
    """The rows of an input, with what expressions of the plan give beside them. ``plan`` is as this input sees it."""
    derived = expressions(plan)
    if isinstance(rows, Scan):
        if derived:
            raise errors.expression_in_scan(next(iter(derived)))
        return Feed(rows, polars_schema(rows.schema))
    own = {name.lower() for name in rows.columns}
    rows = rows.withColumns(derived) if derived else rows
    return Feed(rows, polars_schema(rows.schema), tuple(name for name in derived if name.lower() not in own))


def sources(plan: Any, rows: Source, *, tables: bool = False) -> list[One]:
    """What is given for each input, in their order. With ``tables`` some may be tables beside streams."""
    names = [one.name for one in plan.edges]
    if isinstance(rows, Mapping):
        if set(rows) != set(names):
            raise join_errors.unknown_input(list(rows), names)
        found = [rows[name] for name in names]
    else:
        found = list(rows) if isinstance(rows, Sequence) else [rows]
        if len(found) != len(names):
            raise join_errors.several_inputs(names) if plan.inputs else join_errors.one_input(len(found))
    if not tables and len({bool(one.isStreaming) for one in found}) > 1:
        raise join_errors.streams_and_tables(names)
    return found
