"""Web sessions with live corrections: a table of visits that is right at any moment.

A visit is what somebody does without a pause of more than half an hour. The job tells every visit at once, and corrects
it with every page that follows. Pages can come late: one that lies between two visits makes one visit of them, so two
rows of the table go and one comes. Who reads the table need not know: it has the visits as they stand.

    python examples/web_sessions.py --rows 5000 --database postgresql://me:secret@localhost/shop

Without --database the table lies in a file of SQLite. The table is called eventide_visits, and is made anew.
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
HOURS = 4  # in which pages arrive; they were looked at in the first three
PAGE = "visitor string, page string, at timestamp"
READ = "SELECT visitor, window_start, window_end, pages, entry FROM eventide_visits ORDER BY visitor, window_start"

visits = (
    ev.stream(time="at", key="visitor", watermark=ev.bounded_delay("10 minutes"))
    .window(ev.sessions(PAUSE))
    .trigger(ev.after_watermark(early=ev.on_update(), late=ev.on_update()))
    .lateness("6 hours")
    .retracting()
    .agg(pages=ev.count(), entry=ev.first("page"))
)


def made_up(rows: int) -> pl.DataFrame:
    """Pages that were looked at. ``hour`` is when they reach us: one in ten comes an hour late."""
    rng = Random(5)
    made = [("ada", f"/{minute}", timedelta(minutes=minute), minute // 60) for minute in (5, 20, 70, 85)]
    made.append(("ada", "/45", timedelta(minutes=45), HOURS - 1))  # between two visits, and very late
    for _ in range(rows - len(made)):
        at = timedelta(microseconds=rng.randrange(3 * 3_600_000_000))
        late = rng.random() < 0.1
        made.append((f"visitor {rng.randrange(rows // 6)}", f"/{rng.randrange(50)}", at, at.seconds // 3600 + late))
    frame = pl.DataFrame(made, schema=["visitor", "page", "at", "hour"], orient="row")
    return frame.with_columns(at=pl.lit(NOON) + pl.col("at"))


def arrive(rows: pl.DataFrame, hour: int, place: Path) -> None:
    """A file that appears at once, so that Spark never sees half of it."""
    rows.filter(hour=hour).drop("hour").write_parquet(place / ".new")
    (place / ".new").rename(place / f"{hour}.parquet")


def connect(url: str) -> Any:
    if url.startswith("sqlite:"):
        return closing(sqlite3.connect(url.removeprefix("sqlite:///")))
    import psycopg

    return psycopg.connect(url)


def stands(url: str) -> pl.DataFrame:
    """The table as any reader sees it."""
    with connect(url) as database:
        rows = database.execute(READ).fetchall()
    frame = pl.DataFrame(rows, schema=["visitor", "start", "end", "pages", "entry"], orient="row")
    times = pl.col("start", "end")  # SQLite has no times: they are text there
    return frame.with_columns(
        times.str.to_datetime(time_zone="UTC") if url.startswith("sqlite:") else times.dt.convert_time_zone("UTC")
    )


def main(spark: SparkSession, rows: int, place: Path, database: str | None = None) -> pl.DataFrame:
    """Run the job, an hour's pages after the other, and give the table that stands at the end."""
    url = database or f"sqlite:///{place}/visits.db"
    if database is None:
        print("No --database was given: the table is in a file of SQLite, which goes when the job ends.")
    with connect(url) as fresh:
        fresh.execute("DROP TABLE IF EXISTS eventide_visits")
    pages = made_up(rows)
    (place / "pages").mkdir()
    query = ev.run(
        visits,
        spark.readStream.schema(PAGE).parquet(str(place / "pages")),
        panes=ev.sinks.table(url, name="eventide_visits"),
        checkpoint=place / "checkpoint",
    )
    for hour in range(HOURS):
        arrive(pages, hour, place / "pages")
        query.process_all_available()
        told, table = query.history[-1], stands(url)
        print(
            f"hour {hour}: {told.rows} pages, {told.retractions} visits corrected, {table.height} stand; those of ada:"
        )
        for _, start, end, count, entry in table.filter(visitor="ada").rows():
            print(f"    {start:%H:%M} to {end - PAUSE:%H:%M}, {count} pages, came in by {entry}")
    query.stop()
    assert stands(url).equals(expected(pages)), "the table is not what the pages say"
    print("The table is right: plain Polars makes the same visits of all pages.")
    return stands(url)


def expected(pages: pl.DataFrame) -> pl.DataFrame:
    """The same in plain Polars, with all pages at hand."""
    ordered = pages.sort("visitor", "at")
    new = (pl.col("at").diff() > PAUSE).fill_null(True).cum_sum().over("visitor")
    grouped = ordered.group_by("visitor", new.alias("number"), maintain_order=True)
    found = grouped.agg(
        start=pl.min("at"),
        end=pl.max("at") + PAUSE,
        pages=pl.len().cast(pl.Int64),
        entry=pl.first("page"),
    )
    return found.drop("number").sort("visitor", "start")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=5_000, help="how many pages")
    options.add_argument("--database", help="the URL of a PostgreSQL")
    given = options.parse_args()
    print("Starting Spark …")
    with tempfile.TemporaryDirectory() as place:
        main(ev.spark_session("visits"), given.rows, Path(place), given.database)
