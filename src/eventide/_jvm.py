"""Spark's Java objects, which have no public Python API. No other module takes them from a session or a DataFrame.

Hadoop file systems need them. Every other use has a fallback for a session that does not have them. The table of all
private uses is in ``docs/design/spark.md``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def hadoop(spark: SparkSession) -> tuple[Any, Any]:
    """Return the Java classes and the Hadoop settings of a session: those that its checkpoints are opened with."""
    return spark.sparkContext._jvm, spark._jsparkSession.sessionState().newHadoopConf()


def hadoop_of_new_sessions(spark: SparkSession) -> tuple[Any, Any]:
    """Return the Java classes and the Hadoop settings that all sessions of this JVM begin with."""
    return spark.sparkContext._jvm, spark.sparkContext._jsc.hadoopConfiguration()


def hidden_columns(rows: DataFrame) -> list[str] | None:
    """Return the columns that can be selected and are not listed; None if the session cannot list them."""
    try:
        hidden = rows._jdf.queryExecution().analyzed().metadataOutput()
        return [str(hidden.apply(position).name()) for position in range(hidden.size())]
    except AttributeError:
        return None


@lru_cache(maxsize=4)  # the start of a query asks several times, and each time costs a dozen calls of the JVM
def default_scheme(spark: SparkSession) -> str:
    """Return the scheme of Spark's default file system; ``file`` if the session does not define one."""
    try:
        java, settings = hadoop(spark)
        return str(java.org.apache.hadoop.fs.FileSystem.getDefaultUri(settings).getScheme())
    except AttributeError:
        return "file"


def arrow_batches(rows: DataFrame) -> Iterator[pa.RecordBatch]:
    """Return the rows of a DataFrame, one partition after the other.

    ``toArrow`` collects all partitions at once. It is the fallback.
    """
    import pyarrow as pa

    try:
        from pyspark.serializers import NoOpSerializer
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.util import _local_iterator_from_socket

        spark = rows.sparkSession
        large_types = spark.conf.get("spark.sql.execution.arrow.useLargeVarTypes", "false") == "true"
        schema = to_arrow_schema(rows.schema, timezone="UTC", prefers_large_types=large_types)
        java: Any = spark.sparkContext._jvm
        server = java.org.apache.spark.api.python.PythonRDD
        socket = server.toLocalIteratorAndServe(rows._jdf.toArrowBatchRdd(), False)
    except (AttributeError, ImportError):
        return iter(rows.toArrow().to_batches())
    messages = _local_iterator_from_socket(socket, NoOpSerializer())
    return (pa.ipc.read_record_batch(pa.ipc.read_message(message), schema) for message in messages)


def is_stopped(spark: SparkSession) -> bool:
    """Return whether Spark has stopped, or its Java process has ended."""
    try:
        return bool(spark.sparkContext._jsc.sc().isStopped())
    except Exception:  # a process that has ended does not answer
        return True
