"""Runs streaming queries to their end and tells how long they took."""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.spark.data import rows_in
from bench.spark.machine import cpu_seconds
from bench.spark.settings import CORES, MEMORY, cache
from eventide.spark.java import use_java
from eventide.spark.session import spark_session

_STATE = "spark.sql.streaming.stateStore"
_PROVIDER = f"{_STATE}.providerClass"
_FORMAT = f"{_STATE}.checkpointFormatVersion"
_PROVIDERS = "org.apache.spark.sql.execution.streaming.state"
ROCKSDB = f"{_PROVIDERS}.RocksDBStateStoreProvider"
IN_MEMORY = f"{_PROVIDERS}.HDFSBackedStateStoreProvider"


def start_session() -> SparkSession:
    """One session for all contestants: what is set for one is set for all."""
    return spark_session(
        "bench",
        cores=CORES,
        partitions=CORES,
        memory=MEMORY,
        config={
            "spark.sql.session.timeZone": "UTC",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "ERROR",
            _PROVIDER: ROCKSDB,
            f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true",
        },
    )


def plain_session() -> SparkSession:
    """A session in which nothing is configured but what a laptop's default would be: cores, memory, and quiet logs."""
    use_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # as in an environment that is activated
    spark = SparkSession.builder.master(f"local[{CORES}]").config("spark.driver.memory", MEMORY).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@contextmanager
def in_memory_state(spark: SparkSession) -> Iterator[None]:
    """Queries started inside keep their state in the JVM's heap, as is Spark's default."""
    spark.conf.set(_PROVIDER, IN_MEMORY)
    spark.conf.set(_FORMAT, "1")  # the only one that it knows
    try:
        yield
    finally:
        spark.conf.set(_PROVIDER, ROCKSDB)
        spark.conf.set(_FORMAT, "2")


def stream(spark: SparkSession, files: Path) -> DataFrame:
    """The files as a stream, one in each micro-batch."""
    schema = spark.read.parquet(str(files)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(files))


@dataclass(frozen=True)
class Run:
    """A query that has ended: seconds from ``start()`` to its end, of the clock and of all processors, and those of
    each batch that had data.
    """

    seconds: float
    cpu: float
    batches: tuple[float, ...]
    emitted: int

    @property
    def steady_batch(self) -> float:
        """Seconds of the median batch; the first one, which also starts things, is left out."""
        return statistics.median(self.batches[1:] or self.batches)


def run(result: DataFrame, *, to: Path | None = None) -> Run:
    """All that is there, to nowhere or to Parquet files."""
    with scratch("checkpoint") as checkpoint:
        writer = result.writeStream.outputMode("append").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(checkpoint))
        begin, used = time.perf_counter(), cpu_seconds()
        query = writer.format("noop").start() if to is None else writer.format("parquet").start(str(to))
        query.awaitTermination()
        seconds, used = time.perf_counter() - begin, cpu_seconds() - used
        progress = query.recentProgress
    batches = tuple(p["durationMs"]["triggerExecution"] / 1000 for p in progress if p["numInputRows"] > 0)
    # Parquet files do not tell how many rows went into them; they can be asked.
    emitted = sum(p["sink"]["numOutputRows"] for p in progress) if to is None else rows_in(to)
    return Run(seconds, used, batches, emitted)


@contextmanager
def scratch(purpose: str) -> Iterator[Path]:
    """A folder that is gone afterwards, on the same disk as the data."""
    folder = Path(tempfile.mkdtemp(prefix=f"{purpose}-", dir=cache()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
