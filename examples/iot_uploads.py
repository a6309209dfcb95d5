"""Machines that upload their readings in numbered pieces, which overtake each other on the way.

A machine keeps its readings and uploads a minute of them at a time. Uploads are numbered; a large one is cut into
chunks, and gateways deliver those in any order. So the highest time that was seen proves nothing: what counts is the
run of complete uploads without a gap. One upload gets lost. The job stands still at the gap and says which upload is
missing; somebody decides not to wait for it; and when it turns up after all, its rows go to the late output.

    python examples/iot_uploads.py --rows 20000
"""

from __future__ import annotations

import argparse
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import polars as pl
from polars.testing import assert_frame_equal
from pyspark.sql import SparkSession

import eventide as ev
from eventide.time import format_instant

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MACHINES, UPLOADS, CHUNKS = 4, 9, 3  # uploads of each machine, chunks of each upload
ROUNDS = UPLOADS // 3 + 1  # in which they arrive
LOST = ("machine 2", 5)  # this upload gets lost on the way
READING = "machine string, upload bigint, chunk bigint, last_chunk boolean, at timestamp, heat double"

per_minute = (
    ev.stream(
        time="at",
        key="machine",
        watermark=ev.ascending(origin="machine", sequence="upload", chunk="chunk", last_chunk="last_chunk"),
    )
    .window(ev.tumbling("1 minute"))
    .agg(readings=ev.count(), mean=ev.mean("heat"), hottest=ev.max("heat"))
)


def made_up(rows: int) -> pl.DataFrame:
    """Readings in the chunks of their uploads. ``round`` is when they reach us: early chunks may come last."""
    rng = Random(4)
    readings = max(rows // (MACHINES * UPLOADS * CHUNKS), 1)
    made = []
    for machine in range(1, MACHINES + 1):
        for upload in range(1, UPLOADS + 1):
            for chunk in range(1, CHUNKS + 1):
                arrives = rng.randrange(upload - 1, upload + 3) // 3
                for reading in range(readings):
                    second = 60 * (upload - 1) + 60 * (chunk - 1 + reading / readings) / CHUNKS
                    heat = 40 + 5 * machine + rng.random()
                    made.append((f"machine {machine}", upload, chunk, chunk == CHUNKS, second, heat, arrives))
    names = ["machine", "upload", "chunk", "last_chunk", "second", "heat", "round"]
    frame = pl.DataFrame(made, schema=names, orient="row")
    at = pl.lit(NOON) + pl.duration(microseconds=(pl.col("second") * 1_000_000).cast(pl.Int64))
    return frame.select(*names[:4], at=at, heat="heat", round="round")


def arrive(rows: pl.DataFrame, name: str, place: Path) -> None:
    """A file that appears at once, so that Spark never sees half of it."""
    rows.drop("round").write_parquet(place / ".new")
    (place / ".new").rename(place / f"{name}.parquet")


def tell(batch: ev.BatchMetrics) -> None:
    stands = "is not known" if batch.watermark is None else f"stands at {format_instant(batch.watermark)}"
    print(
        f"batch {batch.batch}: {batch.rows} readings, {batch.late} too late, {sum(batch.panes.values())} results; "
        f"time {'has ended' if batch.drained else stands}, {batch.gaps} gaps"
    )


def main(spark: SparkSession, rows: int, place: Path) -> pl.DataFrame:
    """Run the job while uploads arrive, lose one, skip it, find it again; give the results."""
    readings = made_up(rows)
    lost = (pl.col("machine") == LOST[0]) & (pl.col("upload") == LOST[1])
    (place / "uploads").mkdir()
    query = ev.run(
        per_minute,
        spark.readStream.schema(READING).parquet(str(place / "uploads")),
        panes=ev.sinks.memory("heat", rows=10_000_000),
        late=ev.sinks.memory("late_readings", rows=10_000_000),
        checkpoint=place / "checkpoint",
        on_batch=tell,
    )
    for number in range(ROUNDS):
        arrive(readings.filter(~lost, round=number), f"round {number}", place / "uploads")
        query.process_all_available()

    (state,) = ev.inspect(place / "checkpoint", spark=spark)
    print("Missing:", ", ".join(f"uploads {gap.first} to {gap.last} of {gap.origin}" for gap in state.gaps))
    assert [(gap.origin, gap.first, gap.last) for gap in state.gaps] == [(*LOST, LOST[1])]
    query.control.skip_gap(LOST[0])
    query.process_all_available()
    print("Skipped. Now the lost upload turns up after all:")
    arrive(readings.filter(lost), "found", place / "uploads")
    query.process_all_available()
    query.control.drain()
    query.process_all_available()
    query.stop()

    columns = ("machine", "window.start", "readings", "mean", "hottest")
    results = pl.DataFrame(pl.from_arrow(spark.table("heat").select(*columns).sort("machine", "start").toArrow()))
    per_machine = readings.filter(~lost).group_by("machine", start=pl.col("at").dt.truncate("1m"))
    expected = per_machine.agg(readings=pl.len(), mean=pl.mean("heat"), hottest=pl.max("heat")).sort("machine", "start")
    assert_frame_equal(results, expected, check_dtypes=False)
    late = spark.table("late_readings").count()
    assert late == readings.filter(lost).height
    print(f"{results.height} results are right. Nothing was late but the lost upload: {late} readings.")
    return results


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=20_000, help="how many readings")
    given = options.parse_args()
    print("Starting Spark …")
    with tempfile.TemporaryDirectory() as place:
        main(ev.spark_session("uploads"), given.rows, Path(place))
