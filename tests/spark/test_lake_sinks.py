"""Delta Lake and Iceberg tables behind a query, in both placements of state: equal to the sum of the diffs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

import eventide as ev
from tests.sinks.test_lake_tables import Lake, delta_lake, iceberg_lake
from tests.spark import running
from tests.spark.running import Stream

REVENUE = (
    ev.stream(time="ts", key="shop", watermark="10 seconds")
    .window(ev.tumbling("1 minute"))
    .emit(early=ev.on_update(), allowed_lateness="1 hour")
    .agg(n=ev.count(), total=ev.sum("price"))
)
SECOND = 1_000_000
BUNDLES = [
    {"kiel": [1, 2], "oslo": [5]},
    {"kiel": [70], "oslo": [62, 3]},
    {"kiel": [130, 4], "oslo": [131]},
    {"kiel": [300], "oslo": [20, 301]},
]
COLUMNS = ["shop", "window_start", "n", "total"]


def bundle(seconds: dict[str, list[int]]) -> pl.DataFrame:
    rows = [(shop, second * SECOND, second) for shop, times in seconds.items() for second in times]
    return pl.DataFrame(
        rows, schema={"shop": pl.String, "ts": pl.Datetime("us", "UTC"), "price": pl.Int64}, orient="row"
    )


class DiesAfterWrite:
    """A sink whose process ends when the table has the batch, and Spark has not yet recorded it."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def open(self, schema: Any, info: Any) -> None:
        self.inner.open(schema, info)

    def write(self, batch: Any, batch_id: int, info: Any) -> None:
        self.inner.write(batch, batch_id, info)
        raise OSError("the power is off")

    def close(self) -> None:
        self.inner.close()


@pytest.mark.usefixtures("placement")
@pytest.mark.parametrize("make", [delta_lake, iceberg_lake], ids=["delta", "iceberg"])
def test_a_table_of_a_lakehouse_equals_the_sum_of_the_diffs_after_restarts(
    spark: SparkSession, tmp_path: Path, make: Callable[[Path], Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    lake, stream = make(tmp_path / "lake"), Stream(spark, tmp_path)
    for rows in BUNDLES:  # each run starts from the checkpoint of the one before
        stream.put(bundle(rows))
        commits = -1
        if rows is BUNDLES[1]:
            with pytest.raises(Exception, match="the power is off"):
                stream.run(REVENUE, sink=DiesAfterWrite(lake.make()))
            commits = lake.commits()
        query = stream.run(REVENUE, sink=lake.make(), drain=rows is BUNDLES[-1])
        collects = "the driver collects each batch from the executors" in query.explain()
        assert collects == (running.STATE == "executors")
        assert commits in (-1, lake.commits())  # the repeated batch was in the table
    panes = REVENUE.local([bundle(rows) for rows in BUNDLES]).panes
    table = panes.group_by(COLUMNS).agg(pl.col("diff").cast(pl.Int64).sum()).filter(pl.col("diff") != 0)
    assert sorted(lake.read().select(COLUMNS).rows()) == sorted(table.select(COLUMNS).rows())
