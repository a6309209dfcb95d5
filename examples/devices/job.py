"""Temperatures of devices in windows of ten minutes, with a watermark per device.

    python job.py /data/uploads --database postgresql://me@db/plant --checkpoint /data/checkpoints/temperatures

A gateway stores the uploads of devices as JSON files. The query runs until it is stopped. The same command resumes it.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

import eventide as ev

READING = "device string, number long, celsius double, at timestamp"
DELAY, WINDOW, LATENESS = "1 minute", "10 minutes", "2 hours"


def temperatures(idle_timeout: str = "15 minutes") -> ev.Pipeline:
    """Return the pipeline. ``idle_timeout`` must be longer than the longest pause of a healthy device."""
    return (
        ev.stream(
            time="at",
            key="device",
            watermark=ev.bounded_delay(
                DELAY,
                origin="device",  # a fast device does not make the readings of a slow one late
                idle_timeout=idle_timeout,  # a device that is offline does not stall the others
                on_return="hold",  # when it returns, time waits until it has caught up
                max_future_skew="1 hour",  # a device with a wrong clock does not move the watermark
            ),
        )
        .window(ev.tumbling(WINDOW))
        .emit(allowed_lateness=LATENESS)
        .agg(readings=ev.count(), mean=ev.mean("celsius"), highest=ev.max("celsius"))
    )


@dataclass
class IdleReport:
    """Notifies when a device becomes idle, and when it returns."""

    notify: Callable[[str], None]
    idle: frozenset[str] = frozenset()

    def __call__(self, batch: ev.BatchMetrics) -> None:
        idle = frozenset(map(str, batch.idle_origins))
        for device in sorted(idle - self.idle):
            self.notify(f"{device} is idle: the watermark does not wait for it")
        for device in sorted(self.idle - idle):
            self.notify(f"{device} has returned")
        self.idle = idle


def start(
    spark: SparkSession,
    pipeline: ev.Pipeline,
    *,
    uploads: str | Path,
    database: str,
    checkpoint: str | Path,
    report: IdleReport,
    interval: str = "10 seconds",
) -> ev.Query:
    """Start the query. It writes ``temperatures``, ``late_readings`` and ``dead_readings``, each exactly once."""
    return pipeline.run(
        spark.readStream.schema(READING).json(str(uploads)),
        sink=ev.sinks.table(database, name="temperatures"),
        late=ev.sinks.table(database, name="late_readings"),
        dead=ev.sinks.table(database, name="dead_readings"),
        checkpoint=checkpoint,
        interval=interval,
        whole_rows=True,  # late rows and dead letters have all columns
        source_position=True,  # and the file that they came from, also for a line that is not JSON
        on_batch=report,
        name="temperatures",
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("uploads", help="the directory of the uploads")
    options.add_argument("--database", required=True, metavar="URL", help="postgresql://… or sqlite:///FILE")
    options.add_argument("--checkpoint", required=True, metavar="PATH", help="state and progress of the query")
    arguments = options.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    query = start(
        ev.spark_session("temperatures"),
        temperatures(),
        uploads=arguments.uploads,
        database=arguments.database,
        checkpoint=arguments.checkpoint,
        report=IdleReport(logging.info),
    )
    query.await_termination()


if __name__ == "__main__":
    main()
