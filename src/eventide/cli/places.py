"""Addresses become Spark's DataFrames and Eventide's sinks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from eventide.cli.addresses import FILES, Address
from eventide.errors import cli as errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from eventide.sinks import Sink
    from eventide.spark.scan import Scan


def source(spark: SparkSession, address: Address, *, streaming: bool = True, fused: bool = False) -> DataFrame | Scan:
    """The rows at an address: as a stream, or those that are there now.

    With ``fused`` they are read by the stamp itself where that is possible, which is fastest; but then Spark cannot
    compute anything before the pipeline.
    """
    options = dict(address.options)
    if fused and streaming and (scan := _scan(spark, address)) is not None:
        return scan
    if address.kind in FILES:
        return _files(spark, address, options, streaming=streaming)
    if address.kind == "kafka":
        return _kafka(spark, address, options, streaming=streaming)
    reader = (spark.readStream if streaming else spark.read).options(**options)
    if address.kind == "rate":
        return reader.format("rate").option("rowsPerSecond", address.place or "1").load()
    return reader.format("eventide").load(address.place)


def sink(address: Address) -> Sink:
    """What rows are written to."""
    from eventide import sinks

    options: dict[str, Any] = dict(address.options)
    if address.kind == "console":
        return sinks.console(**{name: int(value) for name, value in options.items()})
    if address.kind == "noop":
        return sinks.noop()
    if address.kind == "files":
        return sinks.files(address.place, **options)
    if address.kind in FILES:
        return sinks.files(address.place, format=address.kind, **options)
    if address.kind == "kafka":
        options |= {"kafka.bootstrap.servers": address.name, "topic": address.place}
        return sinks.spark_format("kafka", **options)
    if address.kind == "eventide":
        return sinks.stream(address.place, **options)
    return sinks.table(address.place, name=address.name)


def by_input(
    spark: SparkSession, addresses: Mapping[str | None, Address], *, streaming: bool = True, fused: bool = False
) -> DataFrame | Scan | dict[str, Any]:
    """The rows of one source, or those of several by the names of their inputs."""
    rows = {name: source(spark, one, streaming=streaming, fused=fused) for name, one in addresses.items()}
    return rows[None] if list(rows) == [None] else {str(name): one for name, one in rows.items()}


def _files(spark: SparkSession, address: Address, options: dict[str, str], *, streaming: bool) -> DataFrame:
    schema = options.pop("schema", None) or _schema(spark, address, options)
    reader = (spark.readStream if streaming else spark.read).format(address.kind).options(**options)
    return reader.schema(schema).load(address.place)


def _scan(spark: SparkSession, address: Address) -> Scan | None:
    """The fastest way to read something, where it can be gone: without options, and plain files."""
    from pyspark.errors import AnalysisException

    from eventide.errors import PlanError

    if address.kind == "eventide" and not address.options:
        from eventide.marks.spark.scanning import scan_stream

        return scan_stream(address.place, spark=spark)
    if address.kind != "parquet" or address.options or any(letter in address.place for letter in "*?[{"):
        return None
    from eventide.spark.scanning import scan_parquet

    try:
        return scan_parquet(address.place, spark=spark)
    except (PlanError, AnalysisException):
        return None


def _schema(spark: SparkSession, address: Address, options: Mapping[str, str]) -> Any:
    """The columns of the files that are there."""
    from pyspark.errors import AnalysisException

    told = dict(options) | ({"inferSchema": "true"} if address.kind == "csv" else {})
    try:
        schema = spark.read.format(address.kind).options(**told).load(address.place).schema
    except AnalysisException as cause:
        if cause.getCondition() not in ("UNABLE_TO_INFER_SCHEMA", "PATH_NOT_FOUND"):
            raise
        raise errors.no_files(address.place) from cause
    if not schema.fields:
        raise errors.no_files(address.place)
    return schema


def _kafka(spark: SparkSession, address: Address, options: dict[str, str], *, streaming: bool) -> DataFrame:
    """Messages of a topic; with a schema, their JSON as columns beside ``partition`` and ``offset``."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F  # noqa: N812

    schema = options.pop("schema", None)
    reader = (spark.readStream if streaming else spark.read).format("kafka").options(**options)
    try:
        messages = reader.option("kafka.bootstrap.servers", str(address.name)).option("subscribe", address.place).load()
    except AnalysisException as cause:
        if cause.getCondition() != "KAFKA_DATA_SOURCE_NOT_ENABLED":
            raise
        raise errors.no_kafka(spark.version) from cause
    if schema is None:
        return messages
    body = F.from_json(F.col("value").cast("string"), schema).alias("body")
    return messages.select(body, "partition", "offset").select("body.*", "partition", "offset")
