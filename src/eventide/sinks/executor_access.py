"""Whether executors reach a database. A small job finds out before the first large batch needs to know."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from eventide.sinks.table_databases import Database

_TASKS = 16  # that connect, so that several executors are asked


def executor_problem(database: Database, spark: SparkSession) -> str | None:
    """Return why executors cannot connect to a database; None if they can. A worker that does not start cannot."""
    tasks = max(1, min(spark.sparkContext.defaultParallelism, _TASKS))
    try:
        answers = spark.range(0, tasks, 1, tasks).mapInArrow(connection_probe(database), "problem string").collect()
    except Exception as failure:  # of Spark, for any reason that keeps its workers from starting
        return f"their Python workers failed: {_first_line(failure)}"
    return next((answer["problem"] for answer in answers if answer["problem"]), None)


def connection_probe(database: Database) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that connects to a database in a task, and yields what went wrong."""

    def probe_connection(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            try:
                database.connect().close()
                problem = ""
            except Exception as failure:  # of the driver of the database, or of its import
                problem = _first_line(failure)
            yield pa.RecordBatch.from_pydict({"problem": [problem] * batch.num_rows})

    return probe_connection


def _first_line(failure: BaseException) -> str:
    lines = str(failure).strip().splitlines()
    return (lines[0] if lines else type(failure).__name__).rstrip(".")
