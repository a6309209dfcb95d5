"""Panes as a batch brings them: a schema of Spark's, and flat rows as the driver gets them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl
from pyspark.sql import types as t

from eventide.sinks.sink import OutputInfo
from eventide.sinks.table_merge import TableStore
from eventide.sinks.table_sink import TableSink, table
from eventide.sinks.table_sql import TableLayout, table_layout
from tests.sinks.places import Place, plain

INSTANT = pl.Datetime("us", "UTC")
MINUTE = 60_000_000

Row = dict[str, Any]


def schema(
    key: Mapping[str, t.DataType] | None = None,
    results: Mapping[str, t.DataType] | None = None,
    bound: t.DataType | None = None,
) -> t.StructType:
    """What a pipeline by shop gives, or one with another key, other results or windows counted in rows."""
    bound = t.TimestampType() if bound is None else bound
    columns = {
        **({"shop": t.StringType()} if key is None else key),
        "window_start": bound,
        "window_end": bound,
        **({"n": t.LongType()} if results is None else results),
        "pane_timing": t.StringType(),
        "pane_index": t.LongType(),
        "pane_nonspeculative_index": t.LongType(),
        "pane_is_first": t.BooleanType(),
        "pane_is_last": t.BooleanType(),
        "emitted_at": t.TimestampType(),
        "window_time": t.TimestampType(),
        "diff": t.ByteType(),
    }
    return t.StructType([t.StructField(name, dtype) for name, dtype in columns.items()])


def output_info(
    mode: Any = "retracting",
    key: Sequence[str] = ("shop",),
    output: Any = "panes",
    query: str = "q",
    row_grain: Any = "windows",
) -> OutputInfo:
    return OutputInfo(output, tuple(key), mode, row_grain, query)


def opened(place: Place, what: OutputInfo, of: t.StructType | None = None, **options: Any) -> TableStore:
    """The store behind a table sink, prepared."""
    sink = table(place.url, **options)
    assert isinstance(sink, TableSink)
    sink.open(schema() if of is None else of, what)
    return sink._opened[what.output][1]


def shape(what: OutputInfo, of: t.StructType | None = None) -> TableLayout:
    return table_layout(schema() if of is None else of, what)


def row(start: int | None = 0, *, index: int = 0, diff: int = 1, at: int = 0, **values: Any) -> Row:
    """A pane of the minute from ``start``, or of the window without bounds."""
    return {
        **values,
        "window_start": start,
        "window_end": None if start is None else start + MINUTE,
        "pane_timing": "EARLY",
        "pane_index": index,
        "pane_is_last": False,
        "emitted_at": at,
        "diff": diff,
    }


TYPES: dict[str, Any] = {
    "window_start": INSTANT,
    "window_end": INSTANT,
    "pane_timing": pl.String,
    "pane_index": pl.Int64,
    "pane_is_last": pl.Boolean,
    "emitted_at": INSTANT,
    "diff": pl.Int8,
    "shop": pl.String,
    "n": pl.Int64,
    "x": pl.Float64,
    "size": pl.Float64,
}


def frame(rows: Iterable[Row], **types: Any) -> pl.DataFrame:
    """Rows as they come from Spark."""
    values = list(rows)
    names = values[0] if values else ()
    return pl.DataFrame(values, schema={name: (TYPES | types)[name] for name in names})


def summed(rows: pl.DataFrame, columns: Sequence[str]) -> Counter[tuple[Any, ...]]:
    """The table that a reader of all rows ends up with: what the diffs add up to."""
    total: Counter[tuple[Any, ...]] = Counter()
    for *values, diff in rows.select(*columns, "diff").iter_rows():
        total[tuple(map(plain, values))] += diff
    return Counter({row: count for row, count in total.items() if count})
