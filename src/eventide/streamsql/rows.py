"""The rows that a pipeline reads: a table, with what is filtered and computed before there are windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import polars as pl
from sqlglot import exp

from eventide.errors import sql as errors
from eventide.streamsql.expressions import column, holding, of_rows
from eventide.streamsql.names import Names
from eventide.streamsql.on_spark import beside, held, selected
from eventide.streamsql.places import At
from eventide.streamsql.streams import Declared

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Step:
    """One filter, then computed columns: beside the others, or ``only`` these."""

    where: exp.Expr | None = None
    columns: Mapping[str, exp.Expr] = field(default_factory=dict)
    only: bool = False


def stepped(frame: pl.DataFrame, steps: Sequence[Step]) -> pl.DataFrame:
    """The rows of a frame after some steps."""
    for step in steps:
        frame = frame if step.where is None else holding(frame, step.where)
        columns = [of_rows(frame, expression).alias(name) for name, expression in step.columns.items()]
        frame = pl.DataFrame(columns) if step.only else frame.with_columns(columns)
    return frame


@dataclass(frozen=True)
class Rows:
    """The rows of one stream, as a query reads them. ``columns`` are those after all steps, where they are known.

    ``carried`` are those of them that no SELECT asked for, and the watermark reads.
    """

    stream: Declared
    columns: tuple[str, ...] | None
    steps: tuple[Step, ...] = ()
    carried: frozenset[str] = frozenset()

    @property
    def asked(self) -> tuple[str, ...] | None:
        """The columns that the query asked for, in their order."""
        return None if self.columns is None else tuple(one for one in self.columns if one not in self.carried)

    def names(self, *aliases: str) -> Names:
        """What the columns are called in a query."""
        return Names(self.stream.name, self.columns, frozenset(aliases))

    def filtered(self, where: exp.Expr | None, at: exp.Expr | None) -> Rows:
        """Only those for which a condition holds."""
        if where is None:
            return self
        counted = self.stream.counted()
        if counted is not None:
            raise At(at, errors.numbered_rows_filtered(self.stream.name, counted))
        return replace(self, steps=(*self.steps, Step(where)))

    def computed(self, columns: Mapping[str, exp.Expr]) -> Rows:
        """With further columns."""
        if not columns:
            return self
        known = None if self.columns is None else (*self.columns, *(c for c in columns if c not in self.columns))
        return replace(self, columns=known, steps=(*self.steps, Step(columns=dict(columns))))

    def chosen(self, columns: Mapping[str, exp.Expr], at: exp.Expr) -> Rows:
        """With these columns, and those that the watermark reads whoever is asked for them."""
        carried: dict[str, exp.Expr] = {}
        for name in sorted(self.stream.needs()):
            if name not in columns:
                carried[name] = column(name)
            elif columns[name] != column(name):
                raise At(at, errors.watermark_column_changed(name, self.stream.name))
        every = dict(columns) | carried
        steps = (*self.steps, Step(columns=every, only=True))
        return replace(self, columns=tuple(every), steps=steps, carried=frozenset(carried))

    def of_polars(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows of a frame as the pipeline takes them."""
        return stepped(frame, self.steps)

    def of_spark(self, table: Any) -> Any:
        """The rows of a DataFrame as the pipeline takes them; Spark plans them with its own."""
        if not hasattr(table, "withColumns"):  # a scan, whose rows never come to Spark
            from eventide.streamsql.scan import selected_scan

            return selected_scan(table, self.steps)
        frame: DataFrame = table
        for step in self.steps:
            frame = frame if step.where is None else held(frame, step.where)
            if step.columns:
                frame = (selected if step.only else beside)(frame, step.columns)
        return frame
