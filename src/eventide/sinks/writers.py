"""Sinks that are Spark's own writers: files, any other format, and nothing at all."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventide.errors import sinks as errors
from eventide.sinks.flat import JSON, flat, flat_fields
from eventide.sinks.parquet import write_parquet
from eventide.sinks.sink import About, Output, Sink
from eventide.spark.addresses import local_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from eventide.sinks.batch import SinkBatch

_FLAT = frozenset({"csv", "jdbc"})  # formats that have no nested types
_MODES = ("append", "overwrite", "error", "errorifexists", "ignore")


def files(path: str | os.PathLike[str], *, format: str = "parquet", **options: Any) -> Sink:
    """Files below ``path``, exactly once: each batch has its own directory ``batch=<id>``, which a replay overwrites.

    Reading ``path`` gives all rows, with a column ``batch``; a batch without rows leaves no directory. In formats that
    cannot nest (CSV), ``window`` and ``pane`` become columns of their own. ``options`` are those of Spark's writer.
    The numbers of batches belong to a checkpoint: with a new checkpoint, use a new path.

    >>> files("/data/panes", compression="zstd")
    files('/data/panes', format='parquet', compression='zstd')
    """
    return FilesSink(os.fspath(path), format, options)


def spark_format(name: str, *, mode: str = "append", **options: Any) -> Sink:
    """Any writer that Spark has or can load: Kafka, JDBC, Delta, Iceberg. ``options`` are those of the writer.

    It is as exactly-once as that writer is: a batch that Spark repeats after a failure is written again. Kafka and JDBC
    then have its rows twice. Delta drops the repeated batch if it gets ``txnAppId`` and ``txnVersion``, for which a
    function of your own is the sink.

    Kafka gets the key columns as JSON in ``key`` and the whole row as JSON in ``value``. For JDBC, ``window`` and
    ``pane`` become columns of their own, and all that is nested becomes JSON.

    >>> spark_format("kafka", topic="panes")
    spark_format('kafka', mode='append', topic='panes')
    """
    if mode not in _MODES:
        raise errors.bad_option("spark_format", "mode", mode, f"one of {', '.join(map(repr, _MODES))}")
    return FormatSink(name, mode, options)


def noop() -> Sink:
    """Nowhere. The batch is computed and forgotten: for measuring, or where another output is what counts.

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
    _roots: list[Path | None] = field(default_factory=list, repr=False, compare=False)  # once it is known

    def __repr__(self) -> str:
        return _call("files", self.path, {"format": self.format} | self.options)

    @property
    def flattens_windows(self) -> bool:
        """Whether the bounds of a window become columns."""
        return self.format.lower() in _FLAT

    def open(self, schema: StructType, about: About) -> None:
        """Refuse a second output, and rows that have a ``batch`` already."""
        if self._output not in (None, about.output):
            raise errors.second_output(repr(self), str(self._output), about.output)
        for name in schema.names:
            if name.lower() == "batch":
                raise errors.batch_column_taken(name)
        self._output = about.output

    def write(self, batch: SinkBatch, batch_id: int, about: About) -> None:
        """Replace the directory of the batch."""
        if batch.is_local and batch.is_empty():
            return
        name = f"batch={batch_id}"
        if batch.is_local and (root := self._root(batch.spark)) is not None:
            write_parquet(batch.arrow, root / name, self.options.get("compression", "snappy"))
        elif not batch.is_empty():
            rows = _fitting(batch.dataframe, self.format, about)
            rows.write.format(self.format).mode("overwrite").options(**self.options).save(
                f"{self.path.rstrip('/')}/{name}"
            )

    def close(self) -> None:
        """Nothing to let go of."""

    def _root(self, spark: SparkSession) -> Path | None:
        """Return the local directory, where Arrow can write it as Spark would; None: Spark writes it.

        The first batch finds it: to ask Spark for its default file system costs milliseconds.
        """
        if not self._roots:
            known = self.format == "parquet" and set(self.options) <= {"compression"}
            self._roots.append(local_path(self.path, spark) if known else None)
        return self._roots[0]


@dataclass
class FormatSink:
    """A writer of Spark's."""

    name: str
    mode: str
    options: dict[str, Any]

    def __repr__(self) -> str:
        hidden = {name: "…" if "password" in name.lower() else value for name, value in self.options.items()}
        return _call("spark_format", self.name, {"mode": self.mode} | hidden)

    @property
    def flattens_windows(self) -> bool:
        """Whether the bounds of a window become columns."""
        return self.name.lower() in _FLAT

    def open(self, schema: StructType, about: About) -> None:
        """The writer itself looks at its options, with the first batch."""

    def write(self, batch: SinkBatch, batch_id: int, about: About) -> None:
        """Hand the batch over."""
        frame = batch.dataframe
        rows = _messages(frame, about) if self.name == "kafka" else _fitting(frame, self.name, about)
        rows.write.format(self.name).mode(self.mode).options(**self.options).save()

    def close(self) -> None:
        """Nothing to let go of."""


@dataclass(frozen=True)
class NoopSink:
    """Computes and forgets."""

    def __repr__(self) -> str:
        return "noop()"

    def open(self, schema: StructType, about: About) -> None:
        """Nothing to prepare."""

    def write(self, batch: SinkBatch, batch_id: int, about: About) -> None:
        """Compute the batch: state moves on only if it is."""
        if not batch.is_local:
            batch.dataframe.write.format("noop").mode("overwrite").save()

    def close(self) -> None:
        """Nothing to let go of."""


def _fitting(batch: DataFrame, format: str, about: About) -> DataFrame:
    if format.lower() not in _FLAT:
        return batch
    return flat(batch, flat_fields(batch.schema, panes=about.output == "panes"))


def _messages(batch: DataFrame, about: About) -> DataFrame:
    """Rows as Kafka takes them."""
    from pyspark.sql import functions as spark

    def packed(names: list[str]) -> Any:
        return spark.to_json(spark.struct(*(f"`{name.replace('`', '``')}`" for name in names)), JSON)

    key = [name for name in about.key if name in batch.columns]
    value = packed(batch.columns).alias("value")
    return batch.select(packed(key).alias("key"), value) if key else batch.select(value)


def _call(name: str, first: str, options: dict[str, Any]) -> str:
    return f"{name}({', '.join([repr(first), *(f'{k}={v!r}' for k, v in options.items())])})"
