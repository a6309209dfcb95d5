"""Files that are read and stamped in the same worker. Spark finds them and logs which batch has which, but never opens
them; the tasks do, with Polars.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import polars as pl

from eventide.errors import spark as errors
from eventide.spark.addresses import on_disk
from eventide.spark.clock import batch_time
from eventide.spark.partitions import query_cores
from eventide.spark.scan import Scan, Unreadable
from eventide.spark.session import reject_spark_connect
from eventide.spark.stamping import NOW
from eventide.spark.types import as_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from eventide.spark.scan import Read

_SCHEMES = ("s3://", "s3a://", "gs://", "abfs://", "abfss://", "az://", "http://", "https://")  # that Polars opens
_FILE = "path string, modificationTime timestamp, length bigint, content binary"  # the content is never asked for
_ROWS = 2_000_000  # rows read at a time
_FAILURES = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)  # what a damaged or missing file raises

OnBadFile: TypeAlias = Literal["fail", "dead"]


@dataclass(frozen=True)
class Files(Scan):
    """Files that become a stream."""

    path: str
    format: Literal["parquet", "arrow"]
    files_per_batch: int | None = None
    parts: int = 1  # of each file, each read by a task of its own
    on_bad_file: OnBadFile = "fail"

    @property
    def keeps_unreadable(self) -> bool:  # type: ignore[override]
        """Whether a file that cannot be read becomes a dead letter."""
        return self.on_bad_file == "dead"

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

    def reading(self, parts: int | None = None) -> Read:
        """Reads a part of a file. ``parts`` is how many a file has, if not as many as it has for tasks."""
        parts = parts or self.parts

        def read(piece: dict[str, Any], schema: Mapping[str, pl.DataType]) -> Iterator[pl.DataFrame | Unreadable]:
            return _read(_path(piece["path"]), schema, piece["part"], parts)

        return read


def scan_parquet(
    path: str,
    *,
    files_per_batch: int | None = None,
    parts: int | None = None,
    on_bad_file: OnBadFile = "fail",
    spark: SparkSession | None = None,
) -> Files:
    """Parquet files, those that are there and those to come, as the fastest source for a pipeline.

    In place of ``spark.readStream.parquet(path)``. ``files_per_batch`` limits a micro-batch; each file is read in
    ``parts`` tasks (default: as many as there are cores if a batch has fewer files than that).

    A file that cannot be read stops the query, with its name and the batch. With ``on_bad_file="dead"`` it becomes a
    dead letter with its name in ``detail`` and nulls in all other columns, and the query goes on.

    >>> import eventide as ev
    >>> ev.scan_parquet("s3://shop/orders/").transform(revenue)  # doctest: +SKIP
    """
    from pyspark.sql import SparkSession

    active = spark or SparkSession.getActiveSession()
    if active is None:
        raise errors.no_session("scan_parquet()")
    reject_spark_connect(active)
    if on_bad_file not in get_args(OnBadFile):
        raise errors.unknown_choice("scan_parquet()", "on_bad_file", on_bad_file, get_args(OnBadFile))
    files = active.read.option("ignoreCorruptFiles", on_bad_file == "dead").parquet(path)
    schema = files.schema
    folders = re.findall(r"/([^/=]+)=[^/]*(?=/)", next(iter(files.inputFiles()), ""))
    if set(folders) & set(schema.names):
        raise errors.partitioned_scan(sorted(set(folders) & set(schema.names)))
    if not path.startswith(_SCHEMES) and on_disk(path) is None:
        raise errors.scan_scheme(path)
    if parts is None:
        parts = -(-query_cores(active) // files_per_batch) if files_per_batch else 1
    return Files(schema, active, path, "parquet", files_per_batch, parts, on_bad_file)


def _read(path: str, schema: Mapping[str, pl.DataType], part: int, parts: int) -> Iterator[pl.DataFrame | Unreadable]:
    """The rows of one part of a file, some at a time. Rows that cannot be read are named, and those after them read."""
    try:
        file = pl.scan_parquet(path, glob=False)
        total: int = file.select(pl.len()).collect().item()
        names = file.collect_schema().names()
    except _FAILURES as failure:
        if part == 0:  # once for the file, not once for each of its parts
            yield Unreadable(f"the file {path!r}", _first_line(failure))
        return
    place, end = total * part // parts, total * (part + 1) // parts
    there = {name.lower(): name for name in names}  # Spark does not tell them apart
    found = [pl.col(there[name.lower()]).alias(name) for name in schema if name.lower() in there]
    # A file from before a column was added has nulls in it, as in Spark.
    missing = [pl.lit(None, dtype).alias(name) for name, dtype in schema.items() if name.lower() not in there]
    while place < end:
        size = min(_ROWS, end - place)
        try:
            rows = file.select(found).slice(place, size).collect() if found else pl.DataFrame({"": [None] * size})
            piece: pl.DataFrame | Unreadable = as_rows(rows.with_columns(missing).select(*schema), schema)
        except _FAILURES as failure:
            piece = Unreadable(f"rows {place + 1} to {place + size} of the file {path!r}", _first_line(failure))
        yield piece
        place += size


def _first_line(failure: BaseException) -> str:
    return next(iter(str(failure).splitlines()), "") or type(failure).__name__


def _path(address: str) -> str:
    """A file's address as Polars opens it."""
    return on_disk(address) or address.replace("s3a://", "s3://", 1)
