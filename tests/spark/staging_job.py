"""A query with state on the executors, whose batches are all staged.

``python -m tests.spark.staging_job PLACE URL [MASTER [endless]]``. It prints the number of each batch. ``endless``
waits for further files; otherwise the query processes those that exist, and drains the stream.

``EVENTIDE_DIE=3`` lets the driver die with SIGKILL in that batch, between staging and merge. In the first run, a Python
worker dies after its rows are committed and before Spark knows it, so Spark repeats its task.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import eventide as ev
from eventide.sinks.staged_tables import PostgresStaging
from eventide.sinks.table_databases import Postgres, PostgresConnection
from eventide.sinks.table_sink import TableSink
from tests.spark.chaos import PIPELINE, SCHEMA

JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


@dataclass(frozen=True)
class DeadlyPostgres(Postgres):
    """A database that kills the first task that has written to it."""

    marker: str = ""

    def connect(self) -> PostgresConnection:
        connection = super().connect()
        return DeadlyConnection(connection.raw, self.marker)


@dataclass(frozen=True)
class DeadlyConnection(PostgresConnection):
    marker: str = ""

    def close(self) -> None:
        from pyspark import TaskContext

        super().close()
        if TaskContext.get() is not None and not Path(self.marker).exists():
            Path(self.marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)


class DeadlyStaging(PostgresStaging):
    """Lets the driver die in a chosen batch, when its rows are staged."""

    def merge(self, table: str, parts: Any, query: str, batch_id: int) -> None:
        if os.environ.get("EVENTIDE_DIE") == str(batch_id):
            os.killpg(0, signal.SIGKILL)  # the JVM, too
        super().merge(table, parts, query, batch_id)


def main(place: Path, url: str, master: str = "local[2,3]", mode: str = "") -> None:
    # Two tasks at a time; a task may fail twice.
    config = {
        "spark.local.dir": str(place / "local"),
        "spark.driver.extraJavaOptions": JAVA,
        "spark.executor.extraJavaOptions": JAVA,
        "spark.executor.memory": "512m",
        "spark.deploy.maxExecutorRetries": "-1",  # of executors that die one after another
    }
    spark = ev.spark_session("staging", master=master, partitions=2, config=config)
    sink = TableSink(DeadlyPostgres(url, marker=str(place / "killed")), "panes", None, True, staged=True)
    open_sink = sink.open

    def open_deadly(schema: Any, info: Any) -> None:
        open_sink(schema, info)
        inner = sink._staging[info.output]
        sink._staging[info.output] = DeadlyStaging(inner.database, inner.store, inner.sql)

    sink.open = open_deadly  # type: ignore[method-assign]
    query = PIPELINE.run(
        spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(place / "in")),
        sink=sink,
        checkpoint=place / "checkpoint",
        available_now=mode != "endless",
        drain=mode != "endless",
        state="executors",
        on_batch=lambda metrics: print("batch", metrics.batch, flush=True),
    )
    query.await_termination()
    print("done", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
