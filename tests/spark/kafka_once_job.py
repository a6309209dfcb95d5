"""A query whose batches are written in part, and again.

Run it with ``python -m tests.spark.kafka_once_job SERVERS JARS PLACE STATE``.

Panes and late rows share a topic. The topic is read back by both readers. With state on the executors, a larger batch
follows: the driver may receive one megabyte, which is less than the panes.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import polars as pl

import eventide as ev
from eventide.spark.sources import scan_kafka
from tests.spark.kafka_job import QUICK

PIPELINE = (
    ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("5 seconds"))
    .window(ev.tumbling("1 minute"))
    .emit(early=ev.on_update())
    .agg(orders=ev.count(), total=ev.sum("price"))
)
SHOPS = ("kiel", "rom", "oslo", "bern")
FIRST_FILE = 1_760_000_000
LARGE = 20_000  # panes of the large batch


def _bundle(*rows: tuple[str, str, int]) -> pl.DataFrame:
    frame = pl.DataFrame(rows, schema=["ts", "shop", "price"], orient="row")
    return frame.with_columns(pl.col("ts").str.to_datetime("%Y-%m-%dT%H:%M:%SZ", time_zone="UTC"))


BUNDLES = [
    _bundle(*((f"2026-03-01T10:00:{n:02}Z", shop, n) for n, shop in enumerate(SHOPS))),
    _bundle(*((f"2026-03-01T10:00:1{n}Z", shop, 10 * n) for n, shop in enumerate(SHOPS))),
    _bundle(*((f"2026-03-01T10:05:0{n}Z", shop, n) for n, shop in enumerate(SHOPS))),
    _bundle(*[("2026-03-01T10:00:30Z", "rom", 7)] * 3, ("2026-03-01T10:05:20Z", "rom", 1)),  # equal rows, all late
]


class Interrupted:
    """A sink that fails twice in each batch of an output: after a part of its rows, and after all of them."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.attempts: dict[tuple[str, int], int] = {}

    def open(self, schema: Any, info: Any) -> None:
        self._inner.open(schema, info)

    def write(self, batch: Any, batch_id: int, info: Any) -> None:
        attempt = self.attempts[info.output, batch_id] = self.attempts.get((info.output, batch_id), 0) + 1
        self._inner.write(batch.head(2) if attempt == 1 else batch, batch_id, info)
        if attempt < 3:
            raise RuntimeError("before Spark's commit")

    def close(self) -> None:
        self._inner.close()


def run_to_the_end(pipeline: Any, rows: Any, **options: Any) -> int:
    """Start a query again until it does not fail. Return how often it failed."""
    for failures in range(40):
        try:
            pipeline.run(rows, available_now=True, **options)
        except Exception as cause:
            assert "before Spark's commit" in str(cause), cause
        else:
            return failures
    raise AssertionError("the query always fails")


def stream_of(spark: Any, place: Path) -> Any:
    reader = spark.readStream.schema("ts timestamp, shop string, price long").option("maxFilesPerTrigger", 1)
    return reader.parquet(str(place))


def read_with_polars(topic: str, servers: str) -> list[str]:
    """All messages in frames of a few at a time, as a consumer has them."""
    table = scan_kafka(topic, servers=servers, streaming=False, includeHeaders=True).orderBy("partition", "offset")
    records = pl.DataFrame(table.drop("timestamp", "timestampType").toArrow())
    seen, values = None, []
    for poll in records.iter_slices(5):
        fresh, seen = ev.sinks.drop_repeats(poll, seen)
        values += [value.decode() for value in fresh["value"]]
    return values


def read_with_spark(topic: str, servers: str, place: Path) -> list[str]:
    """All messages by a streaming query that fails once after each write."""
    values: dict[int, list[str]] = {}

    def write(fresh: Any, batch_id: int) -> None:
        again = batch_id in values
        values[batch_id] = [bytes(row["value"]).decode() for row in fresh.collect()]
        if not again:
            raise RuntimeError("before Spark's commit")

    each = ev.sinks.without_repeats(write, state=place / "seen")
    messages = scan_kafka(
        topic, servers=servers, startingOffsets="earliest", includeHeaders=True, maxOffsetsPerTrigger=20
    )
    writer = messages.writeStream.foreachBatch(each).option("checkpointLocation", str(place / "checkpoint"))
    for _ in range(40):
        try:
            writer.trigger(availableNow=True).start().awaitTermination()
        except Exception as cause:
            assert "before Spark's commit" in str(cause), cause
        else:
            return [value for batch in values.values() for value in batch]
    raise AssertionError("the reader always fails")


def write_large(spark: Any, servers: str, place: Path) -> dict[str, Any]:
    """A batch whose panes the driver must not collect."""
    rows = spark.range(LARGE).selectExpr(
        "timestamp'2026-03-01 10:00:00Z' AS ts", "concat('shop ', id) AS shop", "id AS price"
    )
    rows.coalesce(1).write.parquet(str(place / "large"))
    sink = ev.sinks.spark_format("kafka", topic="large", **{"kafka.bootstrap.servers": servers})
    PIPELINE.run(
        stream_of(spark, place / "large"),
        sink=sink,
        checkpoint=str(place / "large-checkpoint"),
        available_now=True,
        state="executors",
    )
    messages = scan_kafka("large", servers=servers, streaming=False)
    try:
        messages.toArrow()
    except Exception as cause:
        return {"messages": messages.count(), "collected": "maxResultSize" not in str(cause)}
    return {"messages": messages.count(), "collected": True}


def main(servers: str, jars: str, place: Path, state: str) -> None:
    more = {"spark.local.dir": str(place / "local"), "spark.jars": jars, **QUICK}
    if state == "executors":
        more["spark.driver.maxResultSize"] = "1m"
    spark = ev.spark_session("once", config=more)
    topic = f"once-{state}"
    (place / "in").mkdir(parents=True)
    for number, bundle in enumerate(BUNDLES):
        file = place / "in" / f"{number}.parquet"
        bundle.write_parquet(file)
        os.utime(file, (FIRST_FILE + number, FIRST_FILE + number))  # Spark reads the oldest file first
    sink = Interrupted(ev.sinks.spark_format("kafka", topic=topic, **{"kafka.bootstrap.servers": servers}))
    failures = run_to_the_end(
        PIPELINE,
        stream_of(spark, place / "in"),
        sink=sink,
        late=sink,
        checkpoint=str(place / "checkpoint"),
        state=state,
    )
    written = scan_kafka(topic, servers=servers, streaming=False, includeHeaders=True)
    report = {
        "failures": failures,
        "written": [bytes(row["value"]).decode() for row in written.collect()],
        "distinct": written.select("key", "headers").distinct().count(),
        "polars": read_with_polars(topic, servers),
        "spark": read_with_spark(topic, servers, place / "reader"),
    }
    if state == "executors":
        report["large"] = write_large(spark, servers, place)
    print(json.dumps(report))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])
