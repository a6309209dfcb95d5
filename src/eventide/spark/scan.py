"""Sources that are read and stamped in the same Python worker, so that their rows never cross the JVM.

Spark plans and logs which batch has which splits, as for any source. A split is a row: a part of a file, or a range of
a segment. Tasks read their splits and send the stamps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import polars as pl
import pyarrow as pa

from eventide._columns import NOW
from eventide._hints import with_option_hints
from eventide._paths import on_disk
from eventide.errors import PlanError, first_line
from eventide.marks.streams import open_stream
from eventide.spark import shuffle_pages as page
from eventide.spark.buckets import query_cores
from eventide.spark.connect_session import reject_spark_connect
from eventide.spark.errors import bad_file, no_session, unknown_choice
from eventide.spark.marks_batches import POSITION_COLUMNS, read_range
from eventide.spark.shuffle_pages import Stage, batch_time, freeze_gc, this_task
from eventide.spark.stamp import dead_letter_pages, pages_to_batch, stamp_to_pages, start_watermark
from eventide.spark.types import cast_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from eventide.plan.pipeline import Pipeline
    from eventide.spark.stamp import StampBatches

    ReadSplit = Callable[[dict[str, Any], Mapping[str, pl.DataType]], Iterator[pl.DataFrame | "Unreadable"]]

OnBadFile: TypeAlias = Literal["fail", "dead"]

_POLARS_SCHEMES = ("s3://", "s3a://", "gs://", "abfs://", "abfss://", "az://", "http://", "https://")
_FILE = "path string, modificationTime timestamp, length bigint, content binary"  # the content is never read
_FILE_ROWS = 2_000_000  # rows of a file that are read together
_STREAM_ROWS = 1_000_000  # events that are stamped together
_FAILURES = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)  # of a damaged or missing file


@dataclass(frozen=True)
class Unreadable:
    """Rows of a split that cannot be read, and the reason."""

    rows: str
    reason: str

    @property
    def message(self) -> str:
        """The detail of the dead letter."""
        return f"{self.rows} cannot be read: {self.reason}"


@dataclass(frozen=True)
class Scan:
    """A source that tasks read and stamp: for ``scan.transform(pipeline)`` and ``pipeline.run(scan, …)``."""

    schema: StructType = field(repr=False)
    spark: SparkSession = field(repr=False)

    isStreaming = True  # noqa: N815  # as on a DataFrame

    @property
    def keeps_unreadable(self) -> bool:
        """Whether a split that cannot be read becomes a dead letter; otherwise it stops the query."""
        return False

    @property
    def sparkSession(self) -> SparkSession:  # noqa: N802  # as on a DataFrame
        """The session of the scan."""
        return self.spark

    def transform(self, pipeline: Pipeline) -> DataFrame:
        """Return the panes of a pipeline over the scan."""
        return pipeline(self)

    def splits(self) -> DataFrame:
        """Return a row for each split, with the batch's time as ``NOW``."""
        raise NotImplementedError

    def reader(self) -> ReadSplit:
        """Return the function that reads the requested columns of a split in a task."""
        raise NotImplementedError


