"""What Nexmark's queries must give, as DuckDB computes it, and whether a stream has emitted it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from bench.bounds import with_bounds
from bench.nexmark.queries import LAG, Query
from eventide.time import duration

ENOUGH = 0.9  # of the closed windows: Spark closes the last ones only in a batch of their own


@dataclass(frozen=True)
class Check:
    """How many rows a stream has emitted of those that it must emit, and whether all of them are right."""

    rows: int
    expected: int
    right: bool

    @property
    def equal(self) -> bool:
        """Whether all rows are right and nearly all are there."""
        return self.right and self.rows >= ENOUGH * self.expected > 0


def expected(query: Query, tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Return the result of a query over whole tables, as far as the watermark closes its windows."""
    import duckdb

    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        for name in query.inputs:
            database.register(name, tables[name].to_arrow())
        result = pl.DataFrame(database.sql(query.sql).to_arrow_table())
    result = in_micros(result, query)
    if query.updates:
        return result
    watermark = min(tables[name]["dateTime"].dt.timestamp("us").max() for name in query.inputs)  # type: ignore[type-var]
    return result.filter(pl.col("end") <= watermark - duration(LAG, what="lag"))  # type: ignore[operator]


def emitted(panes: pl.DataFrame, query: Query) -> pl.DataFrame:
    """Return what panes say of each window in the end: of those that are updated, the last."""
    result = in_micros(with_bounds(panes), query)
    if query.updates:
        result = result.sort("bids").unique(query.key, keep="last")
    return result


def in_micros(result: pl.DataFrame, query: Query) -> pl.DataFrame:
    """Return the columns of a result in one order and with the same types, whoever has computed it."""
    bounds = (pl.col(name).dt.cast_time_unit("us").dt.timestamp("us") for name in ("start", "end"))
    integers = pl.selectors.integer().cast(pl.Int64)
    return result.select(*bounds, *query.columns).with_columns(integers)


def check(result: pl.DataFrame, wanted: pl.DataFrame, query: Query) -> Check:
    """Compare what a stream has emitted with what it must emit. A row twice, or another one, is wrong."""
    unique = not result.select(query.key).is_duplicated().any()
    right = result.join(wanted, on=result.columns, how="semi", nulls_equal=True)
    return Check(right.height, wanted.height, unique and right.height == result.height)
