"""A fused scan: files that are read and stamped in the same worker, so that their rows never cross the JVM.

Spark finds the files and logs which batch has which, as it does for any file source; it never opens them. A task gets
the names of its files, reads them with Polars, and sends on what the stamp makes of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import polars as pl
import pyarrow as pa

from eventide.errors import spark as errors
from eventide.spark import page
from eventide.spark.buckets import labels
from eventide.spark.control import on_disk
from eventide.spark.settling import settle
from eventide.spark.stage import Stage
from eventide.spark.stamping import NOW, StampBatches, as_batch, stamped_pages, watermark_known
from eventide.spark.tasks import this_task
from eventide.spark.types import as_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from eventide.plan.pipeline import Pipeline

_SCHEMES = ("s3://", "s3a://", "gs://", "abfs://", "abfss://", "az://", "http://", "https://")  # that Polars opens
_FILE = "path string, modificationTime timestamp, length bigint, content binary"  # the content is never asked for
_ROWS = 2_000_000  # rows read at a time


@dataclass(frozen=True)
class Scan:
    """Files that become a stream. ``scan.transform(pipeline)`` gives panes; ``ev.run`` takes it, too."""

    path: str
    format: Literal["parquet", "arrow"]
    schema: StructType
    spark: SparkSession
    files_per_batch: int | None = None
    parts: int = 1  # of each file, each read by a task of its own

    isStreaming = True  # noqa: N815  # as a DataFrame says it

    @property
    def sparkSession(self) -> SparkSession:  # noqa: N802  # as a DataFrame says it
        """The session that it runs in."""
        return self.spark

    def transform(self, pipeline: Pipeline) -> DataFrame:
        """The panes of a pipeline over the files."""
        return pipeline(self)

    def files(self) -> DataFrame:
        """A row for each part of a file: its name, and which of its parts."""
        from pyspark.sql import functions as F  # noqa: N812

        found = self.spark.readStream.format("binaryFile").schema(_FILE).option("pathGlobFilter", f"*.{self.format}")
        if self.files_per_batch is not None:
            found = found.option("maxFilesPerTrigger", self.files_per_batch)
        names = found.load(self.path).select(
            F.col("path"), F.unix_micros(F.current_timestamp()).alias(NOW), F.lit(0).alias("part")
        )
        if self.parts == 1:
            return names
        every = F.explode(F.array(*[F.lit(label) for label in labels(self.parts)])).alias("part")
        return names.select("path", NOW, every).repartition(self.parts, "part")


def scan_parquet(
    path: str, *, files_per_batch: int | None = None, parts: int | None = None, spark: SparkSession | None = None
) -> Scan:
    """Parquet files, those that are there and those to come, as the fastest source for a pipeline.

    In place of ``spark.readStream.parquet(path)``. ``files_per_batch`` limits a micro-batch; each file is read in
    ``parts`` tasks (default: as many as there are cores if a batch has fewer files than that).

    >>> import eventide as ev
    >>> ev.scan_parquet("s3://shop/orders/").transform(revenue)  # doctest: +SKIP
    """
    from pyspark.sql import SparkSession

    active = spark or SparkSession.getActiveSession()
    if active is None:
        raise errors.no_session("scan_parquet()")
    files = active.read.parquet(path)
    schema = files.schema
    folders = re.findall(r"/([^/=]+)=[^/]*(?=/)", next(iter(files.inputFiles()), ""))
    if set(folders) & set(schema.names):
        raise errors.partitioned_scan(sorted(set(folders) & set(schema.names)))
    if not path.startswith(_SCHEMES) and on_disk(path) is None:
        raise errors.scan_scheme(path)
    if parts is None:
        cores = int(active.conf.get("spark.sql.shuffle.partitions", "1") or 1)
        parts = -(-cores // files_per_batch) if files_per_batch else 1
    return Scan(path, "parquet", schema, active, files_per_batch, parts)


def stamp_files(stage: Stage, parts: int, edge: int = 0) -> StampBatches:
    """Names of files to pages."""

    def stamped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        task = this_task()
        was = watermark_known(stage, task)
        number = 0
        for one in (one for batch in batches for one in batch.to_pylist()):
            part = labels(parts).index(one["part"])
            for rows in _read(_path(one["path"]), stage.schemas[edge], part, parts):
                sequence = page.sequence(task.number, number)
                yield as_batch(stamped_pages(stage, rows, one[NOW], sequence, was, edge))
                number += 1

    return stamped


def _read(path: str, schema: Mapping[str, pl.DataType], part: int, parts: int) -> Iterator[pl.DataFrame]:
    """The rows of one part of a file, some at a time."""
    file = pl.scan_parquet(path, glob=False)
    total: int = file.select(pl.len()).collect().item()
    place, end = total * part // parts, total * (part + 1) // parts
    there = {name.lower(): name for name in file.collect_schema().names()}  # Spark does not tell them apart
    found = [pl.col(there[name.lower()]).alias(name) for name in schema if name.lower() in there]
    # A file from before a column was added has nulls in it, as in Spark.
    missing = [pl.lit(None, dtype).alias(name) for name, dtype in schema.items() if name.lower() not in there]
    while place < end:
        size = min(_ROWS, end - place)
        rows = file.select(found).slice(place, size).collect() if found else pl.DataFrame({"": [None] * size})
        yield as_rows(rows.with_columns(missing).select(*schema), schema)
        place += size


def _path(address: str) -> str:
    """A file's address as Polars opens it."""
    return on_disk(address) or address.replace("s3a://", "s3://", 1)
