"""Files that are read and stamped in the same worker. Spark finds them and logs which batch has which, but never opens
them; the tasks do, with Polars.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from eventide.errors import spark as errors
from eventide.spark.clock import batch_time
from eventide.spark.control import on_disk
from eventide.spark.scan import Scan
from eventide.spark.stamping import NOW
from eventide.spark.types import as_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from eventide.spark.scan import Read

_SCHEMES = ("s3://", "s3a://", "gs://", "abfs://", "abfss://", "az://", "http://", "https://")  # that Polars opens
_FILE = "path string, modificationTime timestamp, length bigint, content binary"  # the content is never asked for
_ROWS = 2_000_000  # rows read at a time


@dataclass(frozen=True)
class Files(Scan):
    """Files that become a stream."""

    path: str
    format: Literal["parquet", "arrow"]
    files_per_batch: int | None = None
    parts: int = 1  # of each file, each read by a task of its own

    def pieces(self) -> DataFrame:
        """A row for each part of a file: its name, and which of its parts."""
        from pyspark.sql import functions as F  # noqa: N812

        found = self.spark.readStream.format("binaryFile").schema(_FILE).option("pathGlobFilter", f"*.{self.format}")
        if self.files_per_batch is not None:
            found = found.option("maxFilesPerTrigger", self.files_per_batch)
        names = found.load(self.path).select(F.col("path"), batch_time().alias(NOW))
        if self.parts == 1:
            return names.withColumn("part", F.lit(0))
        # A product, in which every task lists the names by itself, needs no shuffle: a stage less in every batch.
        every = self.spark.range(0, self.parts, 1, numPartitions=self.parts).select(F.col("id").alias("part"))
        return names.hint("shuffle_replicate_nl").crossJoin(every)

    def reading(self) -> Read:
        """Reads a part of a file."""
        parts = self.parts

        def read(piece: dict[str, Any], schema: Mapping[str, pl.DataType]) -> Iterator[pl.DataFrame]:
            return _read(_path(piece["path"]), schema, piece["part"], parts)

        return read


def scan_parquet(
    path: str, *, files_per_batch: int | None = None, parts: int | None = None, spark: SparkSession | None = None
) -> Files:
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
    return Files(schema, active, path, "parquet", files_per_batch, parts)


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
