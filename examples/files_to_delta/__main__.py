"""Run the whole example: backfill an archive, go on with new files, correct a day of the past and replay it.

python -m files_to_delta                   # in the directory that contains this folder
python -m files_to_delta --root /tmp/lake  # keep the files and the tables; the directory must be empty
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import polars as pl

import eventide as ev

from . import job
from .generator import DAY, FIRST_DAY, Generator, correct, write_lines


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--orders", type=int, default=2_000, help="number of orders of a day")
    options.add_argument("--seed", type=int, default=1, help="seed of the random orders")
    options.add_argument("--root", type=Path, help="where files and tables are stored; default: a temporary directory")
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="example-lake-") as temporary:
        demonstrate(arguments.root or Path(temporary), Generator(arguments.orders, arguments.seed))


def demonstrate(root: Path, generator: Generator) -> None:
    lake = job.Lake(str(root))
    archive, incoming = root / "archive", root / "incoming"
    archive.mkdir(parents=True)
    incoming.mkdir()
    print("Starting Spark …", flush=True)
    spark = ev.spark_session("revenue")

    generator.archive(archive)
    query = job.run(spark, lake, available_now=True)
    rows = [batch.rows for batch in query.history]
    print(f"backfill: {sum(rows)} orders, {table(lake, 'revenue').height} results in the table", flush=True)

    query = job.run(spark, lake, interval="500 milliseconds")
    for number, lines in enumerate(generator.incoming()):
        write_lines(lines, incoming / f"{number}.json")
        query.process_all_available()
        done = query.history
        late, corrected = sum(batch.late for batch in done), sum(batch.retractions for batch in done)
        rows.append(len(lines))
        print(f"file {number}: {len(lines)} lines; so far {corrected} results corrected, {late} orders too late")
    query.control.drain()  # the demonstration ends: every open window fires
    query.process_all_available()
    query.stop()
    kept = table(lake, "revenue")["orders"].sum()
    late, dead = (table(lake, name).height for name in ("late_orders", "dead_orders"))
    print(f"{sum(rows)} rows = {kept} in windows + {late} late + {dead} dead letters", flush=True)
    if sum(rows) != kept + late + dead:
        raise SystemExit("Rows are missing.")

    day = FIRST_DAY + DAY
    correct(archive / f"{day:%Y-%m-%d}.parquet", "kiel")
    replayed = job.recompute(spark, lake, day)
    before = job.differences(lake, day, replayed)
    job.replace(lake, day, replayed)
    after = job.differences(lake, day, replayed)
    print(f"replay of {day:%Y-%m-%d}: {before.height} results differed, {after.height} differ now")
    spark.stop()


def table(lake: job.Lake, name: str) -> pl.DataFrame:
    return pl.read_delta(lake.path(name))


if __name__ == "__main__":
    main()
