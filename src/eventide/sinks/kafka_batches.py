"""``without_repeats``: ``drop_repeats`` in a streaming query of Spark that reads a topic.

The messages are compared where they are read: by partition of the topic, in the tasks of Spark. Only their keys and
headers are shuffled, and nothing is collected in the driver. What was seen is a Parquet directory for each batch of the
query that reads. A repeated batch starts from the directory of the batch before it, so it drops the same messages.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from eventide._jvm import hadoop
from eventide.errors import DataError, PlanError
from eventide.sinks.kafka_repeats import SEEN, drop_repeats

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COMPARED = ("topic", "partition", "offset", "key", "headers")
_POSITION = ["topic", "partition", "offset"]
_TYPES = {pl.String: ("string", pa.string()), pl.Int64: ("long", pa.int64()), pl.Binary: ("binary", pa.binary())}
_SEEN_COLUMNS = ", ".join(f"{name} {_TYPES[dtype.base_type()][0]}" for name, dtype in SEEN.items())
_OUTCOME = pa.schema([*((name, _TYPES[dtype.base_type()][1]) for name, dtype in SEEN.items()), ("offset", pa.int64())])
_DIRECTORY = re.compile(r"batch=(\d+)")


def without_repeats(
    function: Callable[[DataFrame, int], Any], *, state: str | os.PathLike[str]
) -> Callable[[DataFrame, int], None]:
    """Return a function for ``foreachBatch`` that calls ``function`` with the messages that are not repeats.

    The query reads a topic with ``includeHeaders``, and keeps the columns of Spark's Kafka source. ``state`` is a
    directory next to the checkpoint of the query, on any file system that Spark reaches. Use a new one with a new
    checkpoint. The rule is that of ``drop_repeats``.

    >>> import eventide as ev
    >>> def write(records, batch_id):
    ...     records.selectExpr("CAST(value AS STRING)").write.mode("append").text("panes")
    >>> panes = ev.scan_kafka("revenue", servers="broker:9092", includeHeaders=True)  # doctest: +SKIP
    >>> each = ev.sinks.without_repeats(write, state="checkpoints/reader/seen")
    >>> panes.writeStream.option("checkpointLocation", "checkpoints/reader").foreachBatch(each)  # doctest: +SKIP
    """
    root = os.fspath(state).rstrip("/")

    @wraps(function)
    def each(records: DataFrame, batch_id: int) -> None:
        missing = [name for name in _COMPARED if name not in records.columns]
        if missing:
            raise PlanError(
                f"without_repeats(): the messages have no column {missing[0]!r}. Keep the columns of Spark's Kafka "
                "source, and read the topic with includeHeaders=True."
            )
        spark = records.sparkSession
        seen = _seen_before(spark, root, batch_id)
        records.persist()  # the messages are compared, and then written
        outcome = _outcome(records, seen).persist()
        try:
            repeats = outcome.where("offset IS NOT NULL").select(*_POSITION)
            function(records.join(repeats, _POSITION, "left_anti"), batch_id)
            outcome.where("offset IS NULL").drop("offset").write.mode("overwrite").parquet(_place(root, batch_id))
        finally:
            outcome.unpersist()
            records.unpersist()
        _forget(spark, root, batch_id - 1)

    return each


def _outcome(records: DataFrame, seen: DataFrame) -> DataFrame:
    """Return the repeats, which have an offset, and what is seen now, which has none."""
    compared = records.select(*_COMPARED).withColumn("partition", records["partition"].cast("long"))
    by = ("topic", "partition")
    return compared.groupBy(*by).cogroup(seen.groupBy(*by)).applyInArrow(_compare, f"{_SEEN_COLUMNS}, offset long")


def _compare(records: pa.Table, seen: pa.Table) -> pa.Table:
    """Compare the messages of one partition."""
    arrived = pl.DataFrame(records)
    fresh, last = drop_repeats(arrived, pl.DataFrame(seen))
    repeats = arrived.join(fresh, on="offset", how="anti").select(_POSITION)
    return pl.concat([last, repeats], how="diagonal").to_arrow().cast(_OUTCOME)


def _seen_before(spark: SparkSession, root: str, batch_id: int) -> DataFrame:
    """Return what was seen before a batch: nothing, if the state is new."""
    stored = _stored(spark, root) - {batch_id}  # the batch itself is there if a failure interrupted it
    if batch_id - 1 in stored:
        return spark.read.schema(_SEEN_COLUMNS).parquet(_place(root, batch_id - 1))
    if stored:
        raise DataError(
            f"The state {root!r} ends with batch {max(stored)}, but the query continues with batch {batch_id}. A state "
            "belongs to one checkpoint. Use a new directory for state=."
        )
    return spark.createDataFrame([], _SEEN_COLUMNS)


def _place(root: str, batch_id: int) -> str:
    return f"{root}/batch={batch_id}"


def _stored(spark: SparkSession, root: str) -> set[int]:
    files, path = _file_system(spark, root)
    if not files.exists(path):
        return set()
    names = (_DIRECTORY.fullmatch(status.getPath().getName()) for status in files.listStatus(path))
    return {int(name[1]) for name in names if name}


def _forget(spark: SparkSession, root: str, before: int) -> None:
    """Delete the state of earlier batches, which are not repeated any more."""
    for batch_id in _stored(spark, root):
        if batch_id < before:
            files, path = _file_system(spark, _place(root, batch_id))
            files.delete(path, True)


def _file_system(spark: SparkSession, place: str) -> tuple[Any, Any]:
    try:
        java, settings = hadoop(spark)
    except AttributeError as cause:
        raise PlanError(
            "without_repeats() does not work over Spark Connect, which has no access to Spark's file systems: read the "
            "topic with a session in this process."
        ) from cause
    path = java.org.apache.hadoop.fs.Path(place)
    return path.getFileSystem(settings), path
