"""Rows from a stream of marks into Spark, against the same rows from Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import polars as pl
from pyspark.sql import DataFrame, SparkSession

import eventide as ev
from bench.measure import Line
from bench.spark import data
from bench.spark.agreement import compare, final_table
from bench.spark.contest import say
from bench.spark.machine import Watch
from bench.spark.queries import Run, run, scratch, start_session, stream
from bench.spark.settings import CORES, FILES, KEY, ROUNDS, ROWS, cache
from eventide import marks

Query = Callable[[SparkSession], DataFrame]

_APPEND = 1_000  # rows in a batch of the writer
_KEYS = 10_000
PER_MINUTE = (
    ev.stream(time="ts", key=KEY, watermark=ev.bounded_delay("30 seconds"))
    .window(ev.tumbling("1 minute"))
    .agg(n=ev.count(), total=ev.sum("value"))
)


def source(names: Sequence[str]) -> list[Line]:
    """To nowhere, with the places of the events (``source``) or the very columns of the files (``_columns``); and into
    one-minute windows, as rows (``_windows``) or by a fused scan (``_fused``).
    """
    files = data.events(_KEYS)
    address = _stream_of(files)
    with Watch() as watch:
        spark = start_session()
        return [_line(spark, name, files, address, watch) for name in names]


def _line(spark: SparkSession, name: str, files: Path, address: str, watch: Watch) -> Line:
    def rows(spark: SparkSession, places: bool = True) -> DataFrame:
        settings = {"rows_per_batch": ROWS // FILES, "places": places}
        return spark.readStream.format("eventide").options(**settings).load(address)

    def windows(panes: DataFrame) -> DataFrame:
        return panes.select("window_start", "window_end", KEY, "n", "total", "diff")

    def fused(spark: SparkSession) -> DataFrame:
        return windows(ev.scan_stream(address, rows_per_batch=ROWS // FILES, spark=spark).transform(PER_MINUTE))

    queries: dict[str, tuple[Query, Query]] = {
        "source": (rows, lambda spark: stream(spark, files)),
        "source_columns": (lambda spark: rows(spark, places=False), lambda spark: stream(spark, files)),
        "source_windows": (
            lambda spark: windows(rows(spark).transform(PER_MINUTE)),
            lambda spark: windows(stream(spark, files).transform(PER_MINUTE)),
        ),
        "source_fused": (fused, lambda spark: windows(stream(spark, files).transform(PER_MINUTE))),
    }
    ours, theirs = queries[name]
    runs = _race(spark, {name: ours, "Parquet": theirs})
    rate, peer = (ROWS / min(run.seconds for run in runs[who]) for who in (name, "Parquet"))
    to_nowhere = name in ("source", "source_columns")
    equal = _same_rows(spark, files, address) if to_nowhere else _same_windows(spark, ours, theirs)
    steady = {who: ROWS / FILES / min(run.steady_batch for run in mine) for who, mine in runs.items()}
    details = {"steady_ratio": round(steady[name] / steady["Parquet"], 3), "load_before": watch.load_before}
    return Line(
        name, round(rate), round(peer), "Parquet", round(rate / peer, 3), "rows/s", watch.total_mb, equal, details
    )


def _race(spark: SparkSession, contestants: Mapping[str, Query]) -> dict[str, list[Run]]:
    """In turn; the first run of each is not counted."""
    runs: dict[str, list[Run]] = {name: [] for name in contestants}
    for i in range(ROUNDS + 1):
        for name, query in contestants.items():
            ended = run(query(spark))
            say(f"{name}, round {i}", ended)
            runs[name] += [ended] if i else []
    return runs


def _same_rows(spark: SparkSession, files: Path, address: str) -> bool:
    def summed(rows: DataFrame) -> object:
        return rows.selectExpr("count(*)", "sum(value)", f"sum(cast({KEY} as bigint))", "min(ts)", "max(ts)").collect()

    return summed(spark.read.format("eventide").load(address)) == summed(spark.read.parquet(str(files)))


def _same_windows(spark: SparkSession, ours: Query, theirs: Query) -> bool:
    with scratch("results") as results:
        for name, query in (("ours", ours), ("theirs", theirs)):
            run(query(spark), to=results / name)
        first, other = final_table(results / "ours"), final_table(results / "theirs")
    return first.height == other.height and compare(first, other, windows=other.height, again=True).equal


def _stream_of(files: Path) -> str:
    """The rows of the files as a stream, made once and kept."""
    place = cache() / f"{files.name}-stream-v3.db"
    if not place.exists():
        making = place.with_suffix(".part")
        making.unlink(missing_ok=True)
        first = pl.read_parquet_schema(next(iter(sorted(files.glob("*.parquet")))))
        stream = marks.create_stream(f"sqlite:///{making}#events", schema=dict(first), segments=CORES)
        with marks.Writer(stream, "bench", routing_key=KEY) as writer:
            for file in sorted(files.glob("*.parquet")):
                for part in pl.read_parquet(file).iter_slices(_APPEND):
                    writer.append(part)
        stream.store.close()
        making.rename(place)
    return f"sqlite:///{place}#events"
