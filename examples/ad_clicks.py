"""Ad clicks and the sales that follow them: which ad earns its money?

A sale counts for the click before it, if it follows within half an hour. Shops report sales minutes later; some phones
are offline, and theirs come after an hour and more. The job pairs clicks and sales (an interval join, left outer: a
click that sold nothing counts as well) and reports, for each ad and half hour of clicks, what is known so far. When
more is known, the old report is taken back (diff -1) and the new one follows.

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
HOURS = 3  # in which rows arrive: two with clicks, and one with the last sales
CLICK = "click bigint, ad string, cost bigint, at timestamp"
SALE = "click bigint, price bigint, at timestamp"

clicks = ev.stream(time="at", key="click", watermark=ev.bounded_delay("2 minutes"))
sales = ev.stream(time="at", key="click", watermark=ev.bounded_delay("10 minutes"))
paired = ev.join(clicks, sales, within=("0 seconds", "30 minutes"), how="left")
report = (
    ev.stream(time="at", key="ad")  # the join says how far its rows have come: no watermark of its own is needed
    .window(ev.tumbling("30 minutes"))
    .trigger(ev.after_watermark(early=ev.on_update()))
    .retracting()
    .agg(clicks=ev.count(), cost=ev.sum("cost"), sales=ev.count("price"), earned=ev.sum("price"))
)
STANDS = """
    SELECT ad, window.start, clicks, cost, sales, nvl(earned, 0) AS earned FROM parquet.`{place}/report`
    GROUP BY ALL HAVING sum(diff) > 0 ORDER BY ad, start
"""


def made_up(rows: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Clicks, and sales for some of them. ``hour`` is when a row reaches us."""
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
    """A file that appears at once, so that Spark never sees half of it."""
    rows.filter(pl.col("hour") == hour).drop("hour").write_parquet(place / ".new")
    (place / ".new").rename(place / f"{hour}.parquet")


def tell(batch: ev.BatchMetrics) -> None:
    if batch.depth == 0:
        print(f"batch {batch.batch}: {batch.rows} clicks and sales, {batch.late} of them too late", end="; ")
    else:
        print(f"{sum(batch.panes.values())} reports, {batch.retractions} old ones taken back")


def main(spark: SparkSession, rows: int, place: Path) -> pl.DataFrame:
    """Run the job, an hour's rows after the other, and give the report that stands at the end."""
    inputs = dict(zip(("clicks", "sales"), made_up(rows), strict=True))
    for name in inputs:
        (place / name).mkdir()
    query = ev.run(
        [paired, report],
        [
            spark.readStream.schema(CLICK).parquet(str(place / "clicks")),
            spark.readStream.schema(SALE).parquet(str(place / "sales")),
        ],
        panes=ev.sinks.files(place / "report"),
        late=ev.sinks.memory("late_sales"),
        checkpoint=place / "checkpoint",
        on_batch=tell,
    )
    for hour in range(HOURS):
        for name, frame in inputs.items():
            arrive(frame, hour, place / name)
        query.process_all_available()
    query.control.drain()  # no more will come: every window is told for the last time
    query.process_all_available()
    query.stop()

    stands = pl.DataFrame(pl.from_arrow(spark.sql(STANDS.format(place=place)).toArrow()))
    late = pl.DataFrame(pl.from_arrow(spark.table("late_sales").select("click").toArrow()))
    assert stands.equals(expected(inputs["clicks"], inputs["sales"], late)), "the report is not what the rows say"
    print(f"The report is right. It has {len(stands)} lines, and {len(late)} sales came too late for it. By ad:")
    print(stands.group_by("ad").agg(pl.col("clicks", "cost", "sales", "earned").sum()).sort("ad"))
    return stands


def expected(clicks: pl.DataFrame, sales: pl.DataFrame, late: pl.DataFrame) -> pl.DataFrame:
    """The same in plain Polars, with all rows at hand: what was too late is left out."""
    in_time = sales.join(late, on="click", how="anti").select("click", "price", sold="at")
    rows = clicks.join(in_time, on="click", how="left").with_columns(
        pl.when(pl.col("sold") - pl.col("at") <= pl.duration(minutes=30)).then("price"),
        start=pl.col("at").dt.truncate("30m"),
    )
    total = rows.group_by("ad", "start").agg(
        pl.len().cast(pl.Int64).alias("clicks"),
        pl.sum("cost"),
        pl.count("price").cast(pl.Int64).alias("sales"),
        pl.sum("price").alias("earned"),
    )
    return total.sort("ad", "start")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=20_000, help="how many clicks")
    given = options.parse_args()
    print("Starting Spark …")
    with tempfile.TemporaryDirectory() as place:
        main(ev.spark_session("ad clicks"), given.rows, Path(place))
