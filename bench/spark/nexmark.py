"""Nexmark: whole runs into Parquet files, ``pipeline.run`` with state in the driver against Spark's own operators."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from bench.measure import Line
from bench.nexmark.check import Check, check, emitted, expected
from bench.nexmark.events import BATCH, BATCHES, relation
from bench.nexmark.queries import LAG, QUERIES, RANKS, Query
from bench.spark import data, settings
from bench.spark.contestant import Answer, ContestantProcess, answer_requests
from bench.spark.machine import Watch, cpu_seconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ROUNDS = min(settings.ROUNDS, 4)
# Spark keeps its state in RocksDB or in the JVM's heap; the faster of the two is the peer.
CONTESTANTS = ("eventide", "spark", "spark_in_memory")


def nexmark(names: Sequence[str]) -> list[Line]:
    """A line for each query: seconds of the best whole run, and the ratio of the rates."""
    for name in ("person", "auction", "bid"):
        files(name)
    with ExitStack() as stack:
        contestants = {who: stack.enter_context(ContestantProcess("bench.spark.nexmark", who)) for who in CONTESTANTS}
        return [_line(name, contestants) for name in names]


def _line(name: str, contestants: dict[str, ContestantProcess]) -> Line:
    query = name.removeprefix("nexmark_")
    runs: dict[str, list[Answer]] = {who: [] for who in contestants}
    with Watch() as watch:
        for number in range(ROUNDS + 1):  # the first warms up
            for who, process in contestants.items():
                runs[who].append(process.ask(name=query))
                print(f"{name}, {who}, round {number}: {runs[who][-1]}", file=sys.stderr, flush=True)
    best = {who: min(run["seconds"] for run in answers[1:]) for who, answers in runs.items()}
    peer = min(CONTESTANTS[1:], key=lambda who: best[who])
    cpu = {who: min(run["cpu"] for run in answers[1:]) for who, answers in runs.items()}
    return Line(
        name,
        round(best["eventide"], 2),
        round(best[peer], 2),
        "Spark's own" if peer == "spark" else "Spark's own, state in the heap",
        round(best[peer] / best["eventide"], 3),
        "s",
        watch.total_mb,
        all(run["equal"] for answers in runs.values() for run in answers),
        {
            "peer_rocksdb": round(best["spark"], 2),
            "peer_in_memory": round(best["spark_in_memory"], 2),
            "cpu_s": cpu["eventide"],
            "peer_cpu_s": cpu[peer],
            "cpu_ratio": round(cpu[peer] / cpu["eventide"], 3),
            "median_batch": round(min(run["median_batch"] for run in runs["eventide"][1:]), 3),
            "peer_median_batch": round(min(run["median_batch"] for run in runs[peer][1:]), 3),
            "rows_compared": runs["eventide"][0]["rows"],
            "rounds": ROUNDS,
            "load_before": watch.load_before,
        },
    )


def files(name: str) -> Path:
    """Return the folder with a file of a relation for each batch."""
    frames = (relation(name, batch) for batch in range(BATCHES))
    return data.kept(f"nexmark-{name}-{BATCH}-{BATCHES}", frames)


@cache
def wanted(name: str) -> pl.DataFrame:
    """Return what a query must give, computed once in each process."""
    query = QUERIES[name]
    return expected(query, {name: pl.read_parquet(files(name) / "*.parquet") for name in query.inputs})


def _run(who: str, name: str) -> Answer:
    from bench.spark.queries import in_memory_state, scratch, start_session
    from bench.spark.sinks import batch_seconds

    spark, query = start_session(), QUERIES[name]
    with scratch("nexmark") as place, in_memory_state(spark) if who == "spark_in_memory" else nullcontext():
        begin, used = time.perf_counter(), cpu_seconds()
        tables = {relation: _stream(spark, relation) for relation in query.inputs}
        query_run = (_run_eventide if who == "eventide" else _run_spark)(name, tables, place)
        seconds, used = time.perf_counter() - begin, cpu_seconds() - used
        compared = _compared(name, place / "out")
    batches = batch_seconds(query_run)
    return {
        "seconds": round(seconds, 3),
        "cpu": round(used, 2),
        "median_batch": statistics.median(batches[1:]),
        "equal": compared.equal,
        "rows": compared.rows,
        "expected": compared.expected,
    }


@cache
def _schema(spark: SparkSession, name: str) -> Any:
    return spark.read.parquet(str(files(name))).schema


def _stream(spark: SparkSession, name: str) -> DataFrame:
    reader = spark.readStream.schema(_schema(spark, name)).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(files(name)))


def _run_eventide(name: str, tables: dict[str, DataFrame], place: Path) -> StreamingQuery:
    from pyspark.sql import functions as F  # noqa: N812

    from bench.spark.sinks import run_in_driver

    query = QUERIES[name]
    derived = {column: F.expr(expression) for column, expression in query.derived}
    rows = [table.withColumns(derived) if derived else table for table in tables.values()]
    if query.columns_read:
        rows = [table.select(*columns) for table, columns in zip(rows, query.columns_read, strict=True)]
    running = run_in_driver(query.pipeline, rows if len(rows) > 1 else rows[0], place)
    return running.spark


def _run_spark(name: str, tables: dict[str, DataFrame], place: Path) -> StreamingQuery:
    from bench.spark.sinks import run_in_spark

    watched = {name: table.withWatermark("dateTime", LAG) for name, table in tables.items()}
    result = _SPARK[name](watched)
    if QUERIES[name].updates:  # Spark's file sink takes none
        return run_in_spark(result, place, mode="update")
    writer = result.writeStream.format("parquet").option("path", str(place / "out")).trigger(availableNow=True)
    running = writer.option("checkpointLocation", str(place / "checkpoint")).start()
    running.awaitTermination()
    return running


def _q5(tables: dict[str, DataFrame]) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    window = F.window("dateTime", "10 seconds", "2 seconds").alias("window")
    counts = tables["bid"].groupBy(window, "auction").agg(F.count("*").alias("num"))
    most = counts.groupBy("window").agg(F.max(F.struct("num", -F.col("auction"))).alias("most"))
    return most.select("window", (-F.col("most.col2")).alias("auction"), "most.num")


def _q7(tables: dict[str, DataFrame]) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    windows = tables["bid"].groupBy(F.window("dateTime", "10 seconds").alias("window"))
    highest = windows.agg(F.max_by(F.struct("auction", "bidder", "price"), "price").alias("bid"))
    return highest.select("window", "bid.*")


def _q8(tables: dict[str, DataFrame]) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    window = F.window("dateTime", "10 seconds").alias("window")
    people = tables["person"].groupBy(window, "id", "name").agg(F.count("*").alias("times"))
    sellers = tables["auction"].groupBy(window, "seller").agg(F.count("*").alias("auctions"))
    people, sellers = people.alias("people"), sellers.alias("sellers")
    same = (F.col("people.window") == F.col("sellers.window")) & (F.col("id") == F.col("seller"))
    return people.join(sellers, same).select("people.window", "id", "name", "auctions")


def _q11(tables: dict[str, DataFrame]) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    window = F.session_window("dateTime", "10 seconds").alias("window")
    return tables["bid"].groupBy(window, "bidder").agg(F.count("*").alias("bids"))


def _q12(tables: dict[str, DataFrame]) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    window = F.window("dateTime", "10 seconds").alias("window")
    return tables["bid"].groupBy(window, "bidder").agg(F.count("*").alias("bids"))


def _q17(tables: dict[str, DataFrame]) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    ranks = [F.count_if(F.expr(condition)).alias(f"{name}_bids") for name, condition in RANKS.items()]
    prices = {"low": F.min, "high": F.max, "mean": F.avg, "total": F.sum}
    windows = tables["bid"].groupBy(F.window("dateTime", "24 hours").alias("window"), "auction")
    return windows.agg(F.count("*").alias("bids"), *ranks, *(of("price").alias(name) for name, of in prices.items()))


_SPARK: dict[str, Callable[[dict[str, DataFrame]], DataFrame]] = {
    "q5": _q5,
    "q7": _q7,
    "q8": _q8,
    "q11": _q11,
    "q12": _q12,
    "q17": _q17,
}


def _compared(name: str, out: Path) -> Check:
    query: Query = QUERIES[name]
    panes = pl.read_parquet(str(out / "**/*.parquet"), hive_partitioning=False)
    return check(emitted(panes, query), wanted(name), query)


if __name__ == "__main__":
    answer_requests(lambda name: _run(sys.argv[1], name))
