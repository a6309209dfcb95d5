"""What one micro-batch costs with state in the driver, against Spark's own windows: both into files, median batch.

Each contestant runs in a process of its own, in turns, so that one cannot warm up or disturb the other. Every batch
has one late row: Spark drops it, Eventide writes it to the late output.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from bench.measure import Line
from bench.spark import data
from bench.spark.machine import Watch
from bench.spark.settings import CORES, KEY, MEMORY

BATCHES, PLAIN_BATCHES = 40, 6
WARM_UP = 15  # batches that are not counted: the JVM compiles
ROUNDS = 3
SIZES = {"batch_cost_1k": 1_000, "batch_cost_10k": 10_000, "batch_cost_100k": 100_000}
PLAIN = "batch_cost_plain_session"


def batch_cost(names: Sequence[str]) -> list[Line]:
    """Milliseconds of the median batch."""
    return [_line(name) for name in names]


def _line(name: str) -> Line:
    plain = name == PLAIN
    rows = 100_000 if plain else SIZES[name]
    runs: dict[str, list[dict[str, Any]]] = {"spark": [], "eventide": []}
    with Watch() as watch:
        for _ in range(1 if plain else ROUNDS):
            for who, done in runs.items():
                done.append(_in_a_process(who, rows, plain=plain))
                print(f"{name}, {who}: {done[-1]['median']:.0f} ms, first {done[-1]['first']:.0f} ms", file=sys.stderr)
    ours, theirs = (min(run["median"] for run in runs[who]) for who in ("eventide", "spark"))
    equal = len({run["digest"] for done in runs.values() for run in done}) == 1
    details = {
        "first_batch": min(run["first"] for run in runs["eventide"]),
        "peer_first_batch": min(run["first"] for run in runs["spark"]),
        "late_rows": runs["eventide"][0]["late"],
        "load_before": watch.load_before,
    }
    ratio = round(ours / theirs, 3)
    return Line(
        name, round(ours, 1), round(theirs, 1), "Spark's own", ratio, "ms/batch", watch.total_mb, equal, details
    )


def _in_a_process(who: str, rows: int, *, plain: bool) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.spark.batch_cost", who, str(rows), "plain" if plain else "prepared"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _measure(who: str, rows: int, *, plain: bool) -> dict[str, Any]:
    from pyspark.sql import SparkSession

    from bench.spark.queries import scratch, start_session, stream

    if plain:
        from eventide.spark.java import use_java

        use_java()
        # Nothing but what a laptop's default would be: the number of cores, and quiet logs.
        spark = SparkSession.builder.master(f"local[{CORES}]").config("spark.driver.memory", MEMORY).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
    else:
        spark = start_session()
    files = data.batches(rows, 1_000, PLAIN_BATCHES if plain else BATCHES)
    with scratch("batch-cost") as place:
        query = (_run_eventide if who == "eventide" else _run_spark)(stream(spark, files), place)
        times = [p["durationMs"]["triggerExecution"] for p in query.recentProgress if p["numInputRows"]]
        late = list((place / "checkpoint/eventide/late").glob("*/*.parquet"))
        counted = times[1:] if plain else times[WARM_UP:]
        return {
            "median": statistics.median(counted),
            "first": times[0],
            "late": sum(pl.read_parquet(file).height for file in late),
            "digest": _digest(place / "out", 1 if plain else 10),
        }


def _run_eventide(rows: Any, place: Path) -> Any:
    import eventide as ev

    windows = ev.stream(time="ts", key=KEY, watermark=ev.lag("10 seconds")).window(ev.tumbling("1 minute"))
    pipeline = windows.agg(n=ev.count(), total=ev.sum("value"))
    query = ev.run(
        pipeline,
        rows,
        panes=ev.sinks.files(place / "out"),
        checkpoint=place / "checkpoint",
        trigger="available_now",
        state="driver",
    )
    return query.spark


def _run_spark(rows: Any, place: Path) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    windows = rows.withWatermark("ts", "10 seconds").groupBy(F.window("ts", "1 minute").alias("window"), KEY)
    result = windows.agg(F.count("*").alias("n"), F.sum("value").alias("total"))

    def write(batch: Any, number: int) -> None:
        batch.write.mode("overwrite").parquet(str(place / "out" / f"batch={number}"))

    writer = result.writeStream.foreachBatch(write).outputMode("append").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(place / "checkpoint")).start()
    query.awaitTermination()
    return query


def _digest(place: Path, minutes: int) -> str:
    """What was written of the windows that both sides have closed by then, as one line."""
    panes = pl.read_parquet(str(place / "**/*.parquet"), hive_partitioning=False).unnest("window")
    micros = [pl.col(name).dt.timestamp("us") for name in ("start", "end")]  # Spark writes nanoseconds without a zone
    # Spark drops late rows by the watermark of the batch before the last one, so it keeps the first of them.
    end = data.BASE + minutes * data.MINUTE
    closed = panes.with_columns(micros).filter((pl.col("start") >= data.BASE) & (pl.col("end") <= end))
    table = closed.select("start", KEY, "n", "total").sort("start", KEY)
    return f"{table.height} {table['n'].sum()} {table['total'].sum()} {table.hash_rows(seed=7).sum()}"


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], int(sys.argv[2]), plain=sys.argv[3] == "plain")))
