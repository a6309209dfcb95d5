"""A sink that also writes down for which windows panes were told, for the picture of event time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eventide.cli.history import History, Windows
from eventide.sinks.sink import About, Advancing, Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_MOST = 500  # windows of one batch


@dataclass
class Traced:
    """Any sink for panes, with a history beside it."""

    sink: Sink
    history: History

    def open(self, schema: StructType, about: About) -> None:
        """As the sink does."""
        self.sink.open(schema, about)

    def write(self, batch: DataFrame, batch_id: int, about: About) -> None:
        """Write the batch, and what it tells of which window."""
        self.sink.write(batch, batch_id, about)
        if "window" in batch.columns and _in_time(batch):
            self.history.add([_windows(row, batch_id) for row in _counted(batch)])

    def advance(self, promise: int, about: About) -> None:
        """Pass on what the query promises, if the sink wants to know."""
        if isinstance(self.sink, Advancing):
            self.sink.advance(promise, about)

    def close(self) -> None:
        """As the sink does."""
        self.sink.close()


def _in_time(batch: DataFrame) -> bool:
    return batch.select("window.start").schema.fields[0].dataType.typeName() == "timestamp"


def _counted(batch: DataFrame) -> list[Any]:
    from pyspark.sql import functions as F  # noqa: N812

    micros = [F.unix_micros(f"window.{name}").alias(name) for name in ("start", "end")]
    at = F.unix_micros("pane.at").alias("at")
    panes = batch.select(*micros, at, "pane.timing", "diff").where("start IS NOT NULL AND end IS NOT NULL")
    counted = panes.groupBy("start", "end", "timing", "diff").agg(F.count("*").alias("keys"), F.max("at").alias("at"))
    return counted.orderBy("start", "end", "diff").limit(_MOST).collect()


def _windows(row: Any, batch_id: int) -> Windows:
    return Windows(batch_id, row["start"], row["end"], row["timing"], row["diff"], row["keys"], row["at"])
