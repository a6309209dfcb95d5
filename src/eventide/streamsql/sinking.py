"""A sink behind a query: it gets the query's result in place of the panes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from eventide import sinks
from eventide.errors import sql_tables as table_errors
from eventide.sinks import About, Sink
from eventide.streamsql.expressions import column
from eventide.streamsql.projecting import OF_PANES, Projection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from eventide.sinks.batch import SinkBatch


def selecting(sink: Any, projection: Projection) -> Sink:
    """Return the sink behind what a query selects. A sink with ``as_selected`` gets just that, and ``diff``."""
    inner = sinks.as_sink(sink)
    if getattr(inner, "as_selected", False) and projection.columns is not None:
        return AsSelected(inner, projection)
    return inner if projection.columns is None and projection.where is None else Selecting(inner, projection)


@dataclass(frozen=True)
class AsSelected:
    """A sink that gets the columns that a query selects, under the names and in the order of SELECT, and ``diff``."""

    inner: Sink
    projection: Projection

    def open(self, schema: StructType, about: About) -> None:
        """Open the sink."""
        self.inner.open(schema, _of_rows(about))

    def write(self, batch: SinkBatch, batch_id: int, about: About) -> None:
        """Write what the query selects of a batch."""
        selected = batch.with_dataframe(self.projection.of_spark(batch.dataframe))
        self.inner.write(selected, batch_id, _of_rows(about))

    def close(self) -> None:
        """Close the sink."""
        self.inner.close()


def _of_rows(about: About) -> About:
    """The rows have no window or pane any more, unless the query selects its parts."""
    return replace(about, tells="rows")


@dataclass(frozen=True)
class Selecting:
    """Panes with the query's columns beside those that a sink needs to know a row again: window, pane and diff."""

    inner: Sink
    projection: Projection

    def open(self, schema: StructType, about: About) -> None:
        """Open the sink for the query's columns."""
        from pyspark.sql import SparkSession

        spark = SparkSession.getActiveSession()
        assert spark is not None  # a query is about to start in it
        empty = spark.createDataFrame([], schema)
        self.inner.open(self._selected(empty, about).schema, self._about(about))

    def write(self, batch: SinkBatch, batch_id: int, about: About) -> None:
        """Write what the query selects of a batch."""
        selected = self._selected(batch.dataframe, about)
        self.inner.write(batch.with_dataframe(selected), batch_id, self._about(about))

    def close(self) -> None:
        """Close the sink."""
        self.inner.close()

    def advance(self, promise: int, about: About) -> None:
        """Tell the sink how far the query has come, if it wants to know."""
        if isinstance(self.inner, sinks.sink.Advancing):
            self.inner.advance(promise, self._about(about))

    def _about(self, about: About) -> About:
        """The key under the names that the query gives it."""
        chosen = self.projection.columns or {}
        called = {one.name: name for name, one in chosen.items() if isinstance(one, exp.Column)}
        return replace(about, key=tuple(called.get(name, name) for name in about.key))

    def _selected(self, panes: DataFrame, about: About) -> DataFrame:
        """The query's columns, and behind them what the sink knows rows by, as far as the query leaves it out."""
        if self.projection.columns is None:
            return self.projection.of_spark(panes)
        kept: dict[str, exp.Expr] = dict(self.projection.columns)
        named = {one.name for one in kept.values() if isinstance(one, exp.Column)}
        for name in (*about.key, *(("window", "pane") if about.tells != "rows" else ())):
            if name in named or name not in panes.columns:
                continue
            if name in kept:
                raise table_errors.key_hidden(name)
            kept[name] = column(name)
        if about.tells != "rows":
            bounds = {name for name, one in kept.items() if _is_bound(name, one)}
            if getattr(self.inner, "flattens_windows", False):  # it writes the bounds under these names itself
                kept = {name: one for name, one in kept.items() if name not in bounds}
        return Projection(kept, self.projection.where).of_spark(panes)


def _is_bound(name: str, expression: exp.Expr) -> bool:
    """Whether a column is a bound of the window; refused, if it has the name of one and is none."""
    if name.lower() not in ("window_start", "window_end"):
        return False
    if expression != column(OF_PANES[name.lower()]):
        raise table_errors.bound_hidden(name)
    return True
