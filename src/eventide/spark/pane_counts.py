"""The panes of a batch, counted by window: where the rows are, so that only the counts reach the driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from eventide.panes import DIFF, EMITTED_AT, PANE_TIMING, WINDOW, WINDOW_START

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from eventide.sinks.batch import SinkBatch

_GROUP = (*WINDOW, PANE_TIMING, DIFF)
_READ = (*_GROUP, EMITTED_AT)


@dataclass(frozen=True)
class WindowPanes:
    """The panes of one batch for one window: the number of keys, and the emission time."""

    batch: int
    start: int
    end: int
    timing: str
    diff: int
    keys: int
    at: int


def count_panes(panes: SinkBatch, batch: int, most: int) -> list[WindowPanes]:
    """Return the panes of a batch by window, timing and diff, the earliest windows first, at most ``most``."""
    rows = _count_here(panes.arrow, most) if panes.is_local else _count_on_executors(panes.dataframe, most)
    return [WindowPanes(batch, *row) for row in rows]


def _count_here(table: pa.Table, most: int) -> list[tuple[Any, ...]]:
    if not set(_READ) <= set(table.column_names) or not pa.types.is_timestamp(table.schema.field(WINDOW_START).type):
        return []  # rows without windows on event time
    timed = pl.DataFrame(table.select(list(_READ))).drop_nulls(WINDOW)
    timed = timed.with_columns(pl.col(*WINDOW, EMITTED_AT).dt.timestamp("us"))
    counted = timed.group_by(_GROUP).agg(pl.len().alias("keys"), pl.col(EMITTED_AT).max())
    return counted.sort(*WINDOW, DIFF, PANE_TIMING).head(most).rows()


def _count_on_executors(panes: DataFrame, most: int) -> list[tuple[Any, ...]]:
    from pyspark.sql import functions as F  # noqa: N812

    if not set(_READ) <= set(panes.columns) or panes.schema[WINDOW_START].dataType.typeName() != "timestamp":
        return []
    times = [F.unix_micros(name).alias(name) for name in WINDOW]
    timed = panes.dropna(subset=list(WINDOW)).select(*times, PANE_TIMING, DIFF, EMITTED_AT)
    counted = timed.groupBy(*_GROUP).agg(F.count("*").alias("keys"), F.unix_micros(F.max(EMITTED_AT)).alias("at"))
    return [tuple(row) for row in counted.orderBy(*WINDOW, DIFF, PANE_TIMING).limit(most).collect()]