def stamp_splits(stage: Stage, edge: int, read: ReadSplit, *, keeps_unreadable: bool = False) -> StampBatches:
    """Return the task function that turns splits into pages."""

    def stamp(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        freeze_gc()
        task = this_task()
        watermark = start_watermark(stage, task)
        chunk = 0
        for split in (row for batch in batches for row in batch.to_pylist()):
            for rows in read(split, stage.schemas[edge]):
                sequence = page.sequence(task.number, chunk)
                chunk += 1
                if not isinstance(rows, Unreadable):
                    yield pages_to_batch(stamp_to_pages(stage, rows, split[NOW], sequence, watermark, edge))
                elif keeps_unreadable:
                    yield pages_to_batch(dead_letter_pages(stage, rows.message, split[NOW], sequence, edge))
                else:
                    raise bad_file(rows.rows, task.batch, rows.reason)

    return stamp


@dataclass(frozen=True)
class ParquetScan(Scan):
    """A directory of files as a stream."""

    path: str
    format: Literal["parquet", "arrow"]
    files_per_batch: int | None = None
    parts: int = 1  # of each file; each part is read by its own task
    on_bad_file: OnBadFile = "fail"

    @property
    def keeps_unreadable(self) -> bool:
        """Whether a file that cannot be read becomes a dead letter."""
        return self.on_bad_file == "dead"

    def splits(self) -> DataFrame:
        """Return a row for each part of a file."""
        from pyspark.sql import functions as F  # noqa: N812

        files = self.spark.readStream.format("binaryFile").schema(_FILE).option("pathGlobFilter", f"*.{self.format}")
        if self.files_per_batch is not None:
            files = files.option("maxFilesPerTrigger", self.files_per_batch)
        paths = files.load(self.path).select(F.col("path"), batch_time().alias(NOW))
        if self.parts == 1:
            return paths.withColumn("part", F.lit(0))
        # In a cross join every task lists the paths itself, which saves a shuffle in every batch.
        parts = self.spark.range(0, self.parts, 1, numPartitions=self.parts).select(F.col("id").alias("part"))
        return paths.hint("shuffle_replicate_nl").crossJoin(parts)

    def reader(self, parts: int | None = None) -> ReadSplit:
        """Return the function that reads a part of a file. ``parts`` overrides the number of parts of a file."""
        parts = parts or self.parts

        def read(split: dict[str, Any], schema: Mapping[str, pl.DataType]) -> Iterator[pl.DataFrame | Unreadable]:
            path = on_disk(split["path"]) or split["path"].replace("s3a://", "s3://", 1)  # as Polars opens it
            return _read(path, schema, split["part"], parts)

        return read


@with_option_hints
def scan_parquet(
    path: str,
    *,
    files_per_batch: int | None = None,
    parts: int | None = None,
    on_bad_file: OnBadFile = "fail",
    spark: SparkSession | None = None,
) -> ParquetScan:
    """Return Parquet files, existing and new ones, as the fastest source for a pipeline.

    It replaces ``spark.readStream.parquet(path)``. ``files_per_batch`` limits a micro-batch. Each file is read in
    ``parts`` tasks (default: enough to use all cores if a batch has fewer files than that).

    A file that cannot be read stops the query, with its name and the batch. With ``on_bad_file="dead"`` it becomes a
    dead letter with its name in ``detail`` and nulls in all other columns, and the query continues.

    >>> import eventide as ev
    >>> ev.scan_parquet("s3://shop/orders/").transform(revenue)  # doctest: +SKIP
    """
    session = _session(spark, "scan_parquet()")
    if on_bad_file not in get_args(OnBadFile):
        raise unknown_choice("scan_parquet()", "on_bad_file", on_bad_file, get_args(OnBadFile))
    files = session.read.option("ignoreCorruptFiles", on_bad_file == "dead").parquet(path)
    schema = files.schema
    directories = re.findall(r"/([^/=]+)=[^/]*(?=/)", next(iter(files.inputFiles()), ""))
    partition_columns = sorted(set(directories) & set(schema.names))
    if partition_columns:
        names = ", ".join(map(repr, partition_columns))
        raise PlanError(
            f"scan_parquet() reads only the contents of files, and {names} is in the names of their directories. "
            "Read them with spark.readStream.parquet()."
        )
    if not path.startswith(_POLARS_SCHEMES) and on_disk(path) is None:
        raise PlanError(f"scan_parquet() cannot open {path!r}. Read it with spark.readStream.parquet().")
    if parts is None:
        parts = -(-query_cores(session) // files_per_batch) if files_per_batch else 1
    return ParquetScan(schema, session, path, "parquet", files_per_batch, parts, on_bad_file)


def _read(path: str, schema: Mapping[str, pl.DataType], part: int, parts: int) -> Iterator[pl.DataFrame | Unreadable]:
    """Yield the rows of one part of a file in slices. A slice that cannot be read does not stop the following ones."""
    try:
        file = pl.scan_parquet(path, glob=False)
        total: int = file.select(pl.len()).collect().item()
        names = file.collect_schema().names()
    except _FAILURES as failure:
        if part == 0:  # once for the file, not once for each of its parts
            yield Unreadable(f"the file {path!r}", first_line(failure))
        return
    start, end = total * part // parts, total * (part + 1) // parts
    by_lower = {name.lower(): name for name in names}  # as in Spark, names of columns ignore case
    present = [pl.col(by_lower[name.lower()]).alias(name) for name in schema if name.lower() in by_lower]
    # A file that is older than a column has nulls in it, as in Spark.
    missing = [pl.lit(None, dtype).alias(name) for name, dtype in schema.items() if name.lower() not in by_lower]
    while start < end:
        size = min(_FILE_ROWS, end - start)
        try:
            rows = file.select(present).slice(start, size).collect() if present else pl.DataFrame({"": [None] * size})
            result: pl.DataFrame | Unreadable = cast_rows(rows.with_columns(missing).select(*schema), schema)
        except _FAILURES as failure:
            result = Unreadable(f"rows {start + 1} to {start + size} of the file {path!r}", first_line(failure))
        yield result
        start += size


@dataclass(frozen=True)
class StreamScan(Scan):
    """The events of a stream of ``eventide.marks``."""

    address: str = field(repr=False)
    options: Mapping[str, str] = field(repr=False)

    def splits(self) -> DataFrame:
        """Return a row for each range of a segment."""
        ranges = self.spark.readStream.format("eventide").option("only", "ranges").options(**self.options)
        return ranges.load(self.address).withColumn(NOW, batch_time())

    def reader(self) -> ReadSplit:
        """Return the function that reads a range of a segment."""
        address, token = self.address, self.options.get("token")

        def read(split: dict[str, Any], schema: Mapping[str, pl.DataType]) -> Iterator[pl.DataFrame]:
            stream = open_stream(address, token=token)
            columns = [name for name in schema if name not in dict(POSITION_COLUMNS)]
            for first, events in read_range(stream, split["segment"], split["start"], split["end"], rows=_STREAM_ROWS):
                yield _event_rows(events.select(columns), split["segment"], first, split["mark"], schema)

        return read


@with_option_hints
def scan_stream(
    address: str,
    *,
    rows_per_batch: int | None = None,
    start: str = "earliest",
    token: str | None = None,
    spark: SparkSession | None = None,
) -> StreamScan:
    """Return the events of a stream (``eventide.marks``) as the fastest source for a pipeline.

    It replaces ``spark.readStream.format("eventide").load(address)``. ``rows_per_batch`` limits a micro-batch.
    ``start`` is where a new query begins: ``"earliest"``, ``"latest"``, or a cut as JSON.

    >>> import eventide as ev
    >>> ev.scan_stream("sqlite:///shop.db#orders").transform(revenue)  # doctest: +SKIP
    """
    session = _session(spark, "scan_stream()")
    open_stream(address, token=token)  # an error of Spark would have a stack
    values = {"rows_per_batch": rows_per_batch, "token": token, "start": start}
    options = {name: str(value) for name, value in values.items() if value is not None}
    schema = session.readStream.format("eventide").options(**options).load(address).schema
    return StreamScan(schema, session, address, options)


def _event_rows(
    events: pa.Table, segment: int, first: int, mark: int, schema: Mapping[str, pl.DataType]
) -> pl.DataFrame:
    """Return events as rows, with the requested columns of their position."""
    position = {
        "_segment": pl.lit(segment, pl.Int64),
        "_offset": pl.int_range(first, first + len(events), dtype=pl.Int64),
        "_mark": pl.lit(mark, pl.Int64),
    }
    rows = pl.DataFrame(pl.from_arrow(events)) if events.num_columns else pl.select(_offset=position["_offset"])
    rows = rows.with_columns(**{name: column for name, column in position.items() if name in schema})
    return cast_rows(rows.select(list(schema)), schema)


def _session(spark: SparkSession | None, function: str) -> SparkSession:
    from pyspark.sql import SparkSession

    session = spark or SparkSession.getActiveSession()
    if session is None:
        raise no_session(function)
    reject_spark_connect(f"ev.{function}", "read the source with spark.readStream.", session)
    return session
