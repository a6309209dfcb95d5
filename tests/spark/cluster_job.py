"""A query on a cluster: ``python -m tests.spark.cluster_job PLACE MASTER CONFIG PLACEMENT …``.

``CONFIG`` is JSON: further settings of Spark. The query runs once in each placement. The job prints where Python
workers have found Eventide, the number of each batch, and what a query was rejected with.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import eventide as ev
from eventide.sinks.table_sink import table
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
    for state in placements:
        try:
            PIPELINE.run(
                spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(place / "in")),
                sink=table(f"sqlite:///{place}/{state}/panes.db", name="panes"),
                checkpoint=place / state / "checkpoint",
                available_now=True,
                drain=True,
                state=state,
                on_batch=lambda metrics: print("batch", metrics.batch, flush=True),
            )
            print("done", state, flush=True)
        except ev.PlanError as rejection:
            print("rejected", state, rejection, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
