"""What the tasks of one operator need to know; small, immutable, and shipped to every one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from eventide.operators.binding import operator_of
from eventide.operators.operator import StreamOperator

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_KEPT = 64

_bound: dict[str, StreamOperator] = {}


@dataclass(frozen=True)
class Stage:
    """One operator of a query."""

    name: str  # unique to the query that is being built
    plan: Any
    schemas: tuple[Mapping[str, pl.DataType], ...]  # of the rows of each input
    buckets: int
    depth: int = 0  # how many operators stand before it
    sources: int = 0  # buckets of the operator before it, each of which promises something
    streaming: bool = True
    derived: tuple[str, ...] = ()  # columns that expressions of the plan gave: no part of the row as it came

    repaired_in: int = -1  # up to this batch, tasks do not use the watermark of the batch before: it is lowered
    tasks_know_time: bool = False  # the host hands the batch's time to its tasks, so rows need not carry it

    def output_schema(self, output: str) -> StructType:
        """Return the columns of panes, late rows or dead letters, in Spark's types."""
        from eventide.spark.types import spark_schema

        schema = self.operator().output_schemas()[output]
        hidden = () if output == "panes" else self.derived
        return spark_schema({name: dtype for name, dtype in schema.items() if name not in hidden})

    def operator(self) -> StreamOperator:
        """The operator, bound once in each process."""
        found = _bound.pop(self.name, None) or operator_of(self.plan, *self.schemas)
        _bound[self.name] = found
        if len(_bound) > _KEPT:
            del _bound[next(iter(_bound))]  # used longest ago
        return found
