"""Rows between Spark and Polars, without a session."""

from __future__ import annotations

import polars as pl
import pyarrow as pa

from eventide.spark.types import from_spark

SCHEMA = {"t": pl.Int64(), "k": pl.String()}


def test_a_table_without_batches_has_no_rows() -> None:
    empty = pa.schema([("t", pa.int64()), ("k", pa.string())]).empty_table()
    assert from_spark(empty.to_batches(), SCHEMA).equals(pl.DataFrame(schema=SCHEMA))


def test_rows_have_the_columns_and_types_of_the_operator() -> None:
    table = pa.table({"other": [1], "k": ["a"], "t": pa.array([5], pa.int32())})
    assert from_spark(table.to_batches(), SCHEMA).equals(pl.DataFrame({"t": [5], "k": ["a"]}, schema=SCHEMA))
