"""Machines that upload their readings in numbered parts, which overtake each other.

A machine stores its readings and uploads one minute of them at a time. Uploads are numbered and split into chunks, and
gateways deliver the chunks in any order. The highest event time is therefore not reliable: the watermark follows the
gap-free run of complete uploads. One upload gets lost. The watermark waits at the gap, and the job reports which upload
is missing. An operator skips the gap. When the upload arrives later, its rows are written to the late output.

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

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MACHINES, UPLOADS, CHUNKS = 4, 9, 3  # uploads of each machine, chunks of each upload
ROUNDS = UPLOADS // 3 + 1  # rounds of arrival
LOST = ("machine 2", 5)  # this upload gets lost
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


def generate(rows: int) -> pl.DataFrame:
    """Generate readings in chunks of uploads. ``round`` is the time of arrival: early chunks can arrive last."""
    rng = Random(4)
    readings = max(rows // (MACHINES * UPLOADS * CHUNKS), 1)
    sent = []
    for machine in range(1, MACHINES + 1):
        for upload in range(1, UPLOADS + 1):
            for chunk in range(1, CHUNKS + 1):
                arrives = rng.randrange(upload - 1, upload + 3) // 3
                for reading in range(readings):
                    second = 60 * (upload - 1) + 60 * (chunk - 1 + reading / readings) / CHUNKS
                    heat = 40 + 5 * machine + rng.random()
                    sent.append((f"machine {machine}", upload, chunk, chunk == CHUNKS, second, heat, arrives))
    names = ["machine", "upload", "chunk", "last_chunk", "second", "heat", "round"]
    frame = pl.DataFrame(sent, schema=names, orient="row")
    at = pl.lit(NOON) + pl.duration(microseconds=(pl.col("second") * 1_000_000).cast(pl.Int64))
    return frame.select(*names[:4], at=at, heat="heat", round="round")


def arrive(rows: pl.DataFrame, name: str, place: Path) -> None:
    """Write the file under a hidden name and rename it, so that Spark never reads a partial file."""
    rows.drop("round").write_parquet(place / ".new")
    (place / ".new").rename(place / f"{name}.parquet")


def print_batch(batch: ev.BatchMetrics) -> None:
    watermark = "is unknown" if batch.watermark is None else f"is {batch.watermark:%H:%M:%S}"
    print(
        f"batch {batch.batch}: {batch.rows} readings, {batch.late} too late, {sum(batch.panes.values())} results; "
        f"the watermark {'has ended' if batch.drained else watermark}, {batch.gaps} gaps"
    )


def main(spark: SparkSession, rows: int, place: Path) -> pl.DataFrame:
    """Run the job while uploads arrive, lose one, skip it, deliver it late, and return the results."""
    readings = generate(rows)
    lost = (pl.col("machine") == LOST[0]) & (pl.col("upload") == LOST[1])
    (place / "uploads").mkdir()
    query = per_minute.run(
        spark.readStream.schema(READING).parquet(str(place / "uploads")),
        sink=ev.sinks.memory("heat", rows=10_000_000),
        late=ev.sinks.memory("late_readings", rows=10_000_000),
        checkpoint=place / "checkpoint",
        on_batch=print_batch,
    )
    for number in range(ROUNDS):
        arrive(readings.filter(~lost, round=number), f"round {number}", place / "uploads")
        query.process_all_available()

    (state,) = ev.inspect(place / "checkpoint", spark=spark)
    print("Missing:", ", ".join(f"uploads {gap.first} to {gap.last} of {gap.origin}" for gap in state.gaps))
    assert [(gap.origin, gap.first, gap.last) for gap in state.gaps] == [(*LOST, LOST[1])]
    query.control.skip_gap(LOST[0])
    query.process_all_available()
    print("Skipped. Now the lost upload arrives:")
    arrive(readings.filter(lost), "lost", place / "uploads")
    query.process_all_available()
    query.control.drain()
    query.process_all_available()
    query.stop()

    columns = ("machine", "window_start", "readings", "mean", "hottest")
    results = pl.DataFrame(
        pl.from_arrow(spark.table("heat").select(*columns).sort("machine", "window_start").toArrow())
    )
    per_machine = readings.filter(~lost).group_by("machine", window_start=pl.col("at").dt.truncate("1m"))
    expected = per_machine.agg(readings=pl.len(), mean=pl.mean("heat"), hottest=pl.max("heat")).sort(
        "machine", "window_start"
    )
    assert_frame_equal(results, expected, check_dtypes=False)
    late = spark.table("late_readings").count()
    assert late == readings.filter(lost).height
    print(f"{results.height} results are correct. Only the lost upload was late: {late} readings.")
    return results


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=20_000, help="number of readings")
    arguments = options.parse_args()
    print("Starting Spark …")
    with tempfile.TemporaryDirectory() as place:
        main(ev.spark_session("uploads"), arguments.rows, Path(place))
