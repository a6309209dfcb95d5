"""Queries over Spark Connect, with a server of their own: ``python -m tests.spark.connect_job PLACE STEP``.

Each step prints what it has seen as a line of JSON. Spark starts a server once in a process that has no other session,
so these are no tests in the session that all tests share.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

import eventide as ev
from eventide.spark.java import use_java
from eventide.spark.metrics import metrics_in_progress
from tests.spark.test_marks import MINUTE, START, Shop, orders

PER_TEN = ev.stream(time="t", key="shop", watermark="0 seconds").window(ev.tumbling("10 seconds")).agg(n=ev.count())
SCHEMA = "t timestamp, shop string"
_FIRST = 1_760_000_000


class Job:
    """A directory that is a stream, a session, and queries over it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.checkpoint = place / "checkpoint"
        self.spark = connect()
        self._files = 0
        (place / "in").mkdir(exist_ok=True)

    def put(self, *rows: tuple[int | None, str]) -> None:
        """Add a file, which is a batch."""
        times = pl.Series("t", [None if second is None else second * 1_000_000 for second, _ in rows], pl.Int64)
        frame = pl.DataFrame({"t": times.cast(pl.Datetime("us", "UTC")), "shop": [shop for _, shop in rows]})
        unseen = self.place / f"{self._files}.part"
        frame.write_parquet(unseen)
        os.utime(unseen, (_FIRST + self._files, _FIRST + self._files))  # Spark reads the oldest file first
        unseen.rename(self.place / "in" / f"{self._files}.parquet")
        self._files += 1

    @property
    def rows(self) -> Any:
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.place / "in"))

    @property
    def table(self) -> str:
        return f"sqlite:///{self.place}/panes.db#panes"

    def panes(self) -> list[Any]:
        with sqlite3.connect(self.place / "panes.db") as database:
            return database.execute("SELECT shop, window_start, n, pane_timing FROM panes ORDER BY 1, 2").fetchall()

    def stored(self, output: str) -> int:
        return pl.scan_parquet(self.checkpoint / "eventide" / output / "**/*.parquet").collect().height


def connect() -> Any:
    """Return a session of Spark Connect, whose server is at a free port."""
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client.core import DefaultChannelBuilder

    use_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    DefaultChannelBuilder.default_port = staticmethod(lambda: port)  # type: ignore[method-assign]
    state = "spark.sql.streaming.stateStore.providerClass"
    rocksdb = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    builder = SparkSession.builder.remote("local[2]").config("spark.connect.grpc.binding.port", port)
    builder = builder.config(state, rocksdb).config("spark.sql.shuffle.partitions", 2)
    return builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()


def run(job: Job) -> dict[str, Any]:
    """A query that ends, and its continuation until it is drained by a command."""
    reported: list[ev.BatchMetrics] = []
    job.put((1, "kiel"), (2, "bonn"), (None, "rome"))
    job.put((25, "kiel"), (3, "bonn"))
    options: dict[str, Any] = {"sink": job.table, "checkpoint": job.checkpoint, "on_batch": reported.append}
    first = PER_TEN.run(job.rows, available_now=True, **options)
    seen = {"ended": len(reported), "history": [batch.rows for batch in first.history]}
    job.put((4, "bonn"), (41, "kiel"))
    query = PER_TEN.run(job.rows, **options)
    query.process_all_available()
    assert query.metrics is not None
    seen |= {"restarted": [query.metrics.batch, query.metrics.late], "running": query.control.is_running}
    drained = query.control.wait(query.control.drain(), timeout=60)
    seen["drained"] = drained is not None and drained.drained
    query.stop()
    seen["stopped"] = query.control.is_running
    seen["reported"] = [[batch.batch, batch.rows, batch.late, sum(batch.dead.values())] for batch in reported]
    return seen | {"panes": job.panes(), "late": job.stored("late"), "dead": job.stored("dead")}


def transform(job: Job) -> dict[str, Any]:
    """``df.transform`` of tables and streams, a chain, ``ev.outputs`` and the metrics of Spark's progress."""
    job.put((1, "kiel"), (2, "bonn"), (None, "rome"))
    job.put((25, "kiel"))
    job.put((4, "bonn"))
    table = job.spark.read.schema(SCHEMA).parquet(str(job.place / "in"))
    per_hour = ev.stream(time="window_end").window(ev.tumbling("1 hour")).agg(total=ev.sum("n"))
    seen: dict[str, Any] = {
        "table": sorted([row.shop, row.n] for row in table.transform(PER_TEN).collect()),
        "chain": [row.total for row in table.transform(PER_TEN).transform(per_hour).collect()],
    }
    heard: list[int] = []
    ev.listen(job.spark, lambda query, metrics: heard.append(metrics.rows))
    target = str(job.place / "out")
    writer = job.rows.transform(PER_TEN).writeStream.format("parquet").option("path", target)
    query = writer.option("checkpointLocation", str(job.place / "t")).trigger(availableNow=True).start()
    query.awaitTermination()
    seen["stream"] = sorted([row.shop, row.n] for row in job.spark.read.parquet(target).collect())
    metrics = [metrics_in_progress(json.loads(progress.json)) for progress in query.recentProgress]
    seen["progress"] = [
        [batch.rows, batch.late, sum(batch.dead.values())] for operators in metrics for batch in operators
    ]

    outputs, place = ev.outputs(PER_TEN, job.rows), job.place

    def write(batch: Any, number: int) -> None:
        for name, rows in outputs.split(batch)._asdict().items():
            rows.write.mode("append").parquet(str(place / "split" / name))

    query = outputs.pages.writeStream.foreachBatch(write).option("checkpointLocation", str(job.place / "o"))
    query.trigger(availableNow=True).start().awaitTermination()
    seen["outputs"] = {
        name: job.spark.read.parquet(str(place / "split" / name)).count() for name in ("panes", "late", "dead")
    }
    return seen | {"heard": heard}


