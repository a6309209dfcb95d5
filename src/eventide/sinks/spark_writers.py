"""Sinks on top of Spark's writers: ``files``, ``spark_format`` and ``noop``.

Exactly once: ``files`` writes each batch into its own directory, and a repeated batch replaces that directory. Rows of
the driver as Parquet on a local disk replace it in one step, or not at all if it holds the same rows. Elsewhere Spark
deletes the directory first. A driver that was paused just before and is killed just after then loses what its successor
has committed: with state in the driver it checks for a successor, on the executors nothing does. ``spark_format``
writes a repeated batch again, so it is exactly once only if the writer ignores repeated rows.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventide._hints import with_option_hints
from eventide._paths import local_path
from eventide.errors import PlanError
from eventide.sinks.batch import flat_fields, flatten
from eventide.sinks.batch_directory import BatchMarker, remove_unfinished, replace_directory
from eventide.sinks.errors import bad_option, second_output
from eventide.sinks.kafka_messages import kafka_messages
from eventide.sinks.sink import Output, OutputInfo, Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from eventide.sinks.batch import SinkBatch

_FLAT_FORMATS = frozenset({"csv", "jdbc"})  # without nested types
_MODES = ("append", "overwrite", "error", "errorifexists", "ignore")


@with_option_hints
def files(path: str | os.PathLike[str], *, format: str = "parquet", **options: Any) -> Sink:
    """Files below ``path``, exactly once: each batch has its own directory ``batch=<id>``, which a replay overwrites.

    Reading ``path`` gives all rows, with a column ``batch``. A batch without rows leaves no directory. In formats
    without nested types (CSV), lists and structs become JSON. ``options`` are those of Spark's writer. Batch numbers
    belong to a checkpoint: with a new checkpoint, use a new path.

    >>> files("/data/panes", compression="zstd")
    files('/data/panes', format='parquet', compression='zstd')
    """
    return FilesSink(os.fspath(path), format, options)


@with_option_hints
def spark_format(name: str, *, mode: str = "append", **options: Any) -> Sink:
    """Any writer that Spark has or can load: Kafka, JDBC, Delta, Iceberg. ``options`` are those of the writer.

    It is exactly once only if the writer is: a batch that Spark repeats after a failure is written again. Kafka and
    JDBC then have its rows twice. Delta drops the repeated batch if it gets ``txnAppId`` and ``txnVersion``, for which
    you use a function as the sink.

    Kafka gets the key columns as JSON in ``key`` and the whole row as JSON in ``value``. For JDBC, nested values become
    JSON.

    >>> spark_format("kafka", topic="panes")
    spark_format('kafka', mode='append', topic='panes')
    """
    if mode not in _MODES:
        raise bad_option("spark_format", "mode", mode, f"one of {', '.join(map(repr, _MODES))}")
    return FormatSink(name, mode, options)


@with_option_hints
def noop() -> Sink:
    """No output: the batch is computed and dropped. For measurements, or if only another output matters.

    >>> noop()
    noop()
    """
    return NoopSink()


@dataclass
class FilesSink:
    """A directory per batch."""

    path: str
    format: str
    options: dict[str, Any]
    _output: Output | None = field(default=None, repr=False)
    _roots: list[Path | None] = field(default_factory=list, repr=False, compare=False)  # at most one, after a batch

    def __repr__(self) -> str:
        return _call("files", self.path, {"format": self.format} | self.options)

    def open(self, schema: StructType, info: OutputInfo) -> None:
        """Reject a second output, and rows with a column ``batch``."""
        if self._output not in (None, info.output):
            raise second_output(repr(self), str(self._output), info.output)
        for name in schema.names:
            if name.lower() == "batch":
                raise PlanError(
                    f"sinks.files(): the rows have a column {name!r}, and so have the directories batch=0, batch=1, …: "
                    "reading them back would be ambiguous. Rename the column."
                )
        self._output = info.output

    def write(self, batch: SinkBatch, batch_id: int, info: OutputInfo) -> None:
        """Replace the directory of the batch, unless it holds these rows."""
        if batch.is_local and batch.is_empty():
            return
        name = f"batch={batch_id}"
        directory = f"{self.path.rstrip('/')}/{name}"
        if not batch.is_local:
            if not batch.is_empty():
                self._write_with_spark(batch, directory)
        elif (root := self._root(batch.spark)) is not None:
            compression = self.options.get("compression", "snappy")
            replace_directory(batch.arrow, root / name, compression, check_writer=batch.check_writer)
        elif not (marker := BatchMarker(directory, batch.arrow, batch.spark)).is_present():
            batch.check_writer()  # Spark deletes the directory first
            self._write_with_spark(batch, directory)
            marker.write()

    def close(self) -> None:
        """Do nothing."""

    def _write_with_spark(self, batch: SinkBatch, directory: str) -> None:
        writer = _as_written(batch.dataframe, self.format).write.format(self.format).mode("overwrite")
        writer.options(**self.options).save(directory)

    def _root(self, spark: SparkSession) -> Path | None:
        """Return the local directory if Arrow can write it as Spark would; None: Spark writes it.

        The first batch looks it up: to ask Spark for its default file system costs milliseconds. It also removes what
        killed writers have left. No other driver writes then, because batches are fenced.
        """
        if not self._roots:
            is_plain = self.format == "parquet" and set(self.options) <= {"compression"}
            self._roots.append(root := local_path(self.path, spark) if is_plain else None)
            if root is not None:
                remove_unfinished(root)
        return self._roots[0]


@dataclass
class FormatSink:
    """A writer of Spark."""

    name: str
    mode: str
    options: dict[str, Any]

    def __repr__(self) -> str:
        hidden = {name: "…" if "password" in name.lower() else value for name, value in self.options.items()}
        return _call("spark_format", self.name, {"mode": self.mode} | hidden)

    def open(self, schema: StructType, info: OutputInfo) -> None:
        """Do nothing: the writer checks its options with the first batch."""

    def write(self, batch: SinkBatch, batch_id: int, info: OutputInfo) -> None:
        """Write the batch."""
        is_kafka = self.name.lower() == "kafka"
        rows = kafka_messages(batch, batch_id, info) if is_kafka else _as_written(batch.dataframe, self.name)
        rows.write.format(self.name).mode(self.mode).options(**self.options).save()

    def close(self) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class NoopSink:
    """Computes batches and drops them."""

    def __repr__(self) -> str:
        return "noop()"

    def open(self, schema: StructType, info: OutputInfo) -> None:
        """Do nothing."""

    def write(self, batch: SinkBatch, batch_id: int, info: OutputInfo) -> None:
        """Compute the batch, because state on the executors advances only with it."""
        if not batch.is_local:
            batch.dataframe.write.format("noop").mode("overwrite").save()

    def close(self) -> None:
        """Do nothing."""


def _as_written(rows: DataFrame, format: str) -> DataFrame:
    """Return rows as a format can store them."""
    return flatten(rows, flat_fields(rows.schema)) if format.lower() in _FLAT_FORMATS else rows


def _call(name: str, first: str, options: dict[str, Any]) -> str:
    return f"{name}({', '.join([repr(first), *(f'{k}={v!r}' for k, v in options.items())])})"
