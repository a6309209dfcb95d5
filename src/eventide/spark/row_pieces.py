"""The rows of a batch in pieces, partition by partition: for workers without Eventide, which cannot stamp rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PIECE = 64 << 20  # bytes of rows that are stamped together: what the driver holds beside the cells
_WORKERS = 16  # tasks that look for Eventide, so that several executors are asked


def workers_have_eventide(spark: SparkSession) -> bool:
    """Return whether Python workers can import Eventide. A worker that cannot even be started cannot.

    The function that looks is pickled by value and refers to nothing of Eventide, so that any worker can run it.
    """

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow

        try:
            import eventide.spark.stamping  # noqa: F401

            found = True
        except ImportError:
            found = False
        for batch in batches:
            yield pyarrow.RecordBatch.from_pydict({"found": [found] * batch.num_rows})

    tasks = max(1, min(spark.sparkContext.defaultParallelism, _WORKERS))
    try:
        answers = spark.range(0, tasks, 1, tasks).mapInArrow(look, "found boolean").collect()
    except Exception:  # of Spark, whatever keeps its workers from starting
        return False
    return all(answer["found"] for answer in answers)


def row_pieces(batch: DataFrame, size: int = PIECE) -> Iterator[pa.Table]:
    """Yield the rows of a batch as tables of about ``size`` bytes, in their order.

    Each partition is a job of its own, so what is in memory is one partition in the JVM and one piece here.
    """
    pending: list[pa.RecordBatch] = []
    held = 0
    for records in _records(batch):
        pending.append(records)
        held += records.nbytes
        if held >= size:
            yield pa.Table.from_batches(pending)
            pending, held = [], 0
    if pending:
        yield pa.Table.from_batches(pending)


def _records(batch: DataFrame) -> Iterator[pa.RecordBatch]:
    """Arrow batches as the JVM makes them. ``toArrow`` is made of the same, but collects all partitions at once."""
    from pyspark.serializers import NoOpSerializer
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.util import _local_iterator_from_socket

    spark = batch.sparkSession
    large = spark.conf.get("spark.sql.execution.arrow.useLargeVarTypes", "false") == "true"
    schema = to_arrow_schema(batch.schema, timezone="UTC", prefers_large_types=large)
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    rdd = batch._jdf.toArrowBatchRdd()
    served = jvm.org.apache.spark.api.python.PythonRDD.toLocalIteratorAndServe(rdd, False)
    for message in _local_iterator_from_socket(served, NoOpSerializer()):
        yield pa.ipc.read_record_batch(pa.ipc.read_message(message), schema)