def sources(job: Job) -> dict[str, Any]:
    """A table next to a stream, rows of unknown size, which tasks stamp, and noted time."""
    job.put((1, "kiel"), (2, "bonn"))
    job.put((25, "kiel"))

    def read(name: str, column: str) -> Any:
        with sqlite3.connect(job.place / f"{name}.db") as database:
            return database.execute(f"SELECT count(*), sum({column}) FROM panes").fetchone()

    def start(name: str, pipeline: ev.Pipeline, rows: Any) -> Any:
        sink, checkpoint = f"sqlite:///{job.place}/{name}.db#panes", job.place / name
        return pipeline.run(rows, sink=sink, checkpoint=checkpoint, available_now=True, drain=True)

    side = ev.stream(time="t", key="shop", watermark="0 seconds")
    pairs = ev.window_join(side, side, window=ev.tumbling("10 seconds"))
    table = pl.DataFrame({"t": [3_000_000], "shop": ["kiel"]}).with_columns(pl.col("t").cast(pl.Datetime("us", "UTC")))
    start("pairs", pairs, {"left": job.rows, "right": job.spark.createDataFrame(table.to_arrow())})

    rate = job.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    per_minute = ev.stream(time="timestamp", watermark="0 seconds").window(ev.tumbling("1 minute"))
    start("rate", per_minute.agg(n=ev.count()), rate)

    shop = Shop(job.place)
    with shop.writer("kiel") as kiel:
        kiel.append(orders(0, 30), time=START + MINUTE)
        shop.merge()
        kiel.append(orders(1, 5), time=START + 2 * MINUTE)
        shop.merge()
    rows = job.spark.readStream.format("eventide").load(shop.address)
    start("noted", shop.per_minute(), rows)
    return {name: read(name, column) for name, column in (("pairs", "1"), ("rate", "n"), ("noted", "n"))}


class DiesOnce:
    """A sink whose process is killed once, after it has written a batch and before Spark commits it."""

    def __init__(self, table: str, marker: Path) -> None:
        self._table, self._marker = table, marker
        self._sink: Any = None

    def open(self, schema: Any, info: Any) -> None:
        self._sink = ev.sinks.as_sink(self._table)
        self._sink.open(schema, info)

    def write(self, batch: Any, batch_id: int, info: Any) -> None:
        self._sink.write(batch, batch_id, info)
        if not self._marker.exists():
            self._marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def close(self) -> None:
        if self._sink is not None:
            self._sink.close()


class RejectsOnServer:
    """A sink that the server cannot open."""

    def __init__(self) -> None:
        self._client = os.getpid()

    def open(self, schema: Any, info: Any) -> None:
        if os.getpid() != self._client:
            raise ev.PlanError("The table is read-only. Name another one.")

    def write(self, batch: Any, batch_id: int, info: Any) -> None: ...

    def close(self) -> None: ...


def fails(batch: Any, batch_id: int) -> None:
    raise ev.DataError("The table is gone.")


def failures(job: Job) -> dict[str, Any]:
    """Processes that are killed, sinks that fail, and what is rejected."""
    job.put((1, "kiel"), (2, "bonn"))
    job.put((25, "kiel"), (26, "bonn"))

    def start(name: str, sink: Any = "noop", **options: Any) -> Any:
        checkpoint = options.pop("checkpoint", job.place / name)
        return PER_TEN.run(job.rows, sink=sink, checkpoint=checkpoint, available_now=True, **options)

    def kills() -> Any:
        return start("killed", DiesOnce(job.table, job.place / "died"), drain=True)

    seen: dict[str, Any] = {"killed": message(kills, whole=False), "continued": message(kills)}
    seen["panes"] = job.panes()
    seen["failed"] = message(lambda: start("failed", fails))
    seen["failed in history"] = (job.place / "failed/eventide/history.jsonl").read_text().count("The table is gone.")
    seen["rejected on the server"] = message(lambda: start("rejected", RejectsOnServer()))
    seen["memory"] = message(lambda: start("memory", ev.sinks.memory("kept")))
    seen["kept"] = job.spark.table("kept").count()
    seen["executors"] = message(lambda: start("executors", state="executors"))
    seen["scan"] = message(lambda: ev.scan_parquet(str(job.place / "in")))
    seen["hadoop"] = message(lambda: start("hadoop", checkpoint="s3a://bucket/checkpoint"))
    seen["rescale"] = message(lambda: ev.rescale(job.place / "memory", buckets=2, spark=job.spark))
    return seen


def message(call: Callable[[], Any], *, whole: bool = True) -> str | None:
    """Return the message of the error of a call; None: it has none."""
    try:
        call()
    except ev.EventideError as failure:
        return str(failure)
    except Exception as failure:
        if whole:
            raise
        return type(failure).__name__
    return None


STEPS = {"run": run, "transform": transform, "sources": sources, "failures": failures}

if __name__ == "__main__":
    steps = Job(Path(sys.argv[1]))
    result = STEPS[sys.argv[2]](steps)
    steps.spark.stop()  # or the process waits for its listeners
    print(json.dumps(result), flush=True)
