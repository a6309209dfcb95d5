"""Web sessions with live corrections: a table of visits that is always current.

A visit is a sequence of pages without a pause of more than half an hour. The job emits every visit immediately, and
corrects it with every page that follows. Pages can arrive late: a page between two visits merges them, so one row
replaces two rows of the table. Readers of the table always see the current visits.

    python examples/web_sessions.py --rows 5000 --database postgresql://me:secret@localhost/shop

Without --database, the table is in a SQLite file. The table is called eventide_visits and is recreated.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
from pyspark.sql import SparkSession

import eventide as ev

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
PAUSE = timedelta(minutes=30)
HOURS = 4  # hours in which pages arrive; they were viewed in the first three
PAGE = "visitor string, page string, at timestamp"
READ = "SELECT visitor, window_start, window_end, pages, entry FROM eventide_visits ORDER BY visitor, window_start"

visits = (
    ev.stream(time="at", key="visitor", watermark=ev.bounded_delay("10 minutes"))
    .window(ev.sessions(PAUSE))
    .emit(early=ev.on_update(), allowed_lateness="6 hours")
    .agg(pages=ev.count(), entry=ev.first("page"))
)


def generate(rows: int) -> pl.DataFrame:
    """Generate page views. ``hour`` is the time of arrival: one in ten arrives an hour late."""
    rng = Random(5)
    views = [("ada", f"/{minute}", timedelta(minutes=minute), minute // 60) for minute in (5, 20, 70, 85)]
    views.append(("ada", "/45", timedelta(minutes=45), HOURS - 1))  # between two visits, and very late
    for _ in range(rows - len(views)):
        at = timedelta(microseconds=rng.randrange(3 * 3_600_000_000))
        late = rng.random() < 0.1
        views.append((f"visitor {rng.randrange(rows // 6)}", f"/{rng.randrange(50)}", at, at.seconds // 3600 + late))
    frame = pl.DataFrame(views, schema=["visitor", "page", "at", "hour"], orient="row")
    return frame.with_columns(at=pl.lit(NOON) + pl.col("at"))


def arrive(rows: pl.DataFrame, hour: int, place: Path) -> None:
    """Write the file under a hidden name and rename it, so that Spark never reads a partial file."""
    rows.filter(hour=hour).drop("hour").write_parquet(place / ".new")
    (place / ".new").rename(place / f"{hour}.parquet")


def connect(url: str) -> Any:
    if url.startswith("sqlite:"):
        return closing(sqlite3.connect(url.removeprefix("sqlite:///")))
    import psycopg

    return psycopg.connect(url)


def read_table(url: str) -> pl.DataFrame:
    """Read the table."""
    with connect(url) as database:
        rows = database.execute(READ).fetchall()
    frame = pl.DataFrame(rows, schema=["visitor", "start", "end", "pages", "entry"], orient="row")
    times = pl.col("start", "end")  # SQLite stores times as text
    return frame.with_columns(
        times.str.to_datetime(time_zone="UTC") if url.startswith("sqlite:") else times.dt.convert_time_zone("UTC")
    )


def main(spark: SparkSession, rows: int, place: Path, database: str | None = None) -> pl.DataFrame:
    """Run the job on one hour of pages after the other, and return the final table."""
    url = database or f"sqlite:///{place}/visits.db"
    if database is None:
        print("No --database: the table is in a SQLite file, which is deleted when the job ends.")
    with connect(url) as fresh:
        fresh.execute("DROP TABLE IF EXISTS eventide_visits")
    pages = generate(rows)
    (place / "pages").mkdir()
    query = visits.run(
        spark.readStream.schema(PAGE).parquet(str(place / "pages")),
        sink=ev.sinks.table(url, name="eventide_visits"),
        checkpoint=place / "checkpoint",
    )
    for hour in range(HOURS):
        arrive(pages, hour, place / "pages")
        query.process_all_available()
        batch, table = query.history[-1], read_table(url)
        print(f"hour {hour}: {batch.rows} pages, {batch.retractions} visits corrected, {table.height} in all; of ada:")
        for _, start, end, count, entry in table.filter(visitor="ada").rows():
            print(f"    {start:%H:%M} to {end - PAUSE:%H:%M}, {count} pages, entered at {entry}")
    query.stop()
    assert read_table(url).equals(expected(pages)), "the table differs from the pages"
    print("The table is correct: plain Polars computes the same visits.")
    return read_table(url)


def expected(pages: pl.DataFrame) -> pl.DataFrame:
    """Compute the visits with plain Polars."""
    ordered = pages.sort("visitor", "at")
    new = (pl.col("at").diff() > PAUSE).fill_null(True).cum_sum().over("visitor")
    grouped = ordered.group_by("visitor", new.alias("number"), maintain_order=True)
    visits = grouped.agg(
        start=pl.min("at"),
        end=pl.max("at") + PAUSE,
        pages=pl.len().cast(pl.Int64),
        entry=pl.first("page"),
    )
    return visits.drop("number").sort("visitor", "start")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=5_000, help="number of pages")
    options.add_argument("--database", help="URL of a PostgreSQL database")
    arguments = options.parse_args()
    print("Starting Spark …")
    with tempfile.TemporaryDirectory() as place:
        main(ev.spark_session("visits"), arguments.rows, Path(place), arguments.database)
