"""A scan whose rows a query filters and computes: the tasks that read them do so, and Spark never sees them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl
from sqlglot import exp

from eventide.spark.scan import Scan, Unreadable
from eventide.spark.types import as_rows, polars_schema, spark_schema
from eventide.streamsql.rows import Step, stepped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from eventide.spark.scan import Read


@dataclass(frozen=True)
class SelectedScan(Scan):
    """The rows of another scan, after the steps of a query."""

    inner: Scan
    steps: tuple[Step, ...]

    @property
    def keeps_unreadable(self) -> bool:  # type: ignore[override]
        """Whether the inner scan keeps what it cannot read as a dead letter."""
        return self.inner.keeps_unreadable

    def pieces(self) -> DataFrame:
        """The pieces of the inner scan."""
        return self.inner.pieces()

    def reading(self) -> Read:
        """Reads a piece: only the columns that the steps and the plan need."""
        read, steps, every = self.inner.reading(), self.steps, polars_schema(self.inner.schema)

        def selected(piece: dict[str, Any], schema: Mapping[str, pl.DataType]) -> Iterator[pl.DataFrame | Unreadable]:
            needed = _needed(steps, schema)
            columns = {name: dtype for name, dtype in every.items() if name in needed} or dict(list(every.items())[:1])
            for rows in read(piece, columns):
                if isinstance(rows, Unreadable):
                    yield rows
                else:
                    yield as_rows(stepped(rows, steps).select(list(schema)), schema)

        return selected


def selected_scan(scan: Scan, steps: Sequence[Step]) -> Scan:
    """A scan after the steps of a query. The types of its columns are those that Polars gives no rows at all."""
    if not steps:
        return scan
    made = stepped(pl.DataFrame(schema=polars_schema(scan.schema)), steps)
    return SelectedScan(spark_schema(made.schema), scan.spark, scan, tuple(steps))


def _needed(steps: Sequence[Step], asked: Mapping[str, pl.DataType]) -> set[str]:
    """The columns of the source that the steps read, and those that are asked for and go through unchanged."""
    names = set() if any(step.only for step in steps) else set(asked)
    for step in steps:
        conditions = [] if step.where is None else [step.where]
        names |= {one.name for node in (*conditions, *step.columns.values()) for one in node.find_all(exp.Column)}
    return names
