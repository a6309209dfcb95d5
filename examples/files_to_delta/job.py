"""Revenue per shop and hour: from files to a Delta table.

    python job.py backfill /data              # load the archive, and end
    python job.py live /data                  # go on with new files, until the query is stopped
    python job.py replay /data 2025-03-02     # compute a day again, and show the hours that differ
    python job.py replay /data 2025-03-02 --write   # and replace them in the table

The archive has Parquet files, new orders arrive as JSON files. Backfill and live are one query with one checkpoint, so
late orders of the last archived day still correct its results.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import eventide as ev

ORDER = "order_id string, shop string, cents long, ts timestamp"
IDENTITY, RESULTS = ["shop", "window_start"], ["orders", "cents"]

revenue = (
    ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("10 minutes", max_future_skew="1 hour"))
    .window(ev.tumbling("1 hour"))
    .emit(allowed_lateness="6 hours")
    .agg(orders=ev.count(), cents=ev.sum("cents"))
)


@dataclass(frozen=True)
class Lake:
    """Where everything is stored: a directory, or a place in an object store, such as ``s3a://lake/orders``."""

    root: str

    def path(self, name: str) -> str:
        return f"{self.root.rstrip('/')}/{name}"


def read(spark: SparkSession, lake: Lake, *, streaming: bool) -> DataFrame:
    """Return the orders of the archive and the new ones, as a stream or as a table."""
    if streaming:
        archive = spark.readStream.schema(ORDER).parquet(lake.path("archive"))
        return archive.unionByName(spark.readStream.schema(ORDER).json(lake.path("incoming")))
    archive = spark.read.schema(ORDER).parquet(lake.path("archive"))
    return archive.unionByName(spark.read.schema(ORDER).json(lake.path("incoming")))


def run(spark: SparkSession, lake: Lake, **options: Any) -> ev.Query:
    """Run the query: ``available_now=True`` for the backfill, ``interval="10 seconds"`` for new files."""
    return revenue.run(
        read(spark, lake, streaming=True),
        sink=ev.sinks.delta(lake.path("revenue")),
        late=ev.sinks.delta(lake.path("late_orders")),
        dead=ev.sinks.delta(lake.path("dead_orders")),
        checkpoint=lake.path("checkpoint"),
        whole_rows=True,  # late rows and dead letters have all columns
        **options,
    )


def recompute(spark: SparkSession, lake: Lake, day: datetime) -> pl.DataFrame:
    """Return the results of a day, computed as a batch from all files. No row of a batch is late."""
    orders = read(spark, lake, streaming=False).where((F.col("ts") >= day) & (F.col("ts") < _end(day)))
    panes = orders.transform(revenue)
    columns = [field.name for field in DeltaTable(lake.path("revenue")).schema().fields]
    return pl.DataFrame(pl.from_arrow(panes.select(*columns).toArrow()))


def differences(lake: Lake, day: datetime, replayed: pl.DataFrame) -> pl.DataFrame:
    """Return the hours of a day that differ: in the table, and computed again."""
    table = pl.read_delta(lake.path("revenue")).filter(pl.col("window_start").is_between(day, _end(day), closed="left"))
    both = table.join(replayed, on=IDENTITY, how="full", suffix="_replayed", coalesce=True)
    equal = pl.all_horizontal(pl.col(name).eq_missing(pl.col(f"{name}_replayed")) for name in RESULTS)
    return both.filter(~equal).select(*IDENTITY, *RESULTS, pl.col("^(orders|cents)_replayed$")).sort(IDENTITY)


def replace(lake: Lake, day: datetime, replayed: pl.DataFrame) -> None:
    """Replace a day in the table, in one commit. The windows of the day must have expired in the query."""
    hours = f"window_start >= '{day.isoformat()}' AND window_start < '{_end(day).isoformat()}'"
    write_deltalake(lake.path("revenue"), replayed.to_arrow(), mode="overwrite", predicate=hours)


def _end(day: datetime) -> datetime:
    return day + timedelta(days=1)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("command", choices=["backfill", "live", "replay"])
    options.add_argument("root", help="the directory with archive/ and incoming/")
    options.add_argument("day", nargs="?", type=lambda text: datetime.fromisoformat(text).replace(tzinfo=UTC))
    options.add_argument("--write", action="store_true", help="replay: replace the day in the table")
    arguments = options.parse_args()
    if arguments.command == "replay" and arguments.day is None:
        options.error("replay needs a day, such as 2025-03-02")
    spark, lake = ev.spark_session("revenue"), Lake(arguments.root)
    if arguments.command == "backfill":
        run(spark, lake, available_now=True)
    elif arguments.command == "live":
        run(spark, lake, interval="10 seconds", wait=True)
    else:
        replayed = recompute(spark, lake, arguments.day)
        print(differences(lake, arguments.day, replayed))
        if arguments.write:
            replace(lake, arguments.day, replayed)


if __name__ == "__main__":
    main()
