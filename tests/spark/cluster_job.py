"""A query on a cluster: ``python -m tests.spark.cluster_job PLACE MASTER CONFIG PLACEMENT …``.

``CONFIG`` is JSON: further settings of Spark. The query runs once in each placement; ``rescaled`` is one that begins in
the driver, and whose state moves to six buckets and back. The table is in SQLite, or in the PostgreSQL database
``EVENTIDE_DATABASE``, where the executors stage their rows. The job prints where Python workers have found Eventide,
the number of each batch, and what a query was rejected with.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import eventide as ev
from eventide.sinks.table_sink import table
from eventide.spark.buckets import BUCKETS
from eventide.spark.query_record import FILE
from tests.spark.chaos import PIPELINE, SCHEMA

JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def eventide_on_workers(spark: Any) -> list[str]:
    """Return the files from which Python workers import Eventide; an error instead of a file that is missing."""

    def locate(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            import eventide

            where = str(eventide.__file__)
        except ImportError as error:
            where = str(error)
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"where": [where] * batch.num_rows})

    return sorted({row["where"] for row in spark.range(0, 4, 1, 4).mapInArrow(locate, "where string").collect()})


def main(place: Path, master: str, config: str, *placements: Any) -> None:
    settings = {"spark.executor.memory": "512m", "spark.executor.extraJavaOptions": JAVA, **json.loads(config)}
    settings |= {"spark.driver.extraJavaOptions": JAVA, "spark.local.dir": str(place / "local")}
    spark = ev.spark_session("cluster", master=master, partitions=4, config=settings)
    print("eventide", *eventide_on_workers(spark), flush=True)

    def run(name: str, state: Any, *, drain: bool = True) -> None:
        PIPELINE.run(
            spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(place / "in")),
            sink=table(os.environ.get("EVENTIDE_DATABASE", f"sqlite:///{place}/{name}/panes.db"), name="panes"),
            checkpoint=place / name / "checkpoint",
            available_now=True,
            drain=drain,
            state=state,
            on_batch=lambda metrics: print("batch", metrics.batch, flush=True),
        )

    for name in placements:
        try:
            if name == "rescaled":
                checkpoint = place / name / "checkpoint"
                run(name, "driver", drain=False)
                moved = ev.rescale(checkpoint, buckets=6, spark=spark)
                print("buckets", *moved.buckets, recorded_progress(checkpoint), flush=True)
                spark.conf.set(BUCKETS, "6")  # the session of the job names another number
                run(name, "executors", drain=False)
                ev.rescale(checkpoint, to="driver", spark=spark)
            run(name, "driver" if name == "rescaled" else name)
            print("done", name, flush=True)
        except ev.PlanError as rejection:
            print("rejected", name, rejection, flush=True)


def recorded_progress(checkpoint: Path) -> str:
    """Return how progress reaches the buckets of the first operator."""
    record = json.loads((checkpoint / FILE).read_text(encoding="utf-8"))
    return str(record["operators"][0]["progress"])


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
