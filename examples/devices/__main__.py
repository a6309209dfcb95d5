"""Run the whole example: upload readings hour by hour while the job runs, and check that no reading is lost.

    python -m devices                       # in the directory that contains this folder; the tables are in SQLite
    python -m devices --database postgresql://me@localhost/test

The database must not contain tables of an earlier run.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import eventide as ev

from . import job
from .generator import BEHIND, HOURS, generate, write_lines

TOTALS = """
SELECT (SELECT sum(readings) FROM temperatures), (SELECT count(*) FROM late_readings),
       (SELECT count(*) FROM dead_readings)
"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, default=1, help="seed of the random readings")
    options.add_argument("--database", metavar="URL", help="a PostgreSQL database; default: a SQLite file in --root")
    options.add_argument("--root", type=Path, help="where everything is stored; default: a temporary directory")
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="example-devices-") as temporary:
        root = arguments.root or Path(temporary)
        demonstrate(root, arguments.database or f"sqlite:///{root}/plant.db", generate(arguments.seed))


def demonstrate(root: Path, database: str, files: list[list[str]]) -> None:
    uploads = root / "uploads"
    uploads.mkdir(parents=True)
    print("Starting Spark …", flush=True)
    spark = ev.spark_session("temperatures")
    report = job.IdleReport(lambda text: print(f"  {text}", flush=True))
    query = job.start(
        spark,
        job.temperatures(idle_timeout="3 seconds"),  # the hours of the demonstration take seconds
        uploads=uploads,
        database=database,
        checkpoint=root / "checkpoint",
        report=report,
        interval="500 milliseconds",
    )
    for hour, lines in enumerate(files):
        if hour == HOURS - 1:  # a break, after which the roof returns
            await_idle(query, report, set(BEHIND))
        write_lines(lines, uploads / f"{hour}.json")
        query.process_all_available()
        latest = query.history[-1]
        late = sum(batch.late for batch in query.history)
        print(f"hour {hour}: {len(lines)} readings, watermark {latest.watermark:%H:%M}, {late} too late", flush=True)
        if hour == 2:
            await_idle(query, report, {"roof"})
    query.control.drain()  # the demonstration ends: every open window fires
    query.process_all_available()
    query.stop()
    with connect(database) as connection:
        kept, late, dead = connection.execute(TOTALS).fetchone()
    spark.stop()
    rows = sum(map(len, files))
    print(f"{rows} readings = {kept} in windows + {late} late + {dead} dead letters")
    if rows != kept + late + dead:
        raise SystemExit("Readings are missing.")


def await_idle(query: ev.Query, report: job.IdleReport, devices: set[str]) -> None:
    """Wait until devices are idle. A batch runs when their timeout has passed, also without new files."""
    while not devices <= report.idle:
        query.await_termination(0.2)  # raises the error of a query that has failed


def connect(database: str) -> Any:
    if database.startswith("sqlite:"):
        return closing(sqlite3.connect(database.removeprefix("sqlite:///")))
    import psycopg

    return psycopg.connect(database)


if __name__ == "__main__":
    main()
