"""A sink that also writes down for which windows panes were told, for the picture of event time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from eventide.cli.history import History, Windows
from eventide.sinks.sink import About, Advancing, Sink

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from eventide.sinks.batch import SinkBatch

_MOST = 500  # windows of one batch


@dataclass
class Traced:
    """Any sink for panes, with a history beside it."""

    sink: Sink
    history: History

    def open(self, schema: StructType, about: About) -> None:
        """As the sink does."""
        self.sink.open(schema, about)

    def write(self, batch: SinkBatch, batch_id: int, about: About) -> None:
        """Write the batch, and note which panes were emitted for which window."""
        self.sink.write(batch, batch_id, about)
        if "window" in batch.schema.names:
            panes = pl.DataFrame(batch.select("window", "pane", "diff").arrow)
            self.history.add([Windows(batch_id, *row) for row in _counted(panes)])

    def advance(self, promise: int, about: About) -> None:
        """Pass on what the query promises, if the sink wants to know."""
        if isinstance(self.sink, Advancing):
            self.sink.advance(promise, about)

    def close(self) -> None:
        """As the sink does."""
        self.sink.close()


def _counted(panes: pl.DataFrame) -> list[tuple[Any, ...]]:
    """The panes of each window in time, by timing and diff: start, end, timing, diff, keys, emission time."""
    window, pane = pl.col("window").struct, pl.col("pane").struct
    bounds = [window.field(name) for name in ("start", "end")]
    if not panes.select(bounds).schema["start"].is_temporal():
        return []
    times = [pl.col(name).dt.timestamp("us") for name in ("start", "end")]
    flat = panes.select(*bounds, pane.field("timing"), "diff", pane.field("at").dt.timestamp("us"))
    by_window = flat.drop_nulls(["start", "end"]).with_columns(times).group_by("start", "end", "timing", "diff")
    counted = by_window.agg(pl.len().alias("keys"), pl.col("at").max()).sort("start", "end", "diff")
    return counted.head(_MOST).rows()
