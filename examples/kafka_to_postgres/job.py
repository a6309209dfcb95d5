"""Revenue per shop and minute: from a Kafka topic to a PostgreSQL table that always has the current results.

    python job.py --kafka broker:9092 --postgres postgresql://me@db/shop --checkpoint /data/checkpoints/revenue

The query runs until it is stopped. The same command resumes it from its checkpoint.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

import eventide as ev

TOPIC = "orders"
PARTITIONS = 3
ORDER = "order_id string, shop string, cents long, ts timestamp"
CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"

revenue = (
    ev.stream(
        time="ts",
        key="shop",
        watermark=ev.bounded_delay(
            "30 seconds",  # the disorder within a partition
            origin="partition",  # a fast partition does not make the rows of a slow one late
            idle_timeout="2 minutes",  # a silent partition does not stall the others
            expect_origins=PARTITIONS,  # on a backlog, time starts when each partition has sent a row
            origins_timeout="5 minutes",
            max_future_skew="1 hour",  # a producer with a wrong clock does not move the watermark
        ),
    )
    .window(ev.tumbling("1 minute"))
    .emit(early="10 seconds", allowed_lateness="10 minutes")
    .agg(orders=ev.count(), cents=ev.sum("cents"))
)


@dataclass
class LagAlert:
    """Notifies when the watermark is too far behind, when another partition holds it back, and when it has caught up.

    It sees batches, so it is silent while no batch runs. The rules of Prometheus in the README cover that.
    """

    limit: timedelta
    notify: Callable[[str], None]
    partition: str | None = None  # which held back the watermark at the last alert; None: no alert is active

    def __call__(self, batch: ev.BatchMetrics) -> None:
        if batch.lag is None:
            return  # the watermark is not known yet, or the stream has ended
        minutes = batch.lag / timedelta(minutes=1)
        if batch.lag <= self.limit:
            if self.partition is not None:
                self.notify(f"RESOLVED: the watermark is {minutes:.1f} minutes behind")
            self.partition = None
        elif self.partition != batch.least_origin:
            self.partition = batch.least_origin
            self.notify(
                f"ALERT: the watermark is {minutes:.1f} minutes behind, held back by partition {self.partition}"
            )


def session(jars: str | None = None) -> SparkSession:
    """Return a session with Spark's Kafka connector: from Maven Central, or from the paths of its jars."""
    return ev.spark_session("revenue", config={"spark.jars": jars} if jars else {"spark.jars.packages": CONNECTOR})


def start(
    spark: SparkSession,
    *,
    kafka: str,
    postgres: str,
    checkpoint: str | Path,
    alert: LagAlert,
    interval: str = "5 seconds",
) -> ev.Query:
    """Start the query. It writes three tables, each exactly once: ``revenue``, ``late_orders`` and ``dead_orders``."""
    orders = ev.scan_kafka(
        TOPIC, servers=kafka, schema=ORDER, spark=spark, startingOffsets="earliest", maxOffsetsPerTrigger=1_000_000
    )
    return revenue.run(
        orders,
        sink=ev.sinks.table(postgres, name="revenue"),
        late=ev.sinks.table(postgres, name="late_orders"),
        dead=ev.sinks.table(postgres, name="dead_orders"),
        checkpoint=checkpoint,
        interval=interval,
        whole_rows=True,  # late rows and dead letters have all columns, so that they can be sent again
        on_batch=alert,
        name="revenue",
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kafka", required=True, metavar="HOST:PORT", help="bootstrap servers")
    options.add_argument("--postgres", required=True, metavar="URL", help="database of the tables")
    options.add_argument("--checkpoint", required=True, metavar="PATH", help="state and progress of the query")
    options.add_argument("--jars", help="paths of the connector's jars; default: Spark downloads them")
    options.add_argument("--lag", type=float, default=5, metavar="MINUTES", help="lag above which to alert")
    arguments = options.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    alert = LagAlert(timedelta(minutes=arguments.lag), logging.warning)
    spark = session(arguments.jars)
    start(
        spark, kafka=arguments.kafka, postgres=arguments.postgres, checkpoint=arguments.checkpoint, alert=alert
    ).await_termination()


if __name__ == "__main__":
    main()
