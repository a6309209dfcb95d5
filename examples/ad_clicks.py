"""Ad clicks joined with the sales that follow them: the cost and the earnings of each ad.

A sale is attributed to a click if it follows within half an hour. Shops report sales minutes later; some phones are
offline, and their sales arrive after more than an hour. The job matches clicks with sales (a left outer interval
join, so a click without a sale is included) and reports the result per ad and half hour of clicks. When more sales
arrive, the previous report is retracted (diff -1) and the new one follows.

    python examples/ad_clicks.py --rows 20000
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import polars as pl
from pyspark.sql import SparkSession

import eventide as ev

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOURS = 3  # rows arrive in three hours: two with clicks, one with the last sales
CLICK = "click bigint, ad string, cost bigint, at timestamp"
SALE = "click bigint, price bigint, at timestamp"

clicks = ev.stream(time="at", key="click", watermark=ev.bounded_delay("2 minutes"))
sales = ev.stream(time="at", key="click", watermark=ev.bounded_delay("10 minutes"))
paired = ev.join(clicks, sales, within=("0 seconds", "30 minutes"), how="left")
report = (
    ev.stream(time="at", key="ad")  # the output watermark of the join applies
    .window(ev.tumbling("30 minutes"))
    .emit(early=ev.on_update())
    .agg(clicks=ev.count(), cost=ev.sum("cost"), sales=ev.count("price"), earned=ev.sum("price"))
)
CURRENT_REPORT = """
    SELECT ad, window_start, clicks, cost, sales, nvl(earned, 0) AS earned FROM parquet.`{place}/report`
    GROUP BY ALL HAVING sum(diff) > 0 ORDER BY ad, window_start
"""


def generate(rows: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Generate clicks, and sales for some of them. ``hour`` is the time of arrival."""
    rng = Random(3)
    clicks, sales = [], []
    for click in range(rows):
        second = rng.randrange(2 * 3600)
        clicks.append((click, f"ad {rng.randint(1, 4)}", rng.randint(5, 20), second, second + rng.randrange(60)))
        if rng.random() < 0.4:
            sold = second + rng.randrange(1, 2700)
            offline = sold < 1800 and rng.random() < 0.2
            sales.append((click, rng.randint(20, 80), sold, sold + rng.randrange(300) + 5400 * offline))
    return in_hours(clicks, ["click", "ad", "cost"]), in_hours(sales, ["click", "price"])


def in_hours(rows: Sequence[tuple[object, ...]], columns: list[str]) -> pl.DataFrame:
    frame = pl.DataFrame(rows, schema=[*columns, "second", "reported"], orient="row")
    at = pl.lit(NOON) + pl.duration(seconds="second")
    return frame.select(*columns, at=at, hour=pl.col("reported") // 3600)


def arrive(rows: pl.DataFrame, hour: int, place: Path) -> None:
    """Write the file under a hidden name and rename it, so that Spark never reads a partial file."""
    rows.filter(pl.col("hour") == hour).drop("hour").write_parquet(place / ".new")
    (place / ".new").rename(place / f"{hour}.parquet")


def print_batch(batch: ev.BatchMetrics) -> None:
    if batch.depth == 0:
        print(f"batch {batch.batch}: {batch.rows} clicks and sales, {batch.late} of them too late", end="; ")
    else:
        print(f"{sum(batch.panes.values())} reports, {batch.retractions} retracted")


def main(spark: SparkSession, rows: int, place: Path) -> pl.DataFrame:
    """Run the job on one hour of rows after the other, and return the final report."""
    inputs = dict(zip(("clicks", "sales"), generate(rows), strict=True))
    for name in inputs:
        (place / name).mkdir()
    query = paired.then(report).run(
        [
            spark.readStream.schema(CLICK).parquet(str(place / "clicks")),
            spark.readStream.schema(SALE).parquet(str(place / "sales")),
        ],
        sink=ev.sinks.files(place / "report"),
        late=ev.sinks.memory("late_sales"),
        checkpoint=place / "checkpoint",
        on_batch=print_batch,
    )
    for hour in range(HOURS):
        for name, frame in inputs.items():
            arrive(frame, hour, place / name)
        query.process_all_available()
    query.control.drain()  # the end of the stream: every window emits its last pane
    query.process_all_available()
    query.stop()

    final = pl.DataFrame(pl.from_arrow(spark.sql(CURRENT_REPORT.format(place=place)).toArrow()))
    late = pl.DataFrame(pl.from_arrow(spark.table("late_sales").select("click").toArrow()))
    assert final.equals(expected(inputs["clicks"], inputs["sales"], late)), "the report differs from the rows"
    print(f"The report is correct. It has {len(final)} lines; {len(late)} sales arrived too late. By ad:")
    print(final.group_by("ad").agg(pl.col("clicks", "cost", "sales", "earned").sum()).sort("ad"))
    return final


def expected(clicks: pl.DataFrame, sales: pl.DataFrame, late: pl.DataFrame) -> pl.DataFrame:
    """Compute the report with plain Polars, without the late sales."""
    in_time = sales.join(late, on="click", how="anti").select("click", "price", sold="at")
    rows = clicks.join(in_time, on="click", how="left").with_columns(
        pl.when(pl.col("sold") - pl.col("at") <= pl.duration(minutes=30)).then("price"),
        window_start=pl.col("at").dt.truncate("30m"),
    )
    total = rows.group_by("ad", "window_start").agg(
        pl.len().cast(pl.Int64).alias("clicks"),
        pl.sum("cost"),
        pl.count("price").cast(pl.Int64).alias("sales"),
        pl.sum("price").alias("earned"),
    )
    return total.sort("ad", "window_start")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=20_000, help="number of clicks")
    arguments = options.parse_args()
    print("Starting Spark …")
    with tempfile.TemporaryDirectory() as place:
        main(ev.spark_session("ad clicks"), arguments.rows, Path(place))
